//! `fabric_job_info`: 1 for each host of a running job, ended by a staleness marker. Joined on `host`, it gives the job
//! of a series; `attribution` says whether the job has its part of the host for itself.

use fabriclens_jobs::{Job, Occupancy, Registry};
use fabriclens_model::Labels;
use fabriclens_store::{Metadata, Store};

use super::running::Running;
use fabriclens_core::time::now_ms;
use fabriclens_forward::SeriesWriter;
use fabriclens_forward::Sink;

/// Name of the metric.
const NAME: &str = "fabric_job_info";
/// Help text in `/api/v1/metadata`.
const HELP: &str = "1 for a job that runs on a host. attribution: exclusive if no other job uses its part of the host.";
/// Most series, one per job and host.
const MOST: usize = 100_000;

/// Writes the series and remembers the last ones.
#[derive(Default)]
pub(super) struct Writer {
    running: Running,
    written: SeriesWriter,
    truncated: bool,
}

impl Writer {
    /// Writes all running jobs and ends the series of others; ends all series if `last`.
    pub(super) fn write(&mut self, registry: &Registry, store: &Store, sink: &Sink, last: bool) {
        let now = now_ms();
        if last {
            self.written.write(sink, NAME, Vec::new(), Vec::new(), now);
        } else if self.running.update(registry, now) {
            let written = within(&self.running.jobs, MOST);
            let truncated = written.len() < self.running.jobs.len();
            if truncated && !self.truncated {
                let jobs = self.running.jobs.len();
                tracing::warn!(
                    jobs,
                    most = MOST,
                    "too many jobs for fabric_job_info; only the latest ones are written"
                );
            }
            self.truncated = truncated;
            let series = info(written);
            let values = vec![1.0; series.len()];
            if self.written.write(sink, NAME, series, values, now) {
                describe(store);
            }
        } else {
            self.written.repeat(sink, NAME, 1.0, now);
        }
    }
}

fn describe(store: &Store) {
    let info = Metadata { kind: "gauge".into(), unit: String::new(), help: HELP.into() };
    if let Err(error) = store.put_metadata([(NAME, info)]) {
        tracing::warn!(%error, "cannot store metadata of fabric_job_info");
    }
}

/// The first jobs that together have at most this many hosts. Jobs are not split, because half a job would look like
/// all of it.
fn within(jobs: &[Job], hosts: usize) -> &[Job] {
    let mut sum = 0;
    let fits = jobs.iter().take_while(|job| {
        sum += job.hosts.len();
        sum <= hosts
    });
    &jobs[..fits.count()]
}

/// Sorted series of these jobs.
fn info(jobs: &[Job]) -> Vec<Labels> {
    let on = Occupancy::new(jobs);
    let mut all = Vec::new();
    for (n, job) in jobs.iter().enumerate() {
        all.extend(job.hosts.keys().map(|host| {
            Labels::new([
                ("__name__", NAME),
                ("attribution", on.allocation(n, host).text()),
                ("cluster", &job.cluster),
                ("host", host),
                ("job_id", &job.id),
                ("job_name", &job.name),
                ("user", &job.user),
            ])
        }));
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_jobs::{JobKey, JobRecord, Source};

    fn job(id: &str, hosts: usize) -> Job {
        let hosts = (0..hosts).map(|h| (format!("{id}-{h}"), fabriclens_jobs::HostAllocation::default())).collect();
        let record = JobRecord { hosts, ..JobRecord::default() };
        Job::from_records(&JobKey { cluster: String::new(), id: id.into() }, 1, &[(Source::Http, record)].into())
    }

    #[test]
    fn limit_counts_hosts_and_keeps_jobs_whole() {
        let jobs = [job("a", 3), job("b", 3), job("c", 1)];
        let written = |most| within(&jobs, most).iter().map(|j| j.hosts.len()).sum::<usize>();
        assert_eq!([written(7), written(6), written(5), written(2)], [7, 6, 3, 0]);
        assert_eq!(info(within(&jobs, 6)).len(), 6);
    }
}
