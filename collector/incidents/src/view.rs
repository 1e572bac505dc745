//! Incidents as seen by notifications and the API: incidents that recur in close succession form one thread, so that a
//! flapping incident notifies only once until it is over for good.

use std::collections::HashMap;
use std::sync::Arc;

use fabriclens_correlate::Severity;
use serde::Serialize;

use super::record::Record;
use super::silence::Silence;

/// An incident of the same kind and location within this time after another joins its thread. A thread with recurrences
/// is over after being quiet for this long.
pub const FLAP_NS: i64 = 600 * 1_000_000_000;

/// A series of recurring incidents.
#[derive(Clone, Debug)]
pub struct Thread {
    /// ID of its first incident.
    pub key: String,
    /// Its last incident.
    pub record: Arc<Record>,
    /// Begin of the first incident, Unix ns.
    pub start_ns: i64,
    /// End; `None` while it is open or may still recur.
    pub end_ns: Option<i64>,
    /// No notifications: an observation, silenced, not a problem, or over before it was known.
    pub quiet: bool,
}

impl Thread {
    /// Groups records into threads: open ones, and those that ended since `since_ns`.
    pub(super) fn all<'a>(
        records: impl Iterator<Item = &'a Arc<Record>>,
        now_ns: i64,
        since_ns: i64,
        quiet: impl Fn(&Record) -> bool,
    ) -> Vec<Self> {
        let mut threads: HashMap<&str, Self> = HashMap::new();
        for record in records.filter(|r| r.incident.end_ns.is_none_or(|end| end >= since_ns)) {
            let fresh = || Self {
                key: record.thread().to_owned(),
                record: record.clone(),
                start_ns: record.incident.start_ns,
                end_ns: None,
                quiet: false,
            };
            let thread = threads.entry(record.thread()).or_insert_with(fresh);
            thread.start_ns = thread.start_ns.min(record.incident.start_ns);
            if record.recurrences >= thread.record.recurrences {
                thread.record = record.clone();
            }
        }
        let mut threads: Vec<Self> = threads.into_values().collect();
        for thread in &mut threads {
            let record = &thread.record;
            let held = record.recurrences > 0 && record.incident.end_ns.is_some_and(|end| now_ns - end < FLAP_NS);
            thread.end_ns = if held { None } else { record.incident.end_ns };
            let past = record.found_late && !record.is_open();
            let observed = record.incident.severity == Severity::Info;
            thread.quiet = past || observed || record.kind().is_none() || quiet(record);
        }
        threads.sort_by(|a, b| (a.start_ns, &a.key).cmp(&(b.start_ns, &b.key)));
        threads
    }
}

/// An incident as written by the API and webhooks, with derived fields.
#[derive(Serialize)]
pub struct IncidentView<'a> {
    #[serde(flatten)]
    record: &'a Record,
    state: &'static str,
    /// Page of the documentation that says what to do, such as `runbooks/pfc-storm.md`; absent for no problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    docs: Option<&'static str>,
    /// Silence in force.
    silenced: Option<Silence>,
}

impl<'a> IncidentView<'a> {
    /// Adds the silence in force.
    pub fn of(record: &'a Record, silenced: Option<Silence>) -> Self {
        let docs = record.kind().map(|kind| kind.spec().docs);
        Self { record, state: if record.is_open() { "open" } else { "ended" }, docs, silenced }
    }
}
