//! Writes open incidents as series for dashboards, rules and annotation queries: `fabric_incident_info` is 1 while an
//! incident is open, and further series join on `id`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fabriclens_correlate::Location;
use fabriclens_jobs::JobKey;
use fabriclens_model::Labels;
use fabriclens_store::{Metadata, Store};
use tokio::sync::{Notify, watch};

use super::record::{Record, kind_text, root_labels};
use crate::store::{Filter, IncidentStore};
use fabriclens_core::periodic::{Trigger, periodic};
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ms;
use fabriclens_forward::SeriesWriter;
use fabriclens_forward::Sink;
use fabriclens_job_sources::Jobs;

/// Write interval without changes, well within the lookback of queries.
const WRITE_INTERVAL: Duration = Duration::from_secs(10);
/// Most incidents, and most jobs of each.
const MOST: usize = 1000;
const JOBS: usize = 64;

/// Name and help of each metric.
const HELP: [(&str, &str); 4] = [
    ("fabric_incident_info", "1 for an open incident."),
    ("fabric_incident_confidence", "Confidence of the verdict, 0 to 1."),
    ("fabric_incident_victims", "Number of victim jobs."),
    (
        "fabric_incident_job_info",
        "1 for a job that causes (role culprit) or suffers from (role victim) an open incident.",
    ),
];

/// Writes the series and deletes old incidents, until `stop` becomes true.
pub async fn run(
    incidents: Arc<IncidentStore>,
    jobs: Arc<Jobs>,
    store: Arc<Store>,
    sink: Arc<Sink>,
    telemetry: Telemetry,
    stop: watch::Receiver<bool>,
) {
    let wake = notify_on_change(&incidents);
    let mut written = SeriesWriter::default();
    let work = move |trigger| {
        if trigger == Trigger::Interval
            && let Err(error) = incidents.expire()
        {
            tracing::warn!(%error, "cannot delete old incidents");
        }
        let open = if trigger == Trigger::Stop { Vec::new() } else { problems(&incidents) };
        count(&telemetry, &open);
        let (labels, values) = series(&open, &|name| jobs.registry.parse_key(name)).into_iter().unzip();
        if written.write(&sink, "incidents as series", labels, values, now_ms()) {
            describe(&store);
        }
    };
    periodic(WRITE_INTERVAL, wake, stop, "incidents are no longer written as series", work).await;
}

/// Returns a notifier of changes of the store, as long as the store exists.
pub(super) fn notify_on_change(incidents: &IncidentStore) -> Arc<Notify> {
    let (wake, mut changes) = (Arc::new(Notify::new()), incidents.changes.follow());
    let woken = wake.clone();
    tokio::spawn(async move {
        while changes.changed().await.is_ok() {
            wake.notify_one();
        }
    });
    woken
}

/// Open incidents that are not classified as no problem; the latest ones if there are too many.
fn problems(incidents: &IncidentStore) -> Vec<Arc<Record>> {
    let mut open = incidents.list(&Filter { open: Some(true), ..Filter::default() });
    open.retain(|r| r.kind().is_some());
    open.truncate(MOST);
    open
}

fn count(telemetry: &Telemetry, open: &[Arc<Record>]) {
    let mut kinds: BTreeMap<String, i64> = BTreeMap::new();
    for kind in open.iter().filter_map(|r| r.kind()) {
        *kinds.entry(kind_text(kind)).or_default() += 1;
    }
    telemetry.incidents_open(&kinds);
}

/// Sorted series with values; jobs carry the same labels as in their own series.
fn series(open: &[Arc<Record>], named: &dyn Fn(&str) -> JobKey) -> Vec<(Labels, f64)> {
    let of_job = |name: &String| {
        let JobKey { cluster, id } = named(name);
        [("cluster", cluster), ("job_id", id)]
    };
    let mut all = Vec::new();
    for record in open {
        let incident = &record.incident;
        let id = ("id", incident.id.clone());
        let of = |n: usize| ("__name__", HELP[n].0.to_owned());
        let kind = record.kind().map(kind_text).unwrap_or_default();
        let info = [of(0), id.clone(), ("kind", kind), ("severity", incident.severity.name().to_owned())];
        let job = if let Location::Job { job } = &incident.root { of_job(job).to_vec() } else { Vec::new() };
        all.push((Labels::new(info.into_iter().chain(root_labels(&incident.root)).chain(job)), 1.0));
        all.push((Labels::new([of(1), id.clone()]), incident.confidence));
        all.push((Labels::new([of(2), id.clone()]), incident.victim_jobs.len() as f64));
        for (role, jobs) in [("culprit", &incident.culprit_jobs), ("victim", &incident.victim_jobs)] {
            let one = |job: &String| {
                Labels::new([of(3), id.clone(), ("role", role.to_owned())].into_iter().chain(of_job(job)))
            };
            all.extend(jobs.iter().take(JOBS).map(|job| (one(job), 1.0)));
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.dedup_by(|a, b| a.0 == b.0);
    all
}

fn describe(store: &Store) {
    let of = |help: &str| Metadata { kind: "gauge".into(), unit: String::new(), help: help.into() };
    if let Err(error) = store.put_metadata(HELP.map(|(name, help)| (name, of(help)))) {
        tracing::warn!(%error, "cannot store metadata of incidents");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_reserved() {
        assert!(HELP.iter().all(|(name, _)| fabriclens_model::names::is_reserved(name)));
    }
}
