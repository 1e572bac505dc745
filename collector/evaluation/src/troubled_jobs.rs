//! Tells agents which running jobs open incidents touch, so that they ask these jobs' libraries more often.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabriclens_core::troubled_jobs::{TroubledJob, TroubledJobs};
use fabriclens_correlate::{Incident, Severity};
use fabriclens_jobs::Job;

/// Which jobs the collector named to agents in the previous round.
#[derive(Default)]
pub(super) struct TroubledJobsFeed {
    /// Keys of the jobs.
    told: BTreeSet<String>,
    running: Arc<[Job]>,
}

impl TroubledJobsFeed {
    /// Tells the jobs that these incidents touch, if others than before. Observations count for none.
    pub(super) fn round(&mut self, agents: &TroubledJobs, open: &[Incident], running: &Arc<[Job]>) {
        let paging = open.iter().filter(|incident| incident.severity != Severity::Info);
        let touched: BTreeSet<String> =
            paging.flat_map(|incident| incident.culprit_jobs.iter().chain(&incident.victim_jobs)).cloned().collect();
        if touched == self.told && (touched.is_empty() || Arc::ptr_eq(running, &self.running)) {
            return;
        }
        let of = |job: &Job| TroubledJob {
            names: std::iter::once(&job.id).chain(&job.aliases).cloned().collect(),
            hosts: job.hosts.keys().cloned().collect(),
        };
        let jobs: Vec<TroubledJob> =
            running.iter().filter(|job| touched.contains(&job.key().to_string())).map(of).collect();
        agents.set(&jobs);
        (self.told, self.running) = (touched, running.clone());
    }
}
