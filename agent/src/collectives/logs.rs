//! Follows logs of jobs that the configuration names by patterns, and counts what they tell by job.

use super::Job;
use super::job_log::JobLog;
use super::series;
use super::services::JobProcess;
use fabriclens_agent_collectives::Budget;
use fabriclens_agent_collectives::log::{Event, FollowedLog};
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_workload::Key;
use fabriclens_base::host_name::short;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Stands for the id of a job in a pattern.
const JOB: &str = "{job}";
/// Most logs of a host, and entries of a directory that are looked at.
const FILES: usize = 256;
const ENTRIES: usize = 4096;

/// Reader of the logs of a host.
pub struct LogReader {
    patterns: Vec<String>,
    files: HashMap<PathBuf, (FollowedLog, Job)>,
    jobs: BTreeMap<Job, JobLog>,
}

/// Checks a pattern: an absolute path whose last part may have `*`.
///
/// # Errors
/// What is wrong, as an explanation for the configuration.
pub fn check_pattern(pattern: &str) -> Result<(), &'static str> {
    let Some((directory, name)) = pattern.rsplit_once('/') else { return Err("a pattern is an absolute path") };
    if !pattern.starts_with('/') || name.is_empty() {
        return Err("a pattern is the absolute path of files");
    }
    if directory.contains('*') { Err("only the last part of a pattern may have *") } else { Ok(()) }
}

impl LogReader {
    /// Follows files of these patterns.
    pub fn new(patterns: Vec<String>) -> Self {
        Self { patterns, files: HashMap::new(), jobs: BTreeMap::new() }
    }

    /// Reads what is new, and writes the series of all jobs. `hosts` are the names of this host; lines of others are left to them.
    pub fn look(&mut self, processes: &[JobProcess], hosts: &HashSet<String>, out: &mut Batch) {
        if self.patterns.is_empty() {
            return;
        }
        let jobs: BTreeSet<&(Key, String)> = processes.iter().map(|process| &process.job).collect();
        self.follow(&jobs);
        let mut budget = Budget::default();
        for (file, job) in self.files.values_mut() {
            let mut events = Vec::new();
            if let Err(error) = file.read(&mut budget, &mut events) {
                tracing::debug!(path = %file.path().display(), %error, "log of a job cannot be read");
            }
            let here = |event: &&Event| event.origin.as_ref().is_none_or(|origin| hosts.contains(short(&origin.host)));
            let log = self.jobs.entry(job.clone()).or_default();
            events.iter().filter(here).for_each(|event| log.add(event));
        }
        // A job is forgotten with its last log.
        let present: HashSet<&Job> = self.files.values().map(|(_, job)| job).collect();
        self.jobs.retain(|job, _| present.contains(job));
        for (job, log) in &self.jobs {
            series::log(out, job.as_ref().map(|(key, cluster)| (key, &**cluster)), log);
        }
    }

    /// Follows the files that the patterns name now.
    fn follow(&mut self, jobs: &BTreeSet<&(Key, String)>) {
        let mut present = HashSet::new();
        for pattern in &self.patterns {
            let of_jobs = jobs.iter().filter(|job| !job.0.job.contains('/'));
            let named: Vec<(String, Job)> = if pattern.contains(JOB) {
                of_jobs.map(|job| (pattern.replace(JOB, &job.0.job), Some((*job).clone()))).collect()
            } else {
                vec![(pattern.clone(), None)]
            };
            for (path, job) in named {
                for path in files_of(&path) {
                    if self.files.len() < FILES || self.files.contains_key(&path) {
                        self.files.entry(path.clone()).or_insert_with(|| (FollowedLog::new(&path), job.clone()));
                        present.insert(path);
                    }
                }
            }
        }
        self.files.retain(|path, _| present.contains(path));
    }
}

/// Files of a path whose last part may have `*`.
fn files_of(path: &str) -> Vec<PathBuf> {
    let Some((directory, name)) = path.rsplit_once('/') else { return Vec::new() };
    if !name.contains('*') {
        return Some(PathBuf::from(path)).filter(|path| path.is_file()).into_iter().collect();
    }
    let entries = std::fs::read_dir(Path::new("/").join(directory)).into_iter().flatten().flatten().take(ENTRIES);
    let fits = entries.filter(|entry| entry.file_name().to_str().is_some_and(|file| is_match(name, file)));
    fits.map(|entry| entry.path()).collect()
}

/// Whether a name fits a pattern in which `*` stands for any text.
fn is_match(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names() {
        let fits = [("a*", "abc"), ("*", "x"), ("slurm-7*.out", "slurm-7.out"), ("a*b*c", "a1b2bc"), ("a", "a")];
        let others = [("a*", "xa"), ("a*b*c", "acb"), ("a", "ab"), ("slurm-7*.out", "slurm-7.err")];
        assert!(fits.iter().all(|(pattern, name)| is_match(pattern, name)));
        assert!(!others.iter().any(|(pattern, name)| is_match(pattern, name)));
    }

    #[test]
    fn patterns_are_checked() {
        assert_eq!(check_pattern("/var/log/{job}/*.out"), Ok(()));
        for bad in ["", "logs/x", "/logs/", "/lo*gs/x"] {
            assert!(check_pattern(bad).is_err(), "{bad}");
        }
    }
}
