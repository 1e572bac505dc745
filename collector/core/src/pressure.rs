//! How much memory the process has of what it may have: by the config, or by the control group that it runs in. The
//! kernel ends who takes more, so before that the way in closes, by rank (see [`fabriclens_ingest`]).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// From these shares of the limit on, in per cent.
const SHARES: [(u64, Level); 3] = [(95, Level::Full), (90, Level::High), (85, Level::Raised)];
/// A control group without a limit says the largest number of pages, or `max`.
const UNLIMITED: u64 = 1 << 60;

/// How near the limit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Far, or there is none.
    Calm,
    /// What can come later, should.
    Raised,
    /// So should all but what verdicts need.
    High,
    /// Nothing more.
    Full,
}

/// See the module.
#[derive(Debug)]
pub struct Pressure {
    limit: u64,
    used: AtomicU64,
}

impl Pressure {
    /// With a limit in bytes; without it, that of the control group, and in no case more than the machine has.
    pub fn new(limit: Option<u64>) -> Self {
        let root = Path::new("/");
        let limit = limit.or_else(|| of_group(root)).unwrap_or(UNLIMITED).min(of_machine(root).unwrap_or(UNLIMITED));
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

    /// Reads what the process has now; told a few times a second.
    pub fn refresh(&self) {
        if let Some(used) = resident() {
            self.used.store(used, Ordering::Relaxed);
        }
    }

    /// What it had when it was last looked at, bytes.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// What it may have, bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How near the one is to the other.
    pub fn level(&self) -> Level {
        let used = self.used();
        let reached = |(percent, _): &&(u64, Level)| used >= self.limit / 100 * percent;
        SHARES.iter().find(reached).map_or(Level::Calm, |(_, level)| *level)
    }
}

/// Memory that is the process' own: pages of files that are mapped can be had again and do not count.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split_ascii_whitespace().skip(1).map_while(|n| n.parse::<u64>().ok());
    let (resident, shared) = (pages.next()?, pages.next()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

/// The smallest limit of the control group and those above it, in either version.
fn of_group(root: &Path) -> Option<u64> {
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
        // In a container the path may be that of the host, and the mount the group itself.
        let above: Vec<PathBuf> = own.ancestors().take_while(|a| a.starts_with(&base)).map(|a| a.join(file)).collect();
        above
    });
    let read = |path: PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    limits.filter_map(read).filter(|l| *l < UNLIMITED).min()
}

/// All memory of the machine.
fn of_machine(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let total = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    Some(total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_above_counts_in_both_versions() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(of_group(dir.path()), None);
        put("proc/self/cgroup", "0::/system.slice/fabriclens.service\n");
        put("sys/fs/cgroup/system.slice/fabriclens.service/memory.max", "max\n");
        assert_eq!(of_group(dir.path()), None);
        put("sys/fs/cgroup/system.slice/memory.max", "1000\n");
        put("sys/fs/cgroup/system.slice/fabriclens.service/memory.max", "2000\n");
        assert_eq!(of_group(dir.path()), Some(1000));
        put("proc/self/cgroup", "5:cpu,memory:/docker/x\n1:name=systemd:/y\n");
        put("sys/fs/cgroup/memory/memory.limit_in_bytes", "3000\n");
        put("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(of_group(dir.path()), Some(3000));
    }

    #[test]
    fn levels_rise_with_what_is_used() {
        let at = |used| Pressure::fixed(used, 1000).level();
        assert_eq!((at(0), at(849), at(850), at(899)), (Level::Calm, Level::Calm, Level::Raised, Level::Raised));
        assert_eq!((at(900), at(949), at(950)), (Level::High, Level::High, Level::Full));
        assert!(Pressure::new(None).limit() <= of_machine(Path::new("/")).unwrap(), "never more than there is");
        assert!(Pressure::new(None).used() > 1 << 20, "a process has some");
    }
}
