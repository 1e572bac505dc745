//! Requests to the agent's own server, as catalog rows.

use fabriclens_catalog::metrics::self_ as rows;
use fabriclens_wire::{Column, Resource, Section, Value};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Paths with a count of their own; the others count as `other`, so that clients cannot create series.
const PATHS: [&str; 5] = ["/", "/metrics", "/healthz", "/readyz", "/debug/microburst"];

/// Counts and times of requests.
#[derive(Debug)]
pub struct Counters {
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    seconds: Mutex<BTreeMap<&'static str, f64>>,
    /// Columns of the last section.
    columns: Mutex<Arc<[Column]>>,
}

impl Default for Counters {
    fn default() -> Self {
        Self { requests: Mutex::default(), seconds: Mutex::default(), columns: Mutex::new(Arc::from([])) }
    }
}

impl Counters {
    pub(super) fn request(&self, path: &str, status: u16, time: Duration) {
        let path = PATHS.iter().find(|p| **p == path).copied().unwrap_or("other");
        *self.requests.lock().entry((path, status)).or_default() += 1;
        *self.seconds.lock().entry(path).or_default() += time.as_secs_f64();
    }

    /// All counts as one section; its columns change only when a new path or status appears.
    pub fn section(&self, resource: &Arc<Resource>, now_ns: u64) -> Section {
        let mut columns = Vec::new();
        let mut values = Vec::new();
        for ((path, status), n) in self.requests.lock().iter() {
            let labels = vec![("path".into(), (*path).into()), ("status".into(), status.to_string().into())];
            columns.push(Column { metric: &rows::HTTP_REQUESTS, labels });
            values.push(Value::Int(*n));
        }
        for (path, seconds) in self.seconds.lock().iter() {
            columns.push(Column { metric: &rows::HTTP_DURATION, labels: vec![("path".into(), (*path).into())] });
            values.push(Value::Float(*seconds));
        }
        // Paths and statuses are never removed: an equal number of columns means equal columns.
        let mut kept = self.columns.lock();
        if kept.len() != columns.len() {
            *kept = columns.into();
        }
        Section {
            resource: Arc::clone(resource),
            starts: vec![0; kept.len()].into(),
            columns: Arc::clone(&kept),
            begin_ns: now_ns,
            end_ns: now_ns,
            values,
            urgent: false,
        }
    }
}
