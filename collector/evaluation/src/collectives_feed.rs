//! Tells the tracker which jobs have ranks that hold back others, by what agents report of their collectives.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriclens_collectives::{CollectivesReader, FRESH_MS, JobCollectives};
use fabriclens_correlate::IncidentTracker;
use fabriclens_jobs::Job;
use fabriclens_model::{Read, ReadError};
use fabriclens_state::AppState;

use crate::background_query::BackgroundQuery;

/// Interval of reads, ms: agents ask each job every 30 s.
const INTERVAL_MS: i64 = 15_000;

/// What was read last, and the read in progress.
#[derive(Default)]
pub(super) struct CollectivesFeed {
    query: BackgroundQuery<(), Vec<JobCollectives>>,
    known: Vec<JobCollectives>,
    /// Jobs that the tracker was told of, in their order.
    told: Arc<[Job]>,
    /// When the last read began, Unix ms.
    asked_ms: i64,
}

impl CollectivesFeed {
    /// Applies the finished read, and starts the next one at an instant (Unix ms). Jobs that have ended are taken out at once.
    pub(super) fn round(&mut self, state: &AppState, tracker: &mut IncidentTracker, jobs: &Arc<[Job]>, now_ms: i64) {
        let mut is_new = !Arc::ptr_eq(jobs, &self.told) && !self.known.is_empty();
        if let Some(((), found)) = self.query.finished() {
            match found {
                Some(found) => {
                    is_new |= !found.is_empty() || !self.known.is_empty();
                    self.known = found;
                }
                // What cannot be read counts for as long as an agent that is silent.
                None => {
                    self.known.retain(|job| job.answered_ms >= now_ms - FRESH_MS);
                    is_new = true;
                }
            }
        }
        if is_new {
            tracker.set_collectives(of_running(&self.known, jobs));
        }
        self.told = jobs.clone();
        if now_ms >= self.asked_ms + INTERVAL_MS && self.query.is_free() {
            self.asked_ms = now_ms;
            let (data, jobs) = (state.data.clone(), jobs.clone());
            self.query.start("collectives", (), move || {
                let found = read(data.reader(), &jobs, now_ms);
                found.inspect_err(|error| tracing::debug!(%error, "cannot read collectives of jobs")).ok()
            });
        }
    }
}

/// Collectives of running jobs, by their ids as incidents name them.
fn of_running(all: &[JobCollectives], jobs: &[Job]) -> BTreeMap<String, JobCollectives> {
    let of = |one: &JobCollectives| Some((running(one, jobs)?.key().to_string(), one.clone()));
    all.iter().filter_map(of).collect()
}

/// The running job that an agent means: agents without a configured cluster name none.
fn running<'a>(one: &JobCollectives, jobs: &'a [Job]) -> Option<&'a Job> {
    let mut named = jobs.iter().filter(|job| job.has_name(&one.job.id));
    if one.job.cluster.is_empty() {
        let first = named.next()?;
        return named.next().is_none().then_some(first);
    }
    named.find(|job| job.cluster == one.job.cluster)
}

/// Reads jobs with stragglers, and finds the hosts of these.
fn read(read: &dyn Read, jobs: &[Job], now_ms: i64) -> Result<Vec<JobCollectives>, ReadError> {
    let reader = CollectivesReader { read, at_ms: now_ms };
    let mut all = reader.jobs_with_stragglers()?;
    for one in &mut all {
        let Some(job) = running(one, jobs) else { continue };
        let wanted = one.communicators.iter().flat_map(|communicator| &communicator.stragglers);
        // Without addresses, ranks whose hosts have no names stay at the job.
        let addresses = reader.addresses(&one.job, wanted.map(|rank| &*rank.rank_host)).unwrap_or_default();
        let hosts = || job.hosts.keys().map(String::as_str);
        for rank in one.communicators.iter_mut().flat_map(|communicator| &mut communicator.stragglers) {
            rank.host = addresses.host(&rank.rank_host, hosts()).map(str::to_owned);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_collectives::JobName;
    use fabriclens_jobs::{JobKey, JobRecord, Source};

    fn job(cluster: &str, id: &str) -> Job {
        let record = JobRecord { aliases: vec![format!("{id}-alias")], ..JobRecord::default() };
        let key = JobKey { cluster: cluster.into(), id: id.into() };
        Job::from_records(&key, 1, &BTreeMap::from([(Source::Http, record)]))
    }

    #[test]
    fn collectives_belong_to_one_running_job() {
        let jobs = [job("a", "7"), job("b", "7"), job("b", "8")];
        let of = |cluster: &str, id: &str| {
            let one = JobCollectives { job: JobName { cluster: cluster.into(), id: id.into() }, ..Default::default() };
            of_running(&[one], &jobs).into_keys().next()
        };
        assert_eq!(of("b", "7").as_deref(), Some("b/7"));
        assert_eq!(of("b", "8-alias").as_deref(), Some("b/8"));
        assert_eq!(of("", "8").as_deref(), Some("b/8"), "an agent without a configured cluster");
        assert_eq!(of("", "7"), None, "it may be either");
        assert_eq!((of("a", "8"), of("b", "9")), (None, None));
    }
}
