//! `fabric_job_info`: 1 for each job and host while it runs, ended by a staleness marker. Joined on `host` it tells
//! whose a series is; `attribution` says whether the host served this job alone.

use std::sync::Arc;

use fabriclens_jobs::{Filter, Job, running_on};
use fabriclens_model::{Labels, stale};
use fabriclens_store::{Metadata, RowGroup, Store};

use super::Jobs;
use crate::api::time::now_ms;
use crate::forward::Sink;

/// The metric.
const NAME: &str = "fabric_job_info";
/// Said of it in `/api/v1/metadata`.
const HELP: &str = "A job that runs on a host; 1. attribution: exclusive if the host serves it alone.";
/// Jobs that are written; a dashboard over more is none, and series must have a bound.
const MOST: usize = 20_000;

/// Writes the series; knows what it wrote last.
#[derive(Default)]
pub(super) struct Writer {
    list: Arc<[Labels]>,
    truncated: bool,
}

impl Writer {
    /// Writes all that runs now and ends what no longer does; at the `last` time it ends all.
    pub(super) fn write(&mut self, jobs: &Jobs, sink: &Sink, last: bool) {
        let now = now_ms();
        let mut running =
            if last { Vec::new() } else { jobs.registry.list(&Filter { running: Some(true), ..Filter::default() }) };
        running.retain(|job| job.ran_at(now.saturating_mul(1_000_000)));
        let truncated = running.len() > MOST;
        if truncated && !self.truncated {
            tracing::warn!(jobs = running.len(), most = MOST, "fabric_job_info is written for those that began last");
        }
        self.truncated = truncated;
        running.truncate(MOST);
        let series = info(&running);
        if *series != *self.list {
            let gone: Vec<Labels> =
                self.list.iter().filter(|old| series.binary_search(old).is_err()).cloned().collect();
            self.append(sink, gone.into(), now, stale());
            self.list = series.into();
            describe(&jobs.store);
        }
        self.append(sink, self.list.clone(), now, 1.0);
    }

    fn append(&self, sink: &Sink, series: Arc<[Labels]>, now: i64, value: f64) {
        if series.is_empty() {
            return;
        }
        let values = vec![value; series.len()];
        if let Err(error) = sink.append(vec![RowGroup { series, times: vec![now], values }]) {
            tracing::warn!(%error, "cannot store fabric_job_info");
        }
    }
}

fn describe(store: &Store) {
    let info = Metadata { kind: "gauge".into(), unit: String::new(), help: HELP.into() };
    if let Err(error) = store.put_metadata([(NAME, info)]) {
        tracing::warn!(%error, "cannot store metadata of fabric_job_info");
    }
}

/// Series of these jobs, sorted.
fn info(jobs: &[Job]) -> Vec<Labels> {
    let on = running_on(jobs);
    let of_host = |job: &Job, host: &str| {
        let alone = on.get(host).is_none_or(|jobs| *jobs < 2);
        Labels::new([
            ("__name__", NAME),
            ("attribution", if alone { "exclusive" } else { "shared" }),
            ("cluster", &job.cluster),
            ("host", host),
            ("job_id", &job.id),
            ("job_name", &job.name),
            ("user", &job.user),
        ])
    };
    let mut all: Vec<Labels> = jobs.iter().flat_map(|job| job.hosts.keys().map(move |h| of_host(job, h))).collect();
    all.sort_unstable();
    all.dedup();
    all
}
