//! Open incidents of the overview, and the jobs that suffer from them.

use std::collections::BTreeMap;

use fabriclens_correlate::Severity;
use fabriclens_incidents::{Filter, Record};
use serde_json::{Value, json};

use super::LISTED;
use crate::Api;
use fabriclens_core::time::now_ns;

/// Most jobs whose traffic is measured.
const JOBS: usize = 8;

/// A job that is the victim of an open incident.
pub(super) struct SufferingJob {
    pub(super) cluster: String,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) user: String,
    pub(super) hosts: Vec<String>,
    /// IDs of the incidents, the earliest first.
    pub(super) incidents: Vec<String>,
    /// Start of the earliest one, Unix ms.
    pub(super) since_ms: i64,
}

/// Open incidents: their number by severity, and the worst of them.
pub(super) fn open(api: &Api) -> Value {
    let now = now_ns();
    let mut all = api.incidents.list(&Filter { open: Some(true), ..Filter::default() });
    let observations = Filter { open: Some(true), severity: Some(Severity::Info), ..Filter::default() };
    let (info, count) = (api.incidents.list(&observations).len(), |severity| {
        all.iter().filter(|record| record.incident.severity == severity).count()
    });
    let (critical, warning) = (count(Severity::Critical), count(Severity::Warning));
    // The list is sorted by start, the latest first; the sort is stable.
    all.sort_by_key(|record| record.incident.severity != Severity::Critical);
    let list: Vec<Value> = all.iter().take(LISTED).map(|record| brief(api, record, now)).collect();
    json!({ "critical": critical, "warning": warning, "info": info, "list": list })
}

/// An incident in a few lines.
fn brief(api: &Api, record: &Record, now_ns: i64) -> Value {
    let incident = &record.incident;
    json!({
        "id": incident.id,
        "kind": record.kind().unwrap_or(incident.kind),
        "severity": incident.severity,
        "confidence": incident.confidence,
        "start_ns": incident.start_ns,
        "root": incident.root,
        "explanation": incident.explanation,
        "action": incident.action,
        "victim_jobs": incident.victim_jobs.iter().take(LISTED).collect::<Vec<_>>(),
        "culprit_jobs": incident.culprit_jobs.iter().take(LISTED).collect::<Vec<_>>(),
        "acknowledged": record.acknowledged.is_some(),
        "silenced": api.incidents.silence_of(record, now_ns).is_some(),
    })
}

/// Victims of open incidents, at most [`JOBS`]: first the job whose incident began earliest.
pub(super) fn suffering(api: &Api) -> Vec<SufferingJob> {
    let open = api.incidents.list(&Filter { open: Some(true), ..Filter::default() });
    let mut by_name: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in &open {
        record.incident.victim_jobs.iter().for_each(|job| by_name.entry(job).or_default().push(record));
    }
    let mut all: Vec<(&str, Vec<&Record>)> = by_name.into_iter().collect();
    all.iter_mut().for_each(|(_, records)| records.sort_by_key(|record| record.incident.start_ns));
    all.sort_by_key(|(_, records)| records.first().map(|record| record.incident.start_ns));
    let jobs = all.into_iter().take(JOBS).filter_map(|(name, records)| {
        let job = api.jobs.registry.get(&api.jobs.registry.parse_key(name))?;
        Some(SufferingJob {
            cluster: job.cluster,
            id: job.id,
            name: job.name,
            user: job.user,
            hosts: job.hosts.into_keys().collect(),
            incidents: records.iter().take(LISTED).map(|record| record.incident.id.clone()).collect(),
            since_ms: records.first()?.incident.start_ns / 1_000_000,
        })
    });
    jobs.collect()
}
