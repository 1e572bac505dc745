//! Cache of job details beyond the id: from the environment of one process per job, read once, and from user names.
//! Called by the sampler `workload`.
//!
//! Cgroups take precedence: an environment that names another job is ignored. Its other values (cluster, array, name of
//! a user without entry in passwd) are claims of the job's own processes.

use crate::environ::{self, EnvironJob};
use crate::jobs::{Details, Key};
use crate::rules;
use crate::users::Users;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_host::sysfile::maybe;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

/// Looks for which a new job is held back, because its first processes belong to the scheduler.
const HOLD: u32 = 3;
/// Looks after which no more environments are read.
const LAST: u32 = 30;
/// Processes per job and look whose environment is read.
const TRIES: usize = 8;
/// Size limit of an environment, bytes.
const ENVIRONMENT: u64 = 1 << 20;

#[derive(Debug, Default)]
struct Entry {
    details: Details,
    uid: Option<u32>,
    looks: u32,
    settled: bool,
    candidates: Vec<u32>,
}

/// Cache of job details.
#[derive(Debug)]
pub struct JobDetailsCache {
    proc: PathBuf,
    users: Users,
    entries: HashMap<Key, Entry>,
    /// Number of environments read so far.
    pub environments: u64,
}

impl JobDetailsCache {
    /// Creates an empty cache for this host.
    pub fn new(roots: &Roots) -> Self {
        let (proc, users) = (roots.proc().to_owned(), Users::new(roots));
        Self { proc, users, entries: HashMap::new(), environments: 0 }
    }

    /// Records processes of a job, and its user if known.
    pub fn see(&mut self, key: &Key, uid: Option<u32>, pids: &[u32]) {
        let entry = self.entries.entry(key.clone()).or_default();
        entry.uid = entry.uid.or(uid);
        if !entry.settled {
            // Later processes first: earlier ones may belong to the scheduler.
            entry.candidates.retain(|pid| !pids.contains(pid));
            entry.candidates.splice(..0, pids.iter().take(TRIES).copied());
            entry.candidates.truncate(TRIES);
        }
    }

    /// Records a job that was found by an environment.
    pub fn found_in_environment(&mut self, key: &Key, found: EnvironJob, pid: u32) {
        if self.entries.get(key).is_none_or(|entry| !entry.settled) {
            let uid = uid(&self.proc, pid);
            let details = details(&mut self.users, key, Some(found), uid);
            self.entries.insert(key.clone(), Entry { details, uid, settled: true, ..Entry::default() });
        }
    }

    /// Reads environments that are due, and removes jobs that have ended.
    pub fn settle(&mut self, present: &HashSet<Key>) {
        self.entries.retain(|key, _| present.contains(key));
        for (key, entry) in self.entries.iter_mut().filter(|(_, entry)| !entry.settled) {
            entry.looks += 1;
            let scheduler = rules::by_name(key.scheduler).filter(|s| s.variables.is_some());
            let mut found = None;
            entry.settled = scheduler.is_none() || entry.looks > LAST;
            // Processes without a job id are retried: they may be about to execute the job's program.
            for &pid in &entry.candidates {
                let Some(scheduler) = scheduler else { break };
                let user = uid(&self.proc, pid);
                self.environments += 1;
                match environment(&self.proc, pid) {
                    Ok(bytes) => {
                        found = environ::of_scheduler(scheduler, &bytes).filter(|found| *found.job == *key.job)
                    }
                    // The privilege is missing for all processes alike.
                    Err(ErrorKind::PermissionDenied) => entry.settled = true,
                    Err(_) => {}
                }
                if found.is_some() {
                    entry.uid = user.or(entry.uid);
                    entry.settled = true;
                    break;
                }
                // Processes of the scheduler run as root.
                entry.uid = entry.uid.max(user);
            }
            if entry.settled {
                entry.candidates = Vec::new();
            }
            entry.details = details(&mut self.users, key, found, entry.uid);
        }
    }

    /// Details of a job; `None` while a new job is held back.
    pub fn details(&self, key: &Key) -> Option<&Details> {
        let entry = self.entries.get(key)?;
        (entry.settled || entry.looks >= HOLD).then_some(&entry.details)
    }

    /// Releases all jobs at once: those that run when the agent starts are not held back.
    pub fn believe(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.looks = entry.looks.max(HOLD));
    }

    /// Clusters of the jobs that have one.
    pub fn clusters(&self) -> HashMap<Key, String> {
        let known = self.entries.iter().filter(|(_, entry)| !entry.details.cluster.is_empty());
        known.map(|(key, entry)| (key.clone(), entry.details.cluster.clone())).collect()
    }
}

fn details(users: &mut Users, key: &Key, found: Option<EnvironJob>, uid: Option<u32>) -> Details {
    // User ids within containers have no meaning on the host.
    let uid = uid.filter(|_| key.scheduler != "kubernetes");
    let name = uid.and_then(|uid| users.name(uid));
    let found = found.unwrap_or_else(|| EnvironJob {
        scheduler: key.scheduler,
        job: key.job.to_string(),
        task: key.job.to_string(),
        cluster: String::new(),
        user: String::new(),
    });
    let claimed = Some(found.user).filter(|user| !user.is_empty());
    let user = name.or(claimed).or_else(|| uid.map(|uid| uid.to_string())).unwrap_or_default();
    Details { task: found.task, cluster: found.cluster, user }
}

/// Environment of a process, unparsed.
pub fn environment(proc: &Path, pid: u32) -> Result<Vec<u8>, ErrorKind> {
    let file = proc.join(pid.to_string()).join("environ");
    let read = || -> std::io::Result<Vec<u8>> {
        // In a recording the path may be any type of file.
        if !std::fs::metadata(&file)?.is_file() {
            return Err(ErrorKind::InvalidInput.into());
        }
        let mut bytes = Vec::new();
        File::open(&file)?.take(ENVIRONMENT).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| error.kind())
}

/// Real user id of a process.
pub fn uid(proc: &Path, pid: u32) -> Option<u32> {
    let status = maybe(&proc.join(pid.to_string()).join("status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> Self {
            let host = Self(tempfile::tempdir().unwrap());
            host.write("etc/passwd", "ann:x:1000:1::/:\n");
            host
        }

        fn write(&self, path: &str, text: &str) {
            let file = self.0.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }

        fn process(&self, pid: u32, uid: u32, environment: &str) {
            self.write(&format!("proc/{pid}/environ"), environment);
            self.write(&format!("proc/{pid}/status"), &format!("Name:\tx\nUid:\t{uid}\t0\t0\t0\n"));
        }

        fn book(&self) -> JobDetailsCache {
            JobDetailsCache::new(&Roots::new(Some(self.0.path().to_owned())))
        }
    }

    fn all(book: &JobDetailsCache, key: &Key) -> Option<(String, String, String)> {
        book.details(key).map(|d| (d.task.clone(), d.cluster.clone(), d.user.clone()))
    }

    fn triple(task: &str, cluster: &str, user: &str) -> Option<(String, String, String)> {
        Some((task.into(), cluster.into(), user.into()))
    }

    #[test]
    fn first_process_with_an_id_is_the_last_one_read() {
        let host = Host::new();
        host.process(1, 0, "PATH=/bin\0");
        host.process(2, 1000, "SLURM_JOB_ID=7\0SLURM_CLUSTER_NAME=west\0SLURM_ARRAY_JOB_ID=5\0SLURM_ARRAY_TASK_ID=2\0");
        host.process(3, 1001, "SLURM_JOB_ID=7\0");
        let key = Key::new("slurm", "7");
        let mut book = host.book();
        let present = HashSet::from([key.clone()]);
        book.see(&key, None, &[1, 2, 3]);
        book.settle(&present);
        assert_eq!(all(&book, &key), triple("5_2", "west", "ann"));
        assert_eq!(book.environments, 2);
        book.see(&key, None, &[1, 2, 3]);
        book.settle(&present);
        assert_eq!(book.environments, 2, "one process a job, once");
        assert_eq!(book.clusters(), HashMap::from([(key.clone(), "west".to_owned())]));
        book.settle(&HashSet::new());
        assert_eq!(all(&book, &key), None, "a job that is over is forgotten");
    }

    #[test]
    fn environment_of_another_job_is_ignored() {
        let host = Host::new();
        host.process(1, 1001, "SLURM_JOB_ID=8\0SLURM_CLUSTER_NAME=west\0");
        let key = Key::new("slurm", "7");
        let present = HashSet::from([key.clone()]);
        let mut book = host.book();
        for look in 1..HOLD {
            book.see(&key, None, &[1]);
            book.settle(&present);
            assert_eq!(all(&book, &key), None, "held back at look {look}");
        }
        book.see(&key, None, &[1]);
        book.settle(&present);
        assert_eq!(all(&book, &key), triple("7", "", "1001"));
        // A process of its own after all.
        host.process(4, 1001, "SLURM_JOB_ID=7\0SLURM_CLUSTER_NAME=west\0");
        book.see(&key, None, &[4]);
        book.settle(&present);
        assert_eq!(all(&book, &key), triple("7", "west", "1001"));
    }

    #[test]
    fn process_is_retried_after_exec() {
        let host = Host::new();
        host.process(1, 0, "");
        let key = Key::new("slurm", "7");
        let present = HashSet::from([key.clone()]);
        let mut book = host.book();
        book.see(&key, None, &[1]);
        book.settle(&present);
        assert_eq!(all(&book, &key), None);
        host.process(1, 1000, "SLURM_JOB_ID=7\0");
        book.settle(&present);
        assert_eq!(all(&book, &key), triple("7", "", "ann"));
    }

    #[test]
    fn users_of_pods_are_ignored() {
        let host = Host::new();
        host.process(1, 1000, "");
        let key = Key::new("kubernetes", "0123");
        let mut book = host.book();
        book.see(&key, Some(1000), &[1]);
        book.settle(&HashSet::from([key.clone()]));
        assert_eq!((all(&book, &key), book.environments), (triple("0123", "", ""), 0));
    }

    #[test]
    fn jobs_at_startup_are_not_held_back() {
        let host = Host::new();
        let key = Key::new("slurm", "7");
        let mut book = host.book();
        book.see(&key, Some(1000), &[1]);
        book.settle(&HashSet::from([key.clone()]));
        assert_eq!(all(&book, &key), None);
        book.believe();
        assert_eq!(all(&book, &key), triple("7", "", "ann"));
    }
}
