//! Incidents as those see them who are told: what recurs closely is one thread, so that flapping tells nobody more often
//! than once until it is over for good.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;

use super::record::Record;
use super::silence::Silence;

/// An incident of the same kind in the same place within this time after another is the same thread. A thread that
/// recurred is over when it has been quiet for as long.
pub const FLAP_NS: i64 = 600 * 1_000_000_000;

/// See the module.
#[derive(Clone, Debug)]
pub struct Thread {
    /// The first incident's id.
    pub key: String,
    /// The last incident.
    pub record: Arc<Record>,
    /// When the first began, Unix nanoseconds.
    pub start_ns: i64,
    /// When it was over; `None`: it goes on, or may come back any moment.
    pub end_ns: Option<i64>,
    /// Nobody is to be told: it is silenced, no problem, or was over when anybody knew.
    pub quiet: bool,
}

impl Thread {
    /// Of all records that matter: open, or over since `since_ns`.
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
            thread.quiet = past || record.kind().is_none() || quiet(record);
        }
        threads.sort_by(|a, b| (a.start_ns, &a.key).cmp(&(b.start_ns, &b.key)));
        threads
    }
}

/// An incident as the API and webhooks write it: with what is derived of it.
#[derive(Serialize)]
pub struct Shown<'a> {
    #[serde(flatten)]
    record: &'a Record,
    state: &'static str,
    /// The silence in force.
    silenced: Option<Silence>,
}

impl<'a> Shown<'a> {
    /// With the silence that is in force for it.
    pub fn of(record: &'a Record, silenced: Option<Silence>) -> Self {
        Self { record, state: if record.is_open() { "open" } else { "ended" }, silenced }
    }
}
