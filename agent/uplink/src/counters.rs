//! What the uplink counts, as a section of ordinary catalog rows, and whether it adds up.

use crate::response::Verdict;
use crate::ring::Reader;
use crate::spool::{Held, Lost};
use crate::targets::Active;
use fabriclens_catalog::Metric;
use fabriclens_catalog::metrics::self_ as rows;
use fabriclens_wire::{Column, Resource, Section, Value};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long one reason for refused points is not logged again, and a loss is told at `/healthz`.
const QUIET: Duration = Duration::from_secs(600);
/// The same of a collector that comes and goes.
const CALM: Duration = Duration::from_secs(60);
/// The reason for points that found no room in memory.
const RING: &str = "ring";

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
        /// It is there, and does not let this agent in.
        refused: bool,
    },
}

/// Where points are before they are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the batch under way.
    Memory,
    /// In the spool.
    Spool,
}

/// Points at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// From the ring, and the uplink's own.
    pub taken: u64,
    /// In the spool when it was opened, or there when memory had them still.
    pub found: u64,
    /// Acknowledged.
    pub acked: u64,
    /// Refused by partial success.
    pub rejected: u64,
    /// Given up, without those that the ring dropped.
    pub dropped: u64,
    /// In the spool.
    pub spooled: u64,
    /// In the batch under way.
    pub in_flight: u64,
    /// Points that the accounts lacked or had too much when they were last checked.
    pub unaccounted: u64,
}

/// The spool, for `/healthz`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disk {
    /// Its bound, bytes; `None` where there is no spool.
    pub limit: Option<u64>,
    /// What it holds.
    pub held: Held,
    /// Why it takes nothing.
    pub failure: Option<String>,
    /// Why it gives nothing.
    pub stuck: Option<String>,
}

/// What a spool does not do when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Take.
    In,
    /// Give.
    Out,
}

impl Way {
    /// What is told once in a while, of its failure and its end.
    pub(crate) fn topics(self) -> [&'static str; 2] {
        match self {
            Self::In => ["spool_fails", "spool_works"],
            Self::Out => ["spool_is_stuck", "spool_gives"],
        }
    }
}

/// Counts of one uplink. A single lock, taken a few times per request.
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
    accounts: Accounts,
    /// Of `accounts.taken`, those from the ring.
    from_ring: u64,
    sent: u64,
    sent_bytes: u64,
    retried: u64,
    requests: BTreeMap<&'static str, u64>,
    dropped: BTreeMap<&'static str, u64>,
    latency: Option<Duration>,
    last_ack_ns: Option<u64>,
    told: BTreeMap<&'static str, Instant>,
    /// The last loss: its reason, and when.
    lost: Option<(&'static str, Instant)>,
    /// What the ring had dropped when it was last looked at.
    ring_dropped: u64,
    disk: Disk,
    disk_errors: u64,
    /// Bytes that the spool took and gave.
    disk_bytes: [u64; 2],
    /// Of the last section.
    columns: Arc<[Column]>,
}

/// Metric, label and value of one of its series.
type Row<'a> = (&'static Metric, Option<(&'a str, &'a str)>, Value);

impl Inner {
    fn news(&mut self, reason: &'static str, quiet: Duration) -> bool {
        let told = self.told.get(reason).is_some_and(|at| at.elapsed() < quiet);
        if !told {
            self.told.insert(reason, Instant::now());
        }
        !told
    }

    fn look_at_ring(&mut self, dropped: u64) {
        if dropped > self.ring_dropped {
            self.ring_dropped = dropped;
            self.lost = Some((RING, Instant::now()));
        }
    }

    fn leave(&mut self, from: Place, points: u64) {
        let left = match from {
            Place::Memory => &mut self.accounts.in_flight,
            Place::Spool => &mut self.accounts.spooled,
        };
        *left = left.saturating_sub(points);
    }
}

impl Counters {
    pub(crate) fn new(ring: Arc<Reader<Section>>, start_ns: u64, name: Option<&str>, active: Active) -> Self {
        // Known from the start, so that a first failure is an increase and not a new series.
        let spool = Lost::default().reasons().map(|(reason, _)| reason);
        let reasons = ["shutdown", "too_large", "invalid"].into_iter().chain(spool);
        let inner = Inner {
            state: State::Unknown,
            accounts: Accounts::default(),
            from_ring: 0,
            sent: 0,
            sent_bytes: 0,
            retried: 0,
            requests: ["ok", "partial", "retry", "refused"].map(|o| (o, 0)).into(),
            dropped: reasons.map(|r| (r, 0)).collect(),
            latency: None,
            last_ack_ns: None,
            told: BTreeMap::new(),
            lost: None,
            ring_dropped: 0,
            disk: Disk::default(),
            disk_errors: 0,
            disk_bytes: [0; 2],
            columns: Arc::from([]),
        };
        Self { inner: Mutex::new(inner), ring, start_ns, name: name.map(Into::into), active }
    }

    /// The collector's host and port, where this uplink is one of several.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Why certificates or token that changed are not in force.
    pub fn reload_failure(&self) -> Option<String> {
        self.active.reload_failure()
    }

    /// Whether requests reach the collector.
    pub fn state(&self) -> State {
        self.inner.lock().state.clone()
    }

    /// All points.
    pub fn accounts(&self) -> Accounts {
        let i = self.inner.lock();
        Accounts { dropped: i.dropped.values().sum(), ..i.accounts.clone() }
    }

    /// The spool.
    pub fn disk(&self) -> Disk {
        self.inner.lock().disk.clone()
    }

    /// Points dropped for a reason.
    pub fn dropped_for(&self, reason: &str) -> u64 {
        self.inner.lock().dropped.get(reason).copied().unwrap_or(0)
    }

    /// Why points were given up lately, and how many were for that reason since the start.
    pub fn losing(&self) -> Option<(&'static str, u64)> {
        let dropped = self.ring.account().dropped;
        let mut i = self.inner.lock();
        i.look_at_ring(dropped);
        let (reason, _) = i.lost.filter(|(_, at)| at.elapsed() < QUIET)?;
        let points = if reason == RING { dropped } else { i.dropped.get(reason).copied().unwrap_or(0) };
        Some((reason, points))
    }

    /// Requests that were sent again.
    pub fn retries(&self) -> u64 {
        self.inner.lock().retried
    }

    /// A batch of so many points left the ring.
    pub(crate) fn taken(&self, points: u64) {
        self.inner.lock().from_ring += points;
        self.own(points);
    }

    /// So many points of the agent itself go with it.
    pub(crate) fn own(&self, points: u64) {
        let mut i = self.inner.lock();
        i.accounts.taken += points;
        i.accounts.in_flight += points;
    }

    /// Checks what was counted against what is there: the batch under way, the ring, and the spool, where its count can
    /// be had. To be called when nothing else is under way.
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
            tracing::error!(points = off, ?sums, "the accounts of samples do not add up: an error of this program");
        }
        i.accounts.unaccounted = off;
    }

    pub(crate) fn sent(&self, points: u64, bytes: u64, verdict: &Verdict) {
        let mut i = self.inner.lock();
        i.sent += points;
        i.sent_bytes += bytes;
        *i.requests.entry(verdict.outcome()).or_default() += 1;
    }

    pub(crate) fn acked(&self, from: Place, points: u64, rejected: u64) {
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

    pub(crate) fn dropped(&self, from: Place, points: u64, reason: &'static str) {
        let mut i = self.inner.lock();
        i.leave(from, points);
        *i.dropped.entry(reason).or_default() += points;
        i.lost = Some((reason, Instant::now()));
    }

    /// A request under way went to the spool; `late`: when nobody waited for that any more, and memory has it still.
    pub(crate) fn kept(&self, points: u64, bytes: u64, late: bool) {
        let mut i = self.inner.lock();
        if late {
            i.accounts.found += points;
        } else {
            i.leave(Place::Memory, points);
        }
        i.accounts.spooled += points;
        i.disk_bytes[0] += bytes;
    }

    /// A request was read from the spool, where it still is.
    pub(crate) fn read(&self, bytes: u64) {
        self.inner.lock().disk_bytes[1] += bytes;
    }

    /// A spool of that bound was opened; so many parts of it cannot be read.
    pub(crate) fn opened(&self, limit: u64, held: Held, unreadable: u64) {
        let mut i = self.inner.lock();
        (i.disk.limit, i.disk.held) = (Some(limit), held);
        i.disk_errors += unreadable;
        i.accounts.found = held.points;
        i.accounts.spooled = held.points;
    }

    pub(crate) fn held(&self, held: Held) {
        self.inner.lock().disk.held = held;
    }

    /// Notes whether the spool takes, or gives; true when that changes.
    pub(crate) fn spool_fails(&self, way: Way, why: Option<String>) -> bool {
        let mut i = self.inner.lock();
        i.disk_errors += u64::from(why.is_some());
        let failure = match way {
            Way::In => &mut i.disk.failure,
            Way::Out => &mut i.disk.stuck,
        };
        let news = failure.is_some() != why.is_some();
        *failure = why;
        news
    }

    pub(crate) fn retried(&self) {
        self.inner.lock().retried += 1;
    }

    /// How long the collector has been away.
    pub(crate) fn away(&self) -> Option<Duration> {
        match &self.inner.lock().state {
            State::Down { since, .. } => Some(since.elapsed()),
            State::Unknown | State::Up => None,
        }
    }

    /// True when that changes the state and is to be told: only changes are logged, and not each of a collector that comes
    /// and goes.
    pub(crate) fn up(&self) -> bool {
        let mut i = self.inner.lock();
        std::mem::replace(&mut i.state, State::Up) != State::Up && i.news("up", CALM)
    }

    /// True when that changes the state, or what kind of trouble it is, and is to be told.
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

    /// True when a reason was not told for a while: a collector that refuses each request must not fill the log.
    pub(crate) fn news(&self, reason: &'static str) -> bool {
        self.inner.lock().news(reason, QUIET)
    }

    /// All of it as one section; its columns are the same until a new outcome or reason appears.
    pub fn section(&self, resource: &Arc<Resource>, now_ns: u64) -> Section {
        let ring = self.ring.account();
        let mut i = self.inner.lock();
        let i = &mut *i;
        let (a, disk) = (&i.accounts, &i.disk);
        let seconds = |ns: u64| Value::Float(ns as f64 / 1e9);
        let [from_samplers, from_spool] = [("origin", "samplers"), ("origin", "spool")].map(Some);
        let [in_memory, on_disk] = [("place", "memory"), ("place", "spool")].map(Some);
        // What has not left the ring is taken too: it can be dropped there.
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
        // Outcomes and reasons are never forgotten: as many rows are the same rows.
        if i.columns.len() != rows.len() {
            // Names of labels in their order: `collector` is before all others.
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
