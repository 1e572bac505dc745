//! What the uplink counts, as a section of ordinary catalog rows.

use super::verdict::Verdict;
use fabriclens_catalog::Metric;
use fabriclens_catalog::metrics::self_ as rows;
use fabriclens_wire::{Column, Resource, Section, Value};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long one reason for refused points is not logged again.
const QUIET: Duration = Duration::from_secs(600);

/// Whether requests reach the collector.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// Nothing was answered yet.
    Unknown,
    /// The last request was answered.
    Up,
    /// Trying again.
    Down {
        /// Since when.
        since: Instant,
        /// The last error.
        error: String,
    },
}

/// Counts of one uplink. A single lock, taken a few times per request.
#[derive(Debug)]
pub struct Counters(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    state: State,
    taken: u64,
    sent: u64,
    sent_bytes: u64,
    acked: u64,
    rejected: u64,
    retried: u64,
    requests: BTreeMap<&'static str, u64>,
    dropped: BTreeMap<&'static str, u64>,
    latency: Option<Duration>,
    last_ack_ns: Option<u64>,
    told: BTreeMap<&'static str, Instant>,
    /// Of the last section.
    columns: Arc<[Column]>,
}

impl Default for Counters {
    fn default() -> Self {
        Self(Mutex::new(Inner {
            state: State::Unknown,
            taken: 0,
            sent: 0,
            sent_bytes: 0,
            acked: 0,
            rejected: 0,
            retried: 0,
            // Known from the start, so that a first failure is an increase and not a new series.
            requests: ["ok", "partial", "retry", "refused"].map(|o| (o, 0)).into(),
            dropped: ["shutdown", "too_large", "invalid"].map(|r| (r, 0)).into(),
            latency: None,
            last_ack_ns: None,
            told: BTreeMap::new(),
            columns: Arc::from([]),
        }))
    }
}

/// Metric, label and value of one of its series.
type Row<'a> = (&'static Metric, Option<(&'a str, &'a str)>, Value);

impl Counters {
    /// Whether requests reach the collector.
    pub fn state(&self) -> State {
        self.0.lock().state.clone()
    }

    /// Points taken from the ring, acknowledged, rejected, dropped. The rest is in flight.
    pub fn accounts(&self) -> (u64, u64, u64, u64) {
        let i = self.0.lock();
        (i.taken, i.acked, i.rejected, i.dropped.values().sum())
    }

    /// Points dropped for a reason.
    pub fn dropped_for(&self, reason: &str) -> u64 {
        self.0.lock().dropped.get(reason).copied().unwrap_or(0)
    }

    /// Requests that were sent again.
    pub fn retries(&self) -> u64 {
        self.0.lock().retried
    }

    pub(super) fn taken(&self, points: u64) {
        self.0.lock().taken += points;
    }

    pub(super) fn sent(&self, points: u64, bytes: u64, verdict: &Verdict) {
        let mut i = self.0.lock();
        i.sent += points;
        i.sent_bytes += bytes;
        *i.requests.entry(verdict.outcome()).or_default() += 1;
    }

    pub(super) fn acked(&self, points: u64, rejected: u64, latency: Duration, now_ns: u64) {
        let mut i = self.0.lock();
        i.acked += points;
        i.rejected += rejected;
        i.latency = Some(latency);
        i.last_ack_ns = Some(now_ns);
    }

    pub(super) fn dropped(&self, points: u64, reason: &'static str) {
        *self.0.lock().dropped.entry(reason).or_default() += points;
    }

    pub(super) fn retried(&self) {
        self.0.lock().retried += 1;
    }

    /// True when that changes the state: only changes are logged.
    pub(super) fn up(&self) -> bool {
        let mut i = self.0.lock();
        std::mem::replace(&mut i.state, State::Up) != State::Up
    }

    /// True when that changes the state.
    pub(super) fn down(&self, error: &str) -> bool {
        let mut i = self.0.lock();
        if let State::Down { error: last, .. } = &mut i.state {
            error.clone_into(last);
            return false;
        }
        i.state = State::Down { since: Instant::now(), error: error.to_owned() };
        true
    }

    /// True when a reason was not told for a while: a collector that refuses each request must not fill the log.
    pub(super) fn news(&self, reason: &'static str) -> bool {
        let mut i = self.0.lock();
        let told = i.told.get(reason).is_some_and(|at| at.elapsed() < QUIET);
        if !told {
            i.told.insert(reason, Instant::now());
        }
        !told
    }

    /// All of it as one section; its columns are the same until a new outcome or reason appears.
    pub fn section(&self, resource: &Arc<Resource>, start_ns: u64, now_ns: u64) -> Section {
        let mut i = self.0.lock();
        let seconds = |ns: u64| Value::Float(ns as f64 / 1e9);
        let mut rows: Vec<Row<'_>> = vec![
            (&rows::UPLINK_SENT, None, Value::Int(i.sent)),
            (&rows::UPLINK_SENT_IO, None, Value::Int(i.sent_bytes)),
            (&rows::UPLINK_ACKED, None, Value::Int(i.acked)),
            (&rows::UPLINK_REJECTED, None, Value::Int(i.rejected)),
            (&rows::UPLINK_RETRIED, None, Value::Int(i.retried)),
            (&rows::UPLINK_LATENCY, None, i.latency.map_or(Value::Absent, |l| Value::Float(l.as_secs_f64()))),
            (&rows::UPLINK_LAST_ACK, None, i.last_ack_ns.map_or(Value::Absent, seconds)),
            (&rows::UPLINK_CONNECTED, None, Value::Int(u64::from(i.state == State::Up))),
        ];
        let count = |metric, label| move |(of, n): (&&'static str, &u64)| (metric, Some((label, *of)), Value::Int(*n));
        rows.extend(i.requests.iter().map(count(&rows::UPLINK_REQUESTS, "outcome")));
        rows.extend(i.dropped.iter().map(count(&rows::UPLINK_DROPPED, "reason")));
        // Outcomes and reasons are never forgotten: as many rows are the same rows.
        if i.columns.len() != rows.len() {
            let labels = |label: Option<(&str, &str)>| label.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
            i.columns = rows.iter().map(|(metric, label, _)| Column { metric, labels: labels(*label) }).collect();
        }
        Section {
            resource: Arc::clone(resource),
            columns: Arc::clone(&i.columns),
            begin_ns: now_ns,
            end_ns: now_ns,
            starts: vec![start_ns; rows.len()].into(),
            values: rows.into_iter().map(|(_, _, value)| value).collect(),
            urgent: false,
        }
    }
}
