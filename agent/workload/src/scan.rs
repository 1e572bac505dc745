//! Finds jobs of schedulers that create no cgroups, by the environment of their processes, on hosts where a daemon of
//! such a scheduler runs. Called by the sampler `workload`.
//!
//! `/proc` is listed every 15 s. A process is read when it is new and once more afterwards, since it may be about to
//! execute another program; the number of processes per look is bounded. Without a daemon only the names of new
//! processes are read, and no environment.

use crate::cgroup;
use crate::details::environment;
use crate::environ::{EnvironJob, of_environment};
use crate::rules::ALL;
use fabriclens_agent_host::sysfile::maybe;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Interval between two lists of `/proc`.
const PERIOD: Duration = Duration::from_secs(15);
/// Processes read per look, after the first one.
const BUDGET: usize = 64;
/// Number of times that a process is read.
const LOOKS: u8 = 2;

/// Scanner of processes.
#[derive(Debug)]
pub struct Scan {
    proc: PathBuf,
    listed: Option<Instant>,
    /// Processes, and the number of times that they were read.
    looks: HashMap<u32, u8>,
    waiting: VecDeque<u32>,
    found: HashMap<u32, EnvironJob>,
    /// Process id of a scheduler's daemon.
    daemon: Option<u32>,
    /// Number of processes read so far.
    pub looked: u64,
}

impl Scan {
    /// Scanner of this procfs.
    pub fn new(proc: &Path) -> Self {
        Self {
            proc: proc.to_owned(),
            listed: None,
            looks: HashMap::new(),
            waiting: VecDeque::new(),
            found: HashMap::new(),
            daemon: None,
            looked: 0,
        }
    }

    /// Whether the procfs shows any process.
    pub fn is_possible(&self) -> bool {
        pids(&self.proc).next().is_some()
    }

    /// Jobs that only the environment identifies, by process id.
    pub fn found(&self) -> &HashMap<u32, EnvironJob> {
        &self.found
    }

    /// Daemon because of which environments are read.
    pub fn daemon(&self) -> Option<u32> {
        self.daemon
    }

    /// Reads the processes that are due.
    pub fn look(&mut self) {
        let first = self.listed.is_none();
        if self.listed.is_none_or(|at| at.elapsed() >= PERIOD) {
            self.list();
        }
        let had_daemon = self.daemon;
        self.some(if first { usize::MAX } else { BUDGET });
        if self.daemon.is_some() && had_daemon.is_none() {
            // Processes seen before the daemon started may belong to a job.
            self.looks.values_mut().for_each(|looks| *looks = 0);
            self.waiting = self.looks.keys().copied().collect();
            self.some(if first { usize::MAX } else { BUDGET });
        }
    }

    fn list(&mut self) {
        self.listed = Some(Instant::now());
        let present: HashSet<u32> = pids(&self.proc).collect();
        self.looks.retain(|pid, _| present.contains(pid));
        self.found.retain(|pid, _| present.contains(pid));
        let mut due: Vec<u32> =
            present.into_iter().filter(|pid| *self.looks.entry(*pid).or_default() < LOOKS).collect();
        due.sort_unstable();
        self.waiting = due.into();
    }

    fn some(&mut self, budget: usize) {
        for _ in 0..budget {
            let Some(pid) = self.waiting.pop_front() else { break };
            self.looked += 1;
            if let Some(looks) = self.looks.get_mut(&pid) {
                *looks += 1;
            }
            let file = |name: &str| maybe(&self.proc.join(pid.to_string()).join(name)).unwrap_or_default();
            self.daemon = self.daemon.or_else(|| is_daemon(&file("comm")).then_some(pid));
            if self.daemon.is_none() || cgroup::of_process(&file("cgroup")).is_some() {
                continue;
            }
            match environment(&self.proc, pid).ok().and_then(|bytes| of_environment(&bytes)) {
                Some(job) => _ = self.found.insert(pid, job),
                None => _ = self.found.remove(&pid),
            }
        }
    }
}

fn pids(proc: &Path) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn is_daemon(name: &str) -> bool {
    ALL.iter().flat_map(|scheduler| scheduler.daemons).any(|daemon| name.starts_with(daemon))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(proc: &Path, pid: u32, name: &str, group: &str, environment: &str) {
        let dir = proc.join(pid.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        for (file, text) in [("comm", name), ("cgroup", group), ("environ", environment)] {
            std::fs::write(dir.join(file), text).unwrap();
        }
    }

    fn found(scan: &mut Scan) -> Vec<(u32, String)> {
        scan.look();
        let mut all: Vec<_> = scan.found().iter().map(|(pid, job)| (*pid, job.task.clone())).collect();
        all.sort();
        all
    }

    /// Makes the next list due.
    fn later(scan: &mut Scan) {
        scan.listed = Some(Instant::now().checked_sub(PERIOD).unwrap());
    }

    #[test]
    fn without_a_daemon_no_environment_is_looked_at() {
        let tree = tempfile::tempdir().unwrap();
        process(tree.path(), 10, "python", "0::/user.slice\n", "JOB_ID=5\0SGE_TASK_ID=2\0");
        let mut scan = Scan::new(tree.path());
        assert_eq!(found(&mut scan), []);
        process(tree.path(), 9, "sge_shepherd", "0::/system.slice/sge.service\n", "");
        assert_eq!(found(&mut scan), [], "not listed before it is due");
        later(&mut scan);
        assert_eq!(found(&mut scan), [(10, "5.2".into())], "what was passed over is looked at again");
        std::fs::remove_dir_all(tree.path().join("10")).unwrap();
        later(&mut scan);
        assert_eq!(found(&mut scan), []);
    }

    #[test]
    fn a_process_that_replaces_itself_is_looked_at_again_and_then_no_more() {
        let tree = tempfile::tempdir().unwrap();
        process(tree.path(), 9, "pbs_mom", "0::/system.slice/pbs.service\n", "");
        process(tree.path(), 10, "pbs_mom", "0::/system.slice/pbs.service\n", "");
        process(tree.path(), 11, "a.out", "0::/slurm/uid_1/job_3\n", "PBS_JOBID=8.h\0");
        let mut scan = Scan::new(tree.path());
        assert_eq!(found(&mut scan), []);
        process(tree.path(), 10, "a.out", "0::/system.slice/pbs.service\n", "PBS_JOBID=7.h\0");
        for _ in 0..3 {
            later(&mut scan);
            assert_eq!(found(&mut scan), [(10, "7.h".into())], "and a group that tells is the truth");
        }
        let looked = scan.looked;
        later(&mut scan);
        scan.look();
        assert_eq!(scan.looked, looked);
    }

    #[test]
    fn many_new_processes_wait_for_their_turn() {
        let tree = tempfile::tempdir().unwrap();
        let mut scan = Scan::new(tree.path());
        scan.look();
        for pid in 0..200 {
            process(tree.path(), 100 + pid, "x", "", "");
        }
        later(&mut scan);
        scan.look();
        assert_eq!(scan.looked as usize, BUDGET);
        scan.look();
        assert_eq!(scan.looked as usize, 2 * BUDGET);
    }
}
