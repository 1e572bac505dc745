//! The jobs that this host is known to run, for whoever must tell whose something is. The sampler `workload` fills it;
//! `queue_pairs` and `tcp_peers` ask it. One a host.

use crate::cgroup;
use fabriclens_agent_host::sysfile::maybe;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Which job, on this host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Label `scheduler`.
    pub scheduler: &'static str,
    /// Label `job`.
    pub job: Arc<str>,
}

impl Key {
    /// Of what a path or an environment tells.
    pub fn new(scheduler: &'static str, job: &str) -> Self {
        Self { scheduler, job: Arc::from(job) }
    }
}

/// What is known of a job beside its id; empty where not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// The id as the scheduler prints it.
    pub task: String,
    /// Cluster.
    pub cluster: String,
    /// Name or number of the user.
    pub user: String,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Jobs {
    told: Mutex<Told>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Told {
    /// Somebody has looked, or nobody ever will.
    ready: bool,
    clusters: HashMap<Key, String>,
    /// Processes whose control group does not tell their job.
    processes: HashMap<u32, Key>,
    /// Control groups of version 2 by the inode of their directory.
    groups: HashMap<u64, Key>,
}

impl Jobs {
    /// Replaces what is known: clusters of jobs, processes that only their environment gives away, and control groups of
    /// version 2 by the inode of their directory.
    pub fn tell(&self, clusters: HashMap<Key, String>, processes: HashMap<u32, Key>, groups: HashMap<u64, Key>) {
        *self.told.lock() = Told { ready: true, clusters, processes, groups };
        self.changed.notify_all();
    }

    /// Nobody will look for jobs: those who wait need not.
    pub fn close(&self) {
        self.told.lock().ready = true;
        self.changed.notify_all();
    }

    /// Waits until somebody has looked for jobs once, at most so long.
    pub fn wait(&self, longest: Duration) {
        let mut told = self.told.lock();
        if !told.ready {
            self.changed.wait_for(&mut told, longest);
        }
    }

    /// The job of a control group of version 2, by the inode of its directory.
    pub fn of_group(&self, inode: u64) -> Option<Key> {
        self.told.lock().groups.get(&inode).cloned()
    }

    /// Whether the job has a control group of version 2 here.
    pub fn runs(&self, key: &Key) -> bool {
        self.told.lock().groups.values().any(|other| other == key)
    }

    /// The cluster of a job; empty where not known.
    pub fn cluster(&self, key: &Key) -> String {
        self.told.lock().clusters.get(key).cloned().unwrap_or_default()
    }

    /// The job of a process, and its cluster.
    pub fn of_process(&self, proc: &Path, pid: u32) -> Option<(Key, String)> {
        let lines = maybe(&proc.join(pid.to_string()).join("cgroup")).unwrap_or_default();
        let by_group = cgroup::of_process(&lines).map(|place| Key::new(place.scheduler, &place.job));
        let told = self.told.lock();
        let key = by_group.or_else(|| told.processes.get(&pid).cloned())?;
        let cluster = told.clusters.get(&key).cloned().unwrap_or_default();
        Some((key, cluster))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_its_groups_then_its_environments() {
        let proc = tempfile::tempdir().unwrap();
        std::fs::create_dir(proc.path().join("17")).unwrap();
        std::fs::write(proc.path().join("17/cgroup"), "0::/system.slice/slurmstepd.scope/job_7/step_0\n").unwrap();
        let (slurm, sge) = (Key::new("slurm", "7"), Key::new("sge", "8"));
        let jobs = Jobs::default();
        assert_eq!(jobs.of_process(proc.path(), 17), Some((slurm.clone(), String::new())), "before anybody looked");
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
