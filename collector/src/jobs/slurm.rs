//! Asks Slurm's `squeue` for its jobs. Hooks may be lost and are not everywhere; the queue is always there.

use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fabriclens_jobs::slurm::{self, Listed, SlurmError};
use fabriclens_jobs::{Facts, Filter, Key, Registry, Source};

use crate::api::time::now_ns;

/// How long `squeue` may take: a controller under load takes seconds.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most that is read of it, bytes: some kilobytes a job.
const ANSWER: u64 = 256 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("cannot run {0:?}: {1}; set jobs.squeue to a command that this user can run")]
    Run(String, std::io::Error),
    #[error("{0:?} took longer than {1:?}")]
    Slow(String, Duration),
    #[error("{0:?} failed: {1}")]
    Failed(String, String),
    #[error(transparent)]
    Answer(#[from] SlurmError),
}

/// What was said last.
pub(super) struct Slurm {
    command: String,
    told: HashMap<Key, Facts>,
    /// Jobs that were not listed any more, and since when.
    missing: HashMap<Key, i64>,
    /// Told once, not each time.
    failing: bool,
}

impl Slurm {
    /// With a command line; words are parted by spaces.
    pub(super) fn new(command: String) -> Self {
        Self { command, told: HashMap::new(), missing: HashMap::new(), failing: false }
    }

    /// Asks, and tells the registry what is new, different or over. True when something was.
    pub(super) fn ask(&mut self, registry: &Registry) -> bool {
        let answer = run(&self.command).and_then(|json| Ok(slurm::jobs(&json, "")?));
        let (listed, odd) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                // No answer ends no job.
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%error, "cannot learn of jobs from Slurm");
                }
                return false;
            }
        };
        if std::mem::take(&mut self.failing) {
            tracing::info!("Slurm tells of jobs again");
        }
        for (job, error) in odd {
            tracing::debug!(job, %error, "a job of squeue is not understood");
        }
        let there: HashSet<Key> = listed.iter().map(|l| l.key.clone()).collect();
        let before = std::mem::take(&mut self.told);
        let mut changed = false;
        for Listed { key, facts } in listed {
            if before.get(&key) != Some(&facts) {
                changed = true;
                if let Err(error) = tell(registry, &key, facts.clone()) {
                    tracing::warn!(%error, "a job of squeue is not kept");
                }
            }
            self.told.insert(key, facts);
        }
        changed | self.end_missing(registry, &there)
    }

    /// A job that is not listed twice in a row is over since the first time: Slurm forgets jobs after some minutes, and
    /// nobody may have asked meanwhile.
    fn end_missing(&mut self, registry: &Registry, there: &HashSet<Key>) -> bool {
        let now = now_ns();
        let running = registry.list(&Filter { running: Some(true), ..Filter::default() });
        let gone = running
            .into_iter()
            .filter(|job| job.sources.contains(&Source::Slurm))
            .map(|job| Key { cluster: job.cluster, id: job.id })
            .filter(|key| !there.contains(key));
        let before = std::mem::take(&mut self.missing);
        let mut changed = false;
        for key in gone {
            match before.get(&key) {
                None => _ = self.missing.insert(key, now),
                Some(since) => {
                    changed = true;
                    if let Err(error) = registry.end(Source::Slurm, &key, *since) {
                        tracing::warn!(%error, "cannot end a job that Slurm has forgotten");
                    }
                }
            }
        }
        changed
    }
}

fn tell(registry: &Registry, key: &Key, mut facts: Facts) -> Result<(), fabriclens_jobs::RegistryError> {
    let end = facts.end_ns.take();
    registry.begin(Source::Slurm, key, facts, now_ns())?;
    end.map_or(Ok(()), |at| registry.end(Source::Slurm, key, at).map(|_| ()))
}

/// What a command prints.
fn run(command: &str) -> Result<Vec<u8>, AskError> {
    let failed = |e| AskError::Run(command.to_owned(), e);
    let mut words = command.split_whitespace();
    let mut child = Command::new(words.next().unwrap_or_default())
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let reader = |from: Option<Box<dyn std::io::Read + Send>>, most| {
        std::thread::spawn(move || {
            let mut all = Vec::new();
            if let Some(from) = from {
                // What came before an error is said with the command's own.
                let _ = from.take(most).read_to_end(&mut all);
            }
            all
        })
    };
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let out = reader(out.map(|o| Box::new(o) as _), ANSWER);
    let err = reader(err.map(|e| Box::new(e) as _), 4096);
    let until = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            None => {
                // It may have ended just now; either way it is waited for.
                let _ = child.kill();
                let _ = child.wait();
                return Err(AskError::Slow(command.to_owned(), PATIENCE));
            }
        }
    };
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    if status.success() {
        return Ok(out);
    }
    let said = String::from_utf8_lossy(&err);
    let said = said.lines().next().map_or_else(|| status.to_string(), |line| format!("{status}: {line}"));
    Err(AskError::Failed(command.to_owned(), said))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(dir: &tempfile::TempDir) -> Registry {
        let store = fabriclens_store::Store::open(dir.path(), fabriclens_store::Options::default()).unwrap();
        Registry::open(store.table("jobs").unwrap()).unwrap()
    }

    /// `squeue` that prints what is in a file.
    fn slurm(dir: &tempfile::TempDir) -> (Slurm, impl Fn(&str)) {
        let path = dir.path().join("queue.json");
        (Slurm::new(format!("cat {}", path.display())), move |json: &str| std::fs::write(&path, json).unwrap())
    }

    #[test]
    fn jobs_begin_end_are_requeued_and_forgotten() {
        let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let registry = registry(&data);
        let (mut slurm, queue) = slurm(&dir);
        let job = |id: u32, state: &str, start: u32, end: u32| {
            format!(
                r#"{{"job_id": {id}, "job_state": "{state}", "nodes": "n[1-2]", "start_time": {start}, "end_time": {end}}}"#
            )
        };
        let spans = |id: &str| -> Vec<(i64, Option<i64>)> {
            let mut all = registry.list(&Filter::default());
            all.retain(|j| j.id == id);
            all.iter().map(|j| (j.start_ns / 1_000_000_000, j.end_ns.map(|e| e / 1_000_000_000))).collect()
        };
        queue(&format!(r#"{{"jobs": [{}, {}]}}"#, job(1, "RUNNING", 100, 900), job(2, "RUNNING", 100, 900)));
        assert!(slurm.ask(&registry) && !slurm.ask(&registry), "nothing new");
        assert_eq!((spans("1"), spans("2")), (vec![(100, None)], vec![(100, None)]));
        queue(&format!(r#"{{"jobs": [{}, {}]}}"#, job(1, "NODE_FAIL", 100, 150), job(2, "RUNNING", 100, 900)));
        assert!(slurm.ask(&registry));
        queue(&format!(r#"{{"jobs": [{}]}}"#, job(1, "RUNNING", 160, 900)));
        assert!(slurm.ask(&registry));
        assert_eq!((spans("1"), spans("2")), (vec![(160, None), (100, Some(150))], vec![(100, None)]));
        // Without an answer no job ends; a second answer without it ends it.
        queue("slurm_load_jobs error: Unable to contact slurm controller (connect failure)");
        assert!(!slurm.ask(&registry) && slurm.failing);
        queue(&format!(r#"{{"jobs": [{}]}}"#, job(1, "RUNNING", 160, 900)));
        assert!(slurm.ask(&registry) && !slurm.failing);
        assert!(spans("2")[0].1.is_some() && spans("1")[0].1.is_none());
    }

    #[test]
    fn why_a_command_gives_no_answer_is_said() {
        let why = |command: &str| run(command).unwrap_err().to_string();
        assert!(why("/nowhere/squeue --json").starts_with("cannot run \"/nowhere/squeue --json\": No such file"));
        assert!(why("cat /nowhere/queue").contains("failed: exit status: 1: cat: /nowhere/queue: No such file"));
    }
}
