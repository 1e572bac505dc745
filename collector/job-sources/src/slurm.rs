//! Reads the jobs of Slurm from `squeue`, `scontrol` or slurmrestd. Hooks may be lost or missing; the queue is always
//! there.

use std::path::PathBuf;

use fabriclens_jobs::slurm::{self, SlurmError};
use fabriclens_jobs::{JobList, Registry, Source};
use tokio::sync::watch;

use super::command::{self, CommandError};
use super::http::{self, GetError};
use super::{JobSource, Opened, Opening};
use crate::reconciler::Reconciler;
use fabriclens_core::endpoint::Client;

/// Largest answer of slurmrestd, bytes; a job takes several kilobytes.
const ANSWER: u64 = 256 << 20;

/// The jobs cannot be read.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Get(#[from] GetError),
    #[error("{path}: {source}; jobs.slurmrestd.token_file must be readable")]
    Token { path: String, source: std::io::Error },
    #[error(transparent)]
    Answer(#[from] SlurmError),
}

/// Source of the job list.
enum ListSource {
    /// A command line, split at spaces, and the stop signal.
    Command(String, watch::Receiver<bool>),
    /// slurmrestd, and the file of its token.
    Rest(Box<Client>, Option<PathBuf>),
}

/// The source of Slurm jobs.
pub(super) struct Slurm {
    jobs: ListSource,
    reconciler: Reconciler,
}

/// Opens the source if `jobs.squeue` or `jobs.slurmrestd` is configured.
pub(super) fn open(opening: &Opening<'_>) -> Opened {
    let jobs = &opening.config.jobs;
    let list = match (&jobs.squeue, &jobs.slurmrestd) {
        (Some(command), _) => ListSource::Command(command.clone(), opening.stop.clone()),
        (None, Some(rest)) => {
            ListSource::Rest(Box::new(Client::new(&rest.endpoint, opening.telemetry)?), rest.token_file.clone())
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(Box::new(Slurm { jobs: list, reconciler: Reconciler::new(Source::Slurm) })))
}

impl ListSource {
    fn list(&self) -> Result<JobList, AskError> {
        let answer = match self {
            Self::Command(line, stop) => command::run(line, stop)?,
            Self::Rest(client, token) => {
                let read = |path: &PathBuf| {
                    let text = std::fs::read_to_string(path);
                    // `scontrol token` prints an assignment.
                    let text = text.map(|t| t.trim().trim_start_matches("SLURM_JWT=").to_owned());
                    text.map_err(|source| AskError::Token { path: path.display().to_string(), source })
                };
                let token = token.as_ref().map(read).transpose()?;
                http::get(client, client.url(), ANSWER, |request| match token {
                    Some(token) => request.header("X-SLURM-USER-TOKEN", token),
                    None => request,
                })?
            }
        };
        Ok(slurm::jobs(&answer, "")?)
    }
}

impl Slurm {
    fn poll_registry(&mut self, registry: &Registry) -> bool {
        self.reconciler.update(registry, self.jobs.list())
    }
}

impl JobSource for Slurm {
    fn poll(&mut self, registry: &Registry) -> bool {
        self.poll_registry(registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_jobs::Filter;

    fn registry(dir: &tempfile::TempDir) -> Registry {
        let store = fabriclens_store::Store::open(dir.path(), fabriclens_store::Options::default()).unwrap();
        Registry::open(store.table("jobs"), fabriclens_jobs::Limits::default()).unwrap()
    }

    /// A `squeue` that prints the content of a file.
    fn slurm(dir: &tempfile::TempDir) -> (Slurm, impl Fn(&str)) {
        let path = dir.path().join("queue.json");
        let (_stop, stop) = watch::channel(false);
        let slurm = Slurm {
            jobs: ListSource::Command(format!("cat {}", path.display()), stop),
            reconciler: Reconciler::new(Source::Slurm),
        };
        (slurm, move |json: &str| std::fs::write(&path, json).unwrap())
    }

    #[test]
    fn jobs_begin_requeue_and_end() {
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
        assert!(slurm.poll_registry(&registry) && !slurm.poll_registry(&registry), "an unchanged list changes no job");
        assert_eq!((spans("1"), spans("2")), (vec![(100, None)], vec![(100, None)]));
        queue(&format!(r#"{{"jobs": [{}, {}]}}"#, job(1, "NODE_FAIL", 100, 150), job(2, "RUNNING", 100, 900)));
        assert!(slurm.poll_registry(&registry));
        queue(&format!(r#"{{"jobs": [{}]}}"#, job(1, "RUNNING", 160, 900)));
        assert!(slurm.poll_registry(&registry));
        assert_eq!((spans("1"), spans("2")), (vec![(160, None), (100, Some(150))], vec![(100, None)]));
        // A failed request ends no job; the second list without a job ends it.
        queue("slurm_load_jobs error: Unable to contact slurm controller (connect failure)");
        assert!(!slurm.poll_registry(&registry) && slurm.reconciler.is_failing());
        queue(&format!(r#"{{"jobs": [{}]}}"#, job(1, "RUNNING", 160, 900)));
        assert!(slurm.poll_registry(&registry) && !slurm.reconciler.is_failing());
        assert!(spans("2")[0].1.is_some() && spans("1")[0].1.is_none());
    }
}
