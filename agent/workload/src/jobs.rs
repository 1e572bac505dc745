//! Registry of the jobs on this host. The sampler `workload` updates it; `queue_pairs` and `tcp_peers` look up the job
//! of a process or cgroup. One per host.

use crate::cgroup;
use fabriclens_agent_host::sysfile::maybe;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Identity of a job on this host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Label `scheduler`.
    pub scheduler: &'static str,
    /// Label `job`.
    pub job: Arc<str>,
}

impl Key {
    /// Key from the fields of a path or an environment.
    pub fn new(scheduler: &'static str, job: &str) -> Self {
        Self { scheduler, job: Arc::from(job) }
    }
}

/// Details of a job; empty where unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// Job id as the scheduler prints it.
    pub task: String,
    /// Cluster.
    pub cluster: String,
    /// Name or id of the user.
    pub user: String,
}

/// Registry of jobs.
#[derive(Debug, Default)]
pub struct Jobs {
    known: Mutex<KnownJobs>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct KnownJobs {
    /// The first update has happened, or will never happen.
    ready: bool,
    clusters: HashMap<Key, String>,
    /// Jobs of processes whose cgroup does not identify their job.
    processes: HashMap<u32, Key>,
    /// Cgroups of version 2, by the inode of their directory.
    groups: HashMap<u64, Key>,
}

impl Jobs {
    /// Replaces the contents: clusters of jobs, processes that only their environment identifies, and cgroups of
    /// version 2 by the inode of their directory.
    pub fn tell(&self, clusters: HashMap<Key, String>, processes: HashMap<u32, Key>, groups: HashMap<u64, Key>) {
        *self.known.lock() = KnownJobs { ready: true, clusters, processes, groups };
        self.changed.notify_all();
    }

    /// Declares that no update will come, so that `wait` returns.
    pub fn close(&self) {
        self.known.lock().ready = true;
        self.changed.notify_all();
    }

    /// Waits for the first update, at most this long.
    pub fn wait(&self, longest: Duration) {
        let mut known = self.known.lock();
        if !known.ready {
            self.changed.wait_for(&mut known, longest);
        }
    }

    /// Job of a version 2 cgroup, by the inode of its directory.
    pub fn of_group(&self, inode: u64) -> Option<Key> {
        self.known.lock().groups.get(&inode).cloned()
    }

    /// Whether the job has a version 2 cgroup on this host.
    pub fn runs(&self, key: &Key) -> bool {
        self.known.lock().groups.values().any(|other| other == key)
    }

    /// Cluster of a job; empty if unknown.
    pub fn cluster(&self, key: &Key) -> String {
        self.known.lock().clusters.get(key).cloned().unwrap_or_default()
    }

    /// Job of a process, and its cluster.
    pub fn of_process(&self, proc: &Path, pid: u32) -> Option<(Key, String)> {
        let lines = maybe(&proc.join(pid.to_string()).join("cgroup")).unwrap_or_default();
        let by_group = cgroup::of_process(&lines).map(|place| Key::new(place.scheduler, &place.job));
        let known = self.known.lock();
        let key = by_group.or_else(|| known.processes.get(&pid).cloned())?;
        let cluster = known.clusters.get(&key).cloned().unwrap_or_default();
        Some((key, cluster))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_takes_precedence_over_environment() {
        let proc = tempfile::tempdir().unwrap();
        std::fs::create_dir(proc.path().join("17")).unwrap();
        std::fs::write(proc.path().join("17/cgroup"), "0::/system.slice/slurmstepd.scope/job_7/step_0\n").unwrap();
        let (slurm, sge) = (Key::new("slurm", "7"), Key::new("sge", "8"));
        let jobs = Jobs::default();
        assert_eq!(jobs.of_process(proc.path(), 17), Some((slurm.clone(), String::new())), "before the first update");
        let clusters = HashMap::from([(slurm.clone(), "west".to_owned())]);
        let groups = HashMap::from([(4242, slurm.clone())]);
        jobs.tell(clusters, HashMap::from([(17, sge.clone()), (18, sge.clone())]), groups);
        assert_eq!((jobs.of_group(4242), jobs.of_group(17)), (Some(slurm.clone()), None));
        assert_eq!((jobs.runs(&slurm), jobs.runs(&sge), &*jobs.cluster(&slurm)), (true, false, "west"));
        jobs.wait(Duration::from_secs(3600));
        assert_eq!(jobs.of_process(proc.path(), 17), Some((slurm, "west".into())));
        assert_eq!(jobs.of_process(proc.path(), 18), Some((sge, String::new())));
        assert_eq!(jobs.of_process(proc.path(), 19), None);
    }
}
