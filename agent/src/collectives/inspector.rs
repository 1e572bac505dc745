//! Follows the files of NCCL's Inspector in directories that the configuration or a job's environment names, adds them up by job, and
//! has logs of jobs followed.

use super::Job;
use super::logs::LogReader;
use super::series;
use super::services::JobProcess;
use super::settings::Collectives;
use fabriclens_agent_collectives::Budget;
use fabriclens_agent_collectives::inspector::{Followed, Observation, Totals};
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_workload::Jobs;
use fabriclens_agent_workload::details::environment;
use fabriclens_base::host_name::short;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Environments that are read in one look.
const ENVIRONMENTS: usize = 64;
/// Most directories of all, and subdirectories of one that the configuration names.
const DIRECTORIES: usize = 256;
/// Most entries of a directory, and files of a host.
const ENTRIES: usize = 4096;
const FILES: usize = 256;
/// Age of a file that is not begun any more: it is of an earlier run.
const OLD: Duration = Duration::from_secs(600);

/// Reader of the files of a host.
pub struct InspectorReader {
    proc: PathBuf,
    configured: Vec<PathBuf>,
    logs: LogReader,
    jobs: Arc<Jobs>,
    /// What environments of processes say.
    environments: HashMap<u32, Named>,
    files: HashMap<PathBuf, (Followed, Job)>,
    totals: BTreeMap<Job, Totals>,
    /// Losses of files that are no longer followed.
    lost: u64,
    skipped: u64,
}

#[derive(Default)]
struct Named {
    directory: Option<PathBuf>,
    host: Option<String>,
}

impl InspectorReader {
    /// Follows files in configured directories and those of jobs' environments, and configured logs.
    pub fn new(proc: PathBuf, config: &Collectives, jobs: Arc<Jobs>) -> Self {
        let (configured, logs) = (config.inspector_dirs.clone(), LogReader::new(config.log_files.clone()));
        let (environments, files) = (HashMap::new(), HashMap::new());
        Self { proc, configured, logs, jobs, environments, files, totals: BTreeMap::new(), lost: 0, skipped: 0 }
    }

    /// Reads what is new, and writes the series of all jobs. `now` is wall time, for the age of files.
    pub fn look(&mut self, now: SystemTime, out: &mut Batch) {
        let processes = super::services::job_processes(&self.proc, &self.jobs);
        self.read_environments(&processes);
        let hosts = self.hosts();
        self.follow(&processes, &hosts, now);
        let mut budget = Budget::default();
        let by_pid: HashMap<u32, &JobProcess> = processes.iter().map(|process| (process.inner, process)).collect();
        for (file, job) in self.files.values_mut() {
            let mut observations = Vec::new();
            if let Err(error) = file.read(&mut budget, &mut observations) {
                tracing::debug!(path = %file.path().display(), %error, "file of NCCL's Inspector cannot be read");
                continue;
            }
            let here =
                |observation: &&Observation| observation.host.is_empty() || hosts.contains(short(&observation.host));
            for observation in observations.iter().filter(here) {
                let job = job_of(observation, &by_pid, &processes).or_else(|| job.clone());
                self.totals.entry(job).or_default().add(observation);
            }
        }
        self.tell(out);
        self.logs.look(&processes, &hosts, out);
    }

    fn tell(&mut self, out: &mut Batch) {
        let (mut lost, mut skipped) = (self.lost, self.skipped);
        for (file, _) in self.files.values() {
            lost += file.lost;
            skipped += file.skipped();
        }
        let mut omitted = 0;
        self.totals.retain(|job, totals| {
            let all = totals.end_window();
            omitted += totals.omitted;
            series::executions(out, job.as_ref().map(|(key, cluster)| (key, &**cluster)), &all);
            !all.is_empty()
        });
        series::files(out, self.files.len() as u64, lost, skipped, omitted);
    }

    /// Reads the environments of processes that are new.
    fn read_environments(&mut self, processes: &[JobProcess]) {
        let present: HashSet<u32> = processes.iter().map(|process| process.pid).collect();
        self.environments.retain(|pid, _| present.contains(pid));
        let new: Vec<u32> = present.into_iter().filter(|pid| !self.environments.contains_key(pid)).collect();
        for pid in new.into_iter().take(ENVIRONMENTS) {
            let bytes = environment(&self.proc, pid).unwrap_or_default();
            self.environments.insert(pid, named(&self.proc, pid, &bytes));
        }
    }

    /// Names of this host: its own, and those of containers.
    fn hosts(&self) -> HashSet<String> {
        let own = std::fs::read_to_string(self.proc.join("sys/kernel/hostname")).unwrap_or_default();
        let containers = self.environments.values().filter_map(|named| named.host.as_deref());
        std::iter::once(own.trim()).chain(containers).map(|host| short(host).to_owned()).collect()
    }

    /// Follows the files that exist now.
    fn follow(&mut self, processes: &[JobProcess], hosts: &HashSet<String>, now: SystemTime) {
        let mut present = HashSet::new();
        for (directory, job) in self.directories(processes) {
            let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
            for path in entries.take(ENTRIES).map(|entry| entry.path()).filter(|path| is_of(path, hosts)) {
                if !self.files.contains_key(&path) {
                    let Some(file) = Followed::new(&path).filter(|_| self.files.len() < FILES && is_new(&path, now))
                    else {
                        continue;
                    };
                    self.files.insert(path.clone(), (file, job.clone()));
                }
                present.insert(path);
            }
        }
        let (lost, skipped) = (&mut self.lost, &mut self.skipped);
        self.files.retain(|path, (file, _)| {
            let keep = present.contains(path);
            if !keep {
                *lost += file.lost;
                *skipped += file.skipped();
            }
            keep
        });
    }

    /// Directories with files, each once, and the job whose environment names it.
    fn directories(&self, processes: &[JobProcess]) -> Vec<(PathBuf, Job)> {
        let mut all = Vec::new();
        for process in processes {
            let named = self.environments.get(&process.pid).and_then(|named| named.directory.clone());
            all.extend(named.map(|directory| (directory, Some(process.job.clone()))));
        }
        for directory in &self.configured {
            all.push((directory.clone(), None));
            // As with one directory for each job.
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            let within = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).take(DIRECTORIES);
            all.extend(within.map(|entry| (entry.path(), None)));
        }
        let mut seen = HashSet::new();
        let identity = |path: &Path| std::fs::metadata(path).ok().filter(|m| m.is_dir()).map(|m| (m.dev(), m.ino()));
        all.retain(|(path, _)| identity(path).is_some_and(|identity| seen.insert(identity)));
        all.truncate(DIRECTORIES);
        all
    }
}

/// What an environment names, as paths that this program can open.
fn named(proc: &Path, pid: u32, environment: &[u8]) -> Named {
    let pairs = environment.split(|byte| *byte == 0).filter_map(|pair| std::str::from_utf8(pair).ok()?.split_once('='));
    let mut found = Named::default();
    for (name, value) in pairs.filter(|(_, value)| !value.is_empty() && value.len() <= 1024) {
        match name {
            "NCCL_INSPECTOR_DUMP_DIR" => {
                let process = proc.join(pid.to_string());
                let relative = value.trim_start_matches('/');
                // A path must not lead out of the process's own root.
                if !relative.split('/').any(|part| part == "..") {
                    let base = if value.starts_with('/') { process.join("root") } else { process.join("cwd") };
                    found.directory = Some(base.join(relative));
                }
            }
            "HOSTNAME" => found.host = Some(value.to_owned()),
            _ => {}
        }
    }
    found
}

/// Whether a file may be of this host, by its name: `HOST-pidPID.log`, or one without a host.
fn is_of(path: &Path, hosts: &HashSet<String>) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.rsplit_once("-pid").is_none_or(|(host, _)| hosts.contains(short(host)))
}

fn is_new(path: &Path, now: SystemTime) -> bool {
    let modified = std::fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| now.duration_since(modified).is_ok_and(|age| age < OLD) || modified > now)
}

/// Job of the process that wrote an observation, or of Slurm's number in it.
fn job_of(observation: &Observation, by_pid: &HashMap<u32, &JobProcess>, processes: &[JobProcess]) -> Job {
    let of_process = observation.pid.and_then(|pid| by_pid.get(&pid)).map(|process| process.job.clone());
    let number = observation.slurm_job.as_deref();
    let of_number = || {
        let is = |process: &&JobProcess| process.job.0.scheduler == "slurm" && Some(&*process.job.0.job) == number;
        processes.iter().find(is).map(|process| process.job.clone())
    };
    of_process.or_else(of_number)
}
