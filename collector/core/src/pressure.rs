//! Memory pressure: the memory of the process against the limit of the configuration, of its control group, or of the
//! machine. The kernel kills a process above its limit, so ingest sheds load before that, by priority class.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Lowest use for each level, in percent of the limit, highest first.
const SHARES: [(u64, Level); 3] = [(95, Level::Full), (90, Level::High), (85, Level::Raised)];
/// Limits above this mean none: a control group without limit reports the largest page count or `max`.
const UNLIMITED: u64 = 1 << 60;

/// How close memory use is to the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Below 85 %, or no limit.
    Normal,
    /// From 85 %: requests of the lowest priority class wait.
    Raised,
    /// From 90 %: only samples that detectors need are accepted.
    High,
    /// From 95 %: all samples are rejected.
    Full,
}

/// Last reading of the process's memory, and its limit.
#[derive(Debug)]
pub struct Pressure {
    limit: u64,
    used: AtomicU64,
}

impl Pressure {
    /// Uses `limit` in bytes, or else that of the control group, but never more than the machine has.
    pub fn new(limit: Option<u64>) -> Self {
        let root = Path::new("/");
        let limit =
            limit.or_else(|| cgroup_limit(root)).unwrap_or(UNLIMITED).min(machine_memory(root).unwrap_or(UNLIMITED));
        let pressure = Self { limit, used: AtomicU64::new(0) };
        pressure.refresh();
        pressure
    }

    /// A fixed reading, for tests: `used` of `limit` bytes.
    pub fn fixed(used: u64, limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(used) }
    }

    /// Overwrites the last reading, for tests.
    pub fn set_used(&self, used: u64) {
        self.used.store(used, Ordering::Relaxed);
    }

    /// Reads the memory of the process; called several times a second.
    pub fn refresh(&self) {
        if let Some(used) = private_memory() {
            self.used.store(used, Ordering::Relaxed);
        }
    }

    /// Memory of the process at the last reading, bytes.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Memory that the process may use, bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Level of the last reading.
    pub fn level(&self) -> Level {
        let used = self.used();
        let reached = |(percent, _): &&(u64, Level)| used >= self.limit / 100 * percent;
        SHARES.iter().find(reached).map_or(Level::Normal, |(_, level)| *level)
    }
}

/// Private memory of the process, bytes. Mapped files do not count, since the kernel can drop their pages.
fn private_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split_ascii_whitespace().skip(1).map_while(|n| n.parse::<u64>().ok());
    let (resident, shared) = (pages.next()?, pages.next()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

/// Smallest limit of the control group and its ancestors, bytes; cgroup v1 and v2.
fn cgroup_limit(root: &Path) -> Option<u64> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            c if c.split(',').any(|c| c == "memory") => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return Vec::new(),
        };
        let base = root.join(mount);
        let own = base.join(path.trim_start_matches('/'));
        // In a container the path may be that of the host, while the mount is the group itself.
        let above: Vec<PathBuf> = own.ancestors().take_while(|a| a.starts_with(&base)).map(|a| a.join(file)).collect();
        above
    });
    let read = |path: PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    limits.filter_map(read).filter(|l| *l < UNLIMITED).min()
}

/// Memory of the machine, bytes.
fn machine_memory(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let total = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    Some(total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_ancestor_limit_wins_in_both_cgroup_versions() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(cgroup_limit(dir.path()), None);
        put("proc/self/cgroup", "0::/system.slice/fabriclens.service\n");
        put("sys/fs/cgroup/system.slice/fabriclens.service/memory.max", "max\n");
        assert_eq!(cgroup_limit(dir.path()), None);
        put("sys/fs/cgroup/system.slice/memory.max", "1000\n");
        put("sys/fs/cgroup/system.slice/fabriclens.service/memory.max", "2000\n");
        assert_eq!(cgroup_limit(dir.path()), Some(1000));
        put("proc/self/cgroup", "5:cpu,memory:/docker/x\n1:name=systemd:/y\n");
        put("sys/fs/cgroup/memory/memory.limit_in_bytes", "3000\n");
        put("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(cgroup_limit(dir.path()), Some(3000));
    }

    #[test]
    fn level_rises_with_use() {
        let at = |used| Pressure::fixed(used, 1000).level();
        assert_eq!((at(0), at(849), at(850), at(899)), (Level::Normal, Level::Normal, Level::Raised, Level::Raised));
        assert_eq!((at(900), at(949), at(950)), (Level::High, Level::High, Level::Full));
        assert!(
            Pressure::new(None).limit() <= machine_memory(Path::new("/")).unwrap(),
            "at most the memory of the machine"
        );
        let held = std::hint::black_box(vec![1u8; 4 << 20]);
        assert!(Pressure::new(None).used() > held.len() as u64, "the process uses what it holds");
    }
}
