//! A store with synthetic samples, and jobs.

use fabriclens_jobs::{HostAllocation, Job, JobKey, JobRecord, Source};
use fabriclens_model::Labels;
use fabriclens_promql::{CancelToken, Engine};
use fabriclens_report::model::Incident;
use fabriclens_report::{Input, Leaves, Link, Report, build};
use fabriclens_store::{Options, RowGroup, Store};
use std::sync::Arc;

/// Start of the jobs, Unix ms.
pub const BEGIN: i64 = 1_700_000_000_000;

pub struct Fabric {
    store: Store,
    _dir: tempfile::TempDir,
}

impl Fabric {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(|| BEGIN + 400_000_000);
        let options = Options { background: false, retention: None, out_of_order: None, clock, ..Options::default() };
        Self { store: Store::open(dir.path(), options).unwrap(), _dir: dir }
    }

    /// A series with a value at each of these seconds after the start.
    pub fn put(&self, labels: &[(&str, &str)], seconds: impl Iterator<Item = i64>, value: impl Fn(i64) -> f64) {
        let seconds: Vec<i64> = seconds.collect();
        let series = [Labels::new(labels.iter().copied())].into();
        let times = seconds.iter().map(|s| BEGIN + s * 1000).collect();
        let values = seconds.iter().map(|s| value(*s)).collect();
        let done = self.store.append(&[RowGroup { series, times, values }]).unwrap();
        assert_eq!(done.accepted, seconds.len() as u64, "{labels:?}");
    }

    /// A counter of a port with a constant rate in bytes per second, sampled every ten seconds from a minute before.
    pub fn port(&self, host: &str, device: &str, metric: &str, direction: &str, rate: f64, until: i64) {
        let labels =
            [("__name__", metric), ("host", host), ("device", device), ("port", "1"), ("direction", direction)];
        self.put(&labels, (-60..=until).step_by(10), |s| 5e12 + rate * s as f64);
    }

    pub fn report(&self, job: &Job, others: &[Job], now_s: i64) -> Report {
        self.report_in(Leaves::new(), job, others, now_s)
    }

    /// A report with leaf switches from a topology.
    pub fn report_in(&self, leaves: Leaves, job: &Job, others: &[Job], now_s: i64) -> Report {
        self.build(Input {
            job,
            others,
            now_ns: ns(now_s),
            incidents: Vec::new(),
            leaves,
            links: Vec::new(),
            paths: None,
        })
    }

    /// A report with incidents.
    pub fn report_with(&self, incidents: Vec<Incident>, job: &Job, now_s: i64) -> Report {
        self.build(Input {
            job,
            others: &[],
            now_ns: ns(now_s),
            incidents,
            leaves: Leaves::new(),
            links: Vec::new(),
            paths: None,
        })
    }

    /// A report with links of the fabric.
    pub fn report_on(&self, links: Vec<Link>, job: &Job, now_s: i64) -> Report {
        self.build(Input {
            job,
            others: &[],
            now_ns: ns(now_s),
            incidents: Vec::new(),
            leaves: Leaves::new(),
            links,
            paths: None,
        })
    }

    fn build(&self, input: Input<'_>) -> Report {
        build(&Engine::default(), &self.store, &CancelToken::default(), input).unwrap()
    }
}

fn ns(s: i64) -> i64 {
    (BEGIN + s * 1000) * 1_000_000
}

/// A job on hosts with devices, from and to seconds after the begin.
pub fn job(id: &str, name: &str, span: (i64, Option<i64>), hosts: &[(&str, &[&str])]) -> Job {
    let place =
        |devices: &[&str]| HostAllocation { devices: devices.iter().map(|d| (*d).to_owned()).collect(), pids: vec![] };
    let record = JobRecord {
        user: Some("ann".into()),
        name: Some(name.into()),
        start_ns: Some(ns(span.0)),
        end_ns: span.1.map(ns),
        hosts: hosts.iter().map(|(h, d)| ((*h).to_owned(), place(d))).collect(),
        ..JobRecord::default()
    };
    Job::from_records(&JobKey { cluster: String::new(), id: id.into() }, 1, &[(Source::Http, record)].into())
}
