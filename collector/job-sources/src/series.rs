//! `fabric_job_info`: 1 for each job and host while it runs, ended by a staleness marker. Joined on `host` it tells
//! whose a series is; `attribution` says whether what the job has of the host served it alone.

use fabriclens_jobs::{Job, Occupancy};
use fabriclens_model::Labels;
use fabriclens_store::{Metadata, Store};

use super::Jobs;
use super::running::Running;
use fabriclens_core::time::now_ms;
use fabriclens_forward::SeriesWriter;
use fabriclens_forward::Sink;

/// The metric.
const NAME: &str = "fabric_job_info";
/// Said of it in `/api/v1/metadata`.
const HELP: &str = "A job that runs on a host; 1. attribution: exclusive if no other job has what it has of the host.";
/// Series that are written, one a host of a job: they must have a bound.
const MOST: usize = 100_000;

/// Writes the series; knows what it wrote last.
#[derive(Default)]
pub(super) struct Writer {
    running: Running,
    written: SeriesWriter,
    truncated: bool,
}

impl Writer {
    /// Writes all that runs now and ends what no longer does; at the `last` time it ends all.
    pub(super) fn write(&mut self, jobs: &Jobs, sink: &Sink, last: bool) {
        let now = now_ms();
        if last {
            self.written.write(sink, NAME, Vec::new(), Vec::new(), now);
        } else if self.running.update(&jobs.registry, now) {
            let written = within(&self.running.jobs, MOST);
            let truncated = written.len() < self.running.jobs.len();
            if truncated && !self.truncated {
                let jobs = self.running.jobs.len();
                tracing::warn!(jobs, most = MOST, "fabric_job_info is written for the jobs that began last");
            }
            self.truncated = truncated;
            let series = info(written);
            let values = vec![1.0; series.len()];
            if self.written.write(sink, NAME, series, values, now) {
                describe(&jobs.store);
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

/// As many jobs as have together no more hosts than this; whole jobs, for half of one would look like all of it.
fn within(jobs: &[Job], hosts: usize) -> &[Job] {
    let mut sum = 0;
    let fits = jobs.iter().take_while(|job| {
        sum += job.hosts.len();
        sum <= hosts
    });
    &jobs[..fits.count()]
}

/// Series of these jobs, sorted.
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
    fn the_bound_counts_hosts_and_leaves_jobs_whole() {
        let jobs = [job("a", 3), job("b", 3), job("c", 1)];
        let written = |most| within(&jobs, most).iter().map(|j| j.hosts.len()).sum::<usize>();
        assert_eq!([written(7), written(6), written(5), written(2)], [7, 6, 3, 0]);
        assert_eq!(info(within(&jobs, 6)).len(), 6);
    }
}
