//! Jobs that open incidents touch, as collectors tell with their answers to samples.

use fabriclens_wire::troubled_jobs::{HEADER, decode};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tonic::codegen::http::HeaderMap;

/// How long a job counts after a collector named it: answers come each second or period.
const VALID: Duration = Duration::from_secs(60);
/// Most jobs that are remembered.
const JOBS: usize = 1024;

/// See the module. Shared by all uplinks and the reader of collectives.
#[derive(Debug, Default)]
pub struct TroubledJobs(Mutex<HashMap<String, Instant>>);

impl TroubledJobs {
    /// Whether an incident touches the job of this name.
    pub fn has(&self, job: &str, now: Instant) -> bool {
        self.0.lock().get(job).is_some_and(|told| is_valid(*told, now))
    }

    /// Whether an incident touches any job.
    pub fn is_any(&self, now: Instant) -> bool {
        self.0.lock().values().any(|told| is_valid(*told, now))
    }

    /// Takes the header of an answer.
    pub(crate) fn take(&self, headers: &HeaderMap, now: Instant) {
        if let Some(value) = headers.get(HEADER).and_then(|value| value.to_str().ok()) {
            self.tell(decode(value), now);
        }
    }

    /// Takes what a collector says.
    pub fn tell(&self, names: Vec<String>, now: Instant) {
        let mut jobs = self.0.lock();
        jobs.retain(|_, told| is_valid(*told, now));
        for name in names {
            if jobs.len() < JOBS || jobs.contains_key(&name) {
                jobs.insert(name, now);
            }
        }
    }
}

fn is_valid(told: Instant, now: Instant) -> bool {
    now.saturating_duration_since(told) < VALID
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_in_trouble_until_it_is_no_longer_named() {
        let (jobs, begin) = (TroubledJobs::default(), Instant::now());
        let headers = HeaderMap::from_iter([(HEADER.parse().unwrap(), "7,a%2F8".parse().unwrap())]);
        jobs.take(&headers, begin);
        let after = |seconds| begin + Duration::from_secs(seconds);
        jobs.tell(vec!["9".into()], after(30));
        assert_eq!(["7", "a/8", "9", "x"].map(|job| jobs.has(job, after(59))), [true, true, true, false]);
        assert_eq!(["7", "9"].map(|job| jobs.has(job, after(60))), [false, true]);
        assert!(jobs.is_any(after(89)) && !jobs.is_any(after(90)));
        jobs.tell((0..2 * JOBS).map(|n| n.to_string()).collect(), after(100));
        assert_eq!(jobs.0.lock().len(), JOBS);
    }
}
