//! Counters of an uplink as catalog rows, and the check that every point is accounted for.

use crate::response::ResponseClass;
use crate::ring::Reader;
use crate::spool::{Lost, SpoolContents};
use crate::targets::Active;
use fabriclens_catalog::Metric;
use fabriclens_catalog::metrics::self_ as rows;
use fabriclens_wire::{Column, Resource, Section, Value};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between two log messages for one reason, and time that `/healthz` shows a loss.
const QUIET: Duration = Duration::from_secs(600);
/// Interval between two log messages about a flapping collector.
const CALM: Duration = Duration::from_secs(60);
/// Drop reason: the ring was full.
const RING: &str = "ring";

/// Reachability of the collector.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// No response yet.
    Unknown,
    /// The last request was answered.
    Up,
    /// Requests fail and are retried.
    Down {
        /// Time of the first failure.
        since: Instant,
        /// Last error.
        error: String,
        /// The collector is reachable, and refuses this agent's credentials or role.
        refused: bool,
    },
}

/// Place of points that are not settled yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buffer {
    /// Batch in flight.
    Memory,
    /// Spool.
    Spool,
}

/// Balance of points at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointBalance {
    /// Points from the ring, and the uplink's own.
    pub taken: u64,
    /// Points found in the spool when it was opened, and points spooled late that memory still had.
    pub found: u64,
    /// Points acknowledged by the collector.
    pub acked: u64,
    /// Points rejected by partial success.
    pub rejected: u64,
    /// Points given up, without those that the ring dropped.
    pub dropped: u64,
    /// Points in the spool.
    pub spooled: u64,
    /// Points in the batch in flight.
    pub in_flight: u64,
    /// Difference found by the last check; 0 if all points are accounted for.
    pub unaccounted: u64,
}

/// State of the spool, for `/healthz`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpoolStatus {
    /// Size limit, bytes; `None` without a spool.
    pub limit: Option<u64>,
    /// Contents.
    pub held: SpoolContents,
    /// Reason why it cannot be written.
    pub failure: Option<String>,
    /// Reason why it cannot be read.
    pub stuck: Option<String>,
}

/// Operation on the spool that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpoolOp {
    /// Append a request.
    Append,
    /// Read a request.
    Read,
}

impl SpoolOp {
    /// Rate-limit keys of the log messages for failure and recovery.
    pub(crate) fn topics(self) -> [&'static str; 2] {
        match self {
            Self::Append => ["spool_fails", "spool_works"],
            Self::Read => ["spool_is_stuck", "spool_gives"],
        }
    }
}

/// Counters of one uplink, under one lock that is taken a few times per request.
#[derive(Debug)]
pub struct Counters {
    inner: Mutex<Inner>,
    ring: Arc<Reader<Section>>,
    start_ns: u64,
    name: Option<Arc<str>>,
    active: Active,
}

#[derive(Debug)]
struct Inner {
    state: State,
    accounts: PointBalance,
    /// Part of `accounts.taken` that came from the ring.
    from_ring: u64,
    sent: u64,
    sent_bytes: u64,
    retried: u64,
    requests: BTreeMap<&'static str, u64>,
    dropped: BTreeMap<&'static str, u64>,
    latency: Option<Duration>,
    last_ack_ns: Option<u64>,
    logged_at: BTreeMap<&'static str, Instant>,
    /// Reason and time of the last loss.
    lost: Option<(&'static str, Instant)>,
    /// Points that the ring had dropped at the last look.
    ring_dropped: u64,
    disk: SpoolStatus,
    disk_errors: u64,
    /// Bytes written to and read from the spool.
    disk_bytes: [u64; 2],
    /// Columns of the last section.
    columns: Arc<[Column]>,
}

/// Metric, label and value of a series.
type Row<'a> = (&'static Metric, Option<(&'a str, &'a str)>, Value);

impl Inner {
    fn news(&mut self, reason: &'static str, quiet: Duration) -> bool {
        let recent = self.logged_at.get(reason).is_some_and(|at| at.elapsed() < quiet);
        if !recent {
            self.logged_at.insert(reason, Instant::now());
        }
        !recent
    }

    fn look_at_ring(&mut self, dropped: u64) {
        if dropped > self.ring_dropped {
            self.ring_dropped = dropped;
            self.lost = Some((RING, Instant::now()));
        }
    }

    fn leave(&mut self, from: Buffer, points: u64) {
        let left = match from {
            Buffer::Memory => &mut self.accounts.in_flight,
            Buffer::Spool => &mut self.accounts.spooled,
        };
        *left = left.saturating_sub(points);
    }
}

impl Counters {
    pub(crate) fn new(ring: Arc<Reader<Section>>, start_ns: u64, name: Option<&str>, active: Active) -> Self {
        // Present from the start, so that a first failure is an increase and not a new series.
        let spool = Lost::default().reasons().map(|(reason, _)| reason);
        let reasons = ["shutdown", "too_large", "invalid"].into_iter().chain(spool);
        let inner = Inner {
            state: State::Unknown,
            accounts: PointBalance::default(),
            from_ring: 0,
            sent: 0,
            sent_bytes: 0,
            retried: 0,
            requests: ["ok", "partial", "retry", "refused"].map(|o| (o, 0)).into(),
            dropped: reasons.map(|r| (r, 0)).collect(),
            latency: None,
            last_ack_ns: None,
            logged_at: BTreeMap::new(),
            lost: None,
            ring_dropped: 0,
            disk: SpoolStatus::default(),
            disk_errors: 0,
            disk_bytes: [0; 2],
            columns: Arc::from([]),
        };
        Self { inner: Mutex::new(inner), ring, start_ns, name: name.map(Into::into), active }
    }

    /// Host and port of the collector, if this uplink is one of several.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Reason why changed certificates or token are not in use.
    pub fn reload_failure(&self) -> Option<String> {
        self.active.reload_failure()
    }

    /// Reachability of the collector.
    pub fn state(&self) -> State {
        self.inner.lock().state.clone()
    }

    /// Balance of points.
    pub fn accounts(&self) -> PointBalance {
        let i = self.inner.lock();
        PointBalance { dropped: i.dropped.values().sum(), ..i.accounts.clone() }
    }

    /// State of the spool.
    pub fn disk(&self) -> SpoolStatus {
        self.inner.lock().disk.clone()
    }

    /// Points dropped for this reason.
    pub fn dropped_for(&self, reason: &str) -> u64 {
        self.inner.lock().dropped.get(reason).copied().unwrap_or(0)
    }

    /// Reason of a recent loss, and points dropped for it since the start.
    pub fn losing(&self) -> Option<(&'static str, u64)> {
        let dropped = self.ring.account().dropped;
        let mut i = self.inner.lock();
        i.look_at_ring(dropped);
        let (reason, _) = i.lost.filter(|(_, at)| at.elapsed() < QUIET)?;
        let points = if reason == RING { dropped } else { i.dropped.get(reason).copied().unwrap_or(0) };
        Some((reason, points))
    }

    /// Number of retried requests.
    pub fn retries(&self) -> u64 {
        self.inner.lock().retried
    }

    /// Counts points taken from the ring.
    pub(crate) fn taken(&self, points: u64) {
        self.inner.lock().from_ring += points;
        self.own(points);
    }

    /// Counts points of the agent itself that are sent with them.
    pub(crate) fn own(&self, points: u64) {
        let mut i = self.inner.lock();
        i.accounts.taken += points;
        i.accounts.in_flight += points;
    }

    /// Checks the balance against the batch in flight, the ring, and the spool if its count is known. Call only while
    /// no request is in progress.
    pub(crate) fn check(&self, under_way: u64, in_spool: Option<u64>) {
        let ring = self.ring.account();
        let mut i = self.inner.lock();
        i.look_at_ring(ring.dropped);
        let a = &i.accounts;
        let dropped: u64 = i.dropped.values().sum();
        let sums = [
            (a.taken + a.found, a.acked + a.rejected + dropped + a.spooled + a.in_flight),
            (ring.pushed, i.from_ring + ring.waiting + ring.dropped),
            (under_way, a.in_flight),
            (in_spool.unwrap_or(a.spooled), a.spooled),
        ];
        let off: u64 = sums.iter().map(|(should, is)| should.abs_diff(*is)).sum();
        if off > 0 && i.accounts.unaccounted == 0 {
            tracing::error!(points = off, ?sums, "point counts do not add up; please report this bug");
        }
        i.accounts.unaccounted = off;
    }

    pub(crate) fn sent(&self, points: u64, bytes: u64, class: &ResponseClass) {
        let mut i = self.inner.lock();
        i.sent += points;
        i.sent_bytes += bytes;
        *i.requests.entry(class.outcome()).or_default() += 1;
    }

    pub(crate) fn acked(&self, from: Buffer, points: u64, rejected: u64) {
        let mut i = self.inner.lock();
        i.leave(from, points + rejected);
        i.accounts.acked += points;
        i.accounts.rejected += rejected;
    }

    pub(crate) fn answered(&self, latency: Duration, now_ns: u64) {
        let mut i = self.inner.lock();
        i.latency = Some(latency);
        i.last_ack_ns = Some(now_ns);
    }

    pub(crate) fn dropped(&self, from: Buffer, points: u64, reason: &'static str) {
        let mut i = self.inner.lock();
        i.leave(from, points);
        *i.dropped.entry(reason).or_default() += points;
        i.lost = Some((reason, Instant::now()));
    }

    /// Counts a request in flight that was spooled; `late`: the caller no longer waited, and memory still has it.
    pub(crate) fn kept(&self, points: u64, bytes: u64, late: bool) {
        let mut i = self.inner.lock();
        if late {
            i.accounts.found += points;
        } else {
            i.leave(Buffer::Memory, points);
        }
        i.accounts.spooled += points;
        i.disk_bytes[0] += bytes;
    }

    /// Counts a request read from the spool, where it stays.
    pub(crate) fn read(&self, bytes: u64) {
        self.inner.lock().disk_bytes[1] += bytes;
    }

    /// Records that a spool with this limit was opened, and the number of its unreadable parts.
    pub(crate) fn opened(&self, limit: u64, held: SpoolContents, unreadable: u64) {
        let mut i = self.inner.lock();
        (i.disk.limit, i.disk.held) = (Some(limit), held);
        i.disk_errors += unreadable;
        i.accounts.found = held.points;
        i.accounts.spooled = held.points;
    }

    pub(crate) fn held(&self, held: SpoolContents) {
        self.inner.lock().disk.held = held;
    }

    /// Records success or failure of a spool operation; true when it changes.
    pub(crate) fn spool_fails(&self, way: SpoolOp, why: Option<String>) -> bool {
        let mut i = self.inner.lock();
        i.disk_errors += u64::from(why.is_some());
        let failure = match way {
            SpoolOp::Append => &mut i.disk.failure,
            SpoolOp::Read => &mut i.disk.stuck,
        };
        let news = failure.is_some() != why.is_some();
        *failure = why;
        news
    }

    pub(crate) fn retried(&self) {
        self.inner.lock().retried += 1;
    }

    /// Time that the collector has been unreachable.
    pub(crate) fn away(&self) -> Option<Duration> {
        match &self.inner.lock().state {
            State::Down { since, .. } => Some(since.elapsed()),
            State::Unknown | State::Up => None,
        }
    }

    /// Records success; true if the state changed and the change should be logged. A flapping collector is logged at
    /// intervals only.
    pub(crate) fn up(&self) -> bool {
        let mut i = self.inner.lock();
        std::mem::replace(&mut i.state, State::Up) != State::Up && i.news("up", CALM)
    }

    /// Records failure; true if the state or the kind of failure changed and the change should be logged.
    pub(crate) fn down(&self, error: &str, refused: bool) -> bool {
        let mut i = self.inner.lock();
        let before = match &i.state {
            State::Down { since, refused, .. } => Some((*since, *refused)),
            State::Unknown | State::Up => None,
        };
        let since = before.map_or_else(Instant::now, |(since, _)| since);
        i.state = State::Down { since, error: error.to_owned(), refused };
        before.is_none_or(|(_, before)| before != refused) && i.news(if refused { "refused" } else { "away" }, CALM)
    }

    /// Rate limit per reason: a collector that rejects each request must not fill the log.
    pub(crate) fn news(&self, reason: &'static str) -> bool {
        self.inner.lock().news(reason, QUIET)
    }

    /// All counters as one section; its columns change only when a new outcome or reason appears.
    pub fn section(&self, resource: &Arc<Resource>, now_ns: u64) -> Section {
        let ring = self.ring.account();
        let mut i = self.inner.lock();
        let i = &mut *i;
        let (a, disk) = (&i.accounts, &i.disk);
        let seconds = |ns: u64| Value::Float(ns as f64 / 1e9);
        let [from_samplers, from_spool] = [("origin", "samplers"), ("origin", "spool")].map(Some);
        let [in_memory, on_disk] = [("place", "memory"), ("place", "spool")].map(Some);
        // Points in the ring count as taken: they can be dropped there.
        let taken = a.taken + ring.waiting + ring.dropped;
        let mut rows: Vec<Row<'_>> = vec![
            (&rows::UPLINK_SENT, None, Value::Int(i.sent)),
            (&rows::UPLINK_SENT_IO, None, Value::Int(i.sent_bytes)),
            (&rows::UPLINK_TAKEN, from_samplers, Value::Int(taken)),
            (&rows::UPLINK_TAKEN, from_spool, Value::Int(a.found)),
            (&rows::UPLINK_ACKED, None, Value::Int(a.acked)),
            (&rows::UPLINK_REJECTED, None, Value::Int(a.rejected)),
            (&rows::UPLINK_WAITING, in_memory, Value::Int(a.in_flight + ring.waiting)),
            (&rows::UPLINK_WAITING, on_disk, Value::Int(a.spooled)),
            (&rows::UPLINK_UNACCOUNTED, None, Value::Int(a.unaccounted)),
            (&rows::UPLINK_RETRIED, None, Value::Int(i.retried)),
            (&rows::UPLINK_LATENCY, None, i.latency.map_or(Value::Absent, |l| Value::Float(l.as_secs_f64()))),
            (&rows::UPLINK_LAST_ACK, None, i.last_ack_ns.map_or(Value::Absent, seconds)),
            (&rows::UPLINK_CONNECTED, None, Value::Int(u64::from(i.state == State::Up))),
            (&rows::UPLINK_DROPPED, Some(("reason", RING)), Value::Int(ring.dropped)),
            (&rows::SPOOL_LIMIT, None, Value::Int(disk.limit.unwrap_or(0))),
            (&rows::SPOOL_SIZE, None, Value::Int(disk.held.bytes)),
            (&rows::SPOOL_OLDEST, None, disk.held.oldest_ns.map_or(Value::Absent, seconds)),
            (&rows::SPOOL_ASIDE, None, Value::Int(disk.held.aside)),
            (&rows::SPOOL_FAILING, None, Value::Int(u64::from(disk.failure.is_some() || disk.stuck.is_some()))),
            (&rows::SPOOL_ERRORS, None, Value::Int(i.disk_errors)),
            (&rows::SPOOL_IO, Some(("direction", "write")), Value::Int(i.disk_bytes[0])),
            (&rows::SPOOL_IO, Some(("direction", "read")), Value::Int(i.disk_bytes[1])),
        ];
        let asked = |(name, asked)| (&rows::UPLINK_ACTIVE, Some(("collector", name)), Value::Int(u64::from(asked)));
        rows.extend(self.active.rows().map(asked));
        let count = |metric, label| move |(of, n): (&&'static str, &u64)| (metric, Some((label, *of)), Value::Int(*n));
        rows.extend(i.requests.iter().map(count(&rows::UPLINK_REQUESTS, "outcome")));
        rows.extend(i.dropped.iter().map(count(&rows::UPLINK_DROPPED, "reason")));
        // Outcomes and reasons are never removed: an equal number of rows means equal rows.
        if i.columns.len() != rows.len() {
            // Labels are sorted by name; `collector` sorts first.
            let name = self.name.as_deref().map(|name| ("collector", name));
            let column = |(metric, label, _): &Row<'_>| {
                let labels = name.iter().chain(label).map(|(k, v)| ((*k).into(), (*v).into())).collect();
                Column { metric, labels }
            };
            i.columns = rows.iter().map(column).collect();
        }
        Section {
            resource: Arc::clone(resource),
            columns: Arc::clone(&i.columns),
            begin_ns: now_ns,
            end_ns: now_ns,
            starts: vec![self.start_ns; rows.len()].into(),
            values: rows.into_iter().map(|(_, _, value)| value).collect(),
            urgent: false,
        }
    }
}
