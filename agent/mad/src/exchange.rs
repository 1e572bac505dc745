//! Many requests in flight over one transport, each with a deadline and one retry, at a bounded rate.
//!
//! A node that does not answer costs only itself: after its first time-out its other requests are not sent until it has
//! answered again, and nodes under suspicion share a quarter of the window.

use crate::packet::{Get, Reply};
use crate::transport::Mad;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::time::{Duration, Instant};

/// Share of the window for nodes that did not answer.
const SUSPECTS: usize = 4;
/// Most requests in flight to one node: the processor of a switch answers some hundreds a second.
const PER_NODE: usize = 8;
/// Largest burst, as a time at the permitted rate.
const BURST: Duration = Duration::from_millis(50);
/// Shortest and longest wait for a datagram.
const WAITS: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(20)];

/// Limits of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Most MADs sent per second, retries included.
    pub per_second: u32,
    /// Time that a node has for an answer.
    pub deadline: Duration,
    /// Most requests in flight; the transport may hold fewer.
    pub in_flight: usize,
    /// Times that a request is sent again after its deadline.
    pub retries: u8,
}

impl Default for Pace {
    fn default() -> Self {
        Self { per_second: 2_000, deadline: Duration::from_millis(200), in_flight: 64, retries: 1 }
    }
}

/// Why a request has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No answer within the deadline, after all retries.
    #[error("no answer")]
    TimedOut,
    /// Not sent: the node did not answer an earlier request.
    #[error("not asked: the node does not answer")]
    Skipped,
    /// The node answered with an error.
    #[error("status 0x{0:04x}")]
    Status(u16),
}

/// Counts of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// MADs sent, retries included.
    pub sent: u64,
    /// Replies to requests in flight.
    pub answered: u64,
    /// Replies with an error status.
    pub refused: u64,
    /// Requests without an answer.
    pub timed_out: u64,
    /// Requests that were not sent because their node does not answer.
    pub skipped: u64,
    /// Datagrams that answer no request: truncated, late, of other classes, traps.
    pub foreign: u64,
}

impl Counts {
    /// Adds the counts of another exchange.
    pub fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.refused += other.refused;
        self.timed_out += other.timed_out;
        self.skipped += other.skipped;
        self.foreign += other.foreign;
    }
}

struct Request<K> {
    get: Get,
    node: u64,
    key: K,
    retries: u8,
}

struct Flight<K> {
    request: Request<K>,
    until: Instant,
    suspect: bool,
}

/// Requests in flight and waiting; `K` is what the caller knows a request by.
pub struct Exchange<'a, K> {
    mad: &'a mut dyn Mad,
    pace: Pace,
    waiting: VecDeque<Request<K>>,
    suspended: VecDeque<Request<K>>,
    flights: HashMap<u32, Flight<K>>,
    /// Transactions by deadline: all have the same, so this is in order.
    deadlines: VecDeque<u32>,
    done: VecDeque<(K, Result<Reply, Failure>)>,
    suspects: HashSet<u64>,
    suspects_in_flight: usize,
    /// Requests in flight by node.
    by_node: HashMap<u64, usize>,
    transaction: u32,
    /// MADs that may be sent now, and when that was computed.
    allowance: f64,
    computed: Instant,
    buffer: Vec<u8>,
    /// Counts since the exchange began.
    pub counts: Counts,
}

impl<'a, K> Exchange<'a, K> {
    /// Begins an exchange. `first` is the number of its first transaction: a late reply to an earlier exchange must not
    /// be taken for one to this, so let the numbers of exchanges on one transport not overlap.
    pub fn new(mad: &'a mut dyn Mad, pace: Pace, first: u32) -> Self {
        Self {
            mad,
            pace,
            waiting: VecDeque::new(),
            suspended: VecDeque::new(),
            flights: HashMap::new(),
            deadlines: VecDeque::new(),
            done: VecDeque::new(),
            suspects: HashSet::new(),
            suspects_in_flight: 0,
            by_node: HashMap::new(),
            transaction: first,
            allowance: 1.0,
            computed: Instant::now(),
            buffer: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Number of the next transaction: where the next exchange continues.
    pub fn next_transaction(&self) -> u32 {
        self.transaction
    }

    /// Queues a request; `node` is the GUID of the node that answers, 0 if it is not known yet.
    pub fn ask(&mut self, node: u64, get: Get, key: K) {
        self.waiting.push_back(Request { get, node, key, retries: self.pace.retries });
    }

    /// Marks a node that did not answer before: until it does, only one request is in flight to it.
    pub fn suspect(&mut self, node: u64) {
        self.suspects.insert(node);
    }

    /// Nodes that did not answer their last request.
    pub fn suspects(&self) -> &HashSet<u64> {
        &self.suspects
    }

    /// The next finished request, in any order; `None` when all are.
    ///
    /// # Errors
    /// The transport is gone.
    pub fn finished(&mut self) -> io::Result<Option<(K, Result<Reply, Failure>)>> {
        loop {
            if let Some(done) = self.done.pop_front() {
                return Ok(Some(done));
            }
            let sent = self.send()?;
            if self.flights.is_empty() && self.waiting.is_empty() && self.suspended.is_empty() && self.done.is_empty() {
                return Ok(None);
            }
            self.receive(if sent { WAITS[0] } else { self.wait() })?;
            self.expire(Instant::now());
        }
    }

    /// Sends what rate and window permit; true if more could be sent at once.
    fn send(&mut self) -> io::Result<bool> {
        let now = Instant::now();
        let rate = f64::from(self.pace.per_second.max(1));
        let most = (rate * BURST.as_secs_f64()).max(1.0);
        self.allowance = (self.allowance + rate * (now - self.computed).as_secs_f64()).min(most);
        self.computed = now;
        let window = self.pace.in_flight.min(self.mad.window()).max(1);
        while self.allowance >= 1.0 && self.flights.len() < window {
            let Some(request) = self.pick(window) else { return Ok(false) };
            self.transaction = self.transaction.wrapping_add(1);
            let suspect = self.suspects.contains(&request.node);
            match self.mad.send(&request.get, self.transaction) {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    self.waiting.push_front(request);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
            self.allowance -= 1.0;
            self.counts.sent += 1;
            self.suspects_in_flight += usize::from(suspect);
            *self.by_node.entry(request.node).or_default() += 1;
            self.flights.insert(self.transaction, Flight { request, until: now + self.pace.deadline, suspect });
            self.deadlines.push_back(self.transaction);
        }
        Ok(self.flights.len() < window && !self.waiting.is_empty() && self.allowance >= 1.0)
    }

    /// The next request to send. Those of suspects wait aside until there is room for one.
    fn pick(&mut self, window: usize) -> Option<Request<K>> {
        let room = self.suspects_in_flight < (window / SUSPECTS).max(1);
        let mut at = 0;
        while let Some(request) = self.waiting.get(at) {
            if self.suspects.contains(&request.node) {
                self.suspended.extend(self.waiting.remove(at));
            } else if request.node != 0 && self.by_node.get(&request.node).is_some_and(|n| *n >= PER_NODE) {
                at += 1;
            } else {
                return self.waiting.remove(at);
            }
        }
        // One request at a time probes a suspect.
        let busy: HashSet<u64> = self.flights.values().filter(|f| f.suspect).map(|f| f.request.node).collect();
        let at = self.suspended.iter().position(|request| !busy.contains(&request.node)).filter(|_| room)?;
        self.suspended.remove(at)
    }

    /// Time until the next deadline, or until the rate permits a request.
    fn wait(&self) -> Duration {
        let now = Instant::now();
        let deadline = self.deadlines.front().and_then(|t| self.flights.get(t)).map(|f| f.until - now);
        let full = self.flights.len() >= self.pace.in_flight.min(self.mad.window()).max(1);
        let rate = Duration::from_secs_f64((1.0 - self.allowance).max(0.0) / f64::from(self.pace.per_second.max(1)));
        let wait = if full || self.waiting.is_empty() { deadline.unwrap_or(rate) } else { rate };
        wait.clamp(WAITS[0], WAITS[1])
    }

    /// Waits for a datagram, and reads it and those that have arrived meanwhile.
    fn receive(&mut self, mut wait: Duration) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        for _ in 0..self.pace.in_flight.max(1) {
            if self.mad.receive(wait, &mut buffer)?.is_none() {
                break;
            }
            self.take(&buffer);
            if self.flights.is_empty() {
                break;
            }
            wait = Duration::ZERO;
            if !self.waiting.is_empty() {
                break;
            }
        }
        self.buffer = buffer;
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) {
        let reply = Reply::decode(bytes).ok();
        let ours = reply.filter(|r| self.flights.get(&r.transaction).is_some_and(|f| f.request.get.is_answered_by(r)));
        let Some((reply, flight)) =
            ours.and_then(|r| Some((self.flights.remove(&r.transaction)?, r))).map(|(f, r)| (r, f))
        else {
            self.counts.foreign += 1;
            return;
        };
        self.land(&flight);
        self.counts.answered += 1;
        if self.suspects.remove(&flight.request.node) {
            // It lives: its other requests go on.
            let node = flight.request.node;
            let (its, others) = self.suspended.drain(..).partition(|request: &Request<K>| request.node == node);
            self.suspended = others;
            self.waiting.extend::<VecDeque<_>>(its);
        }
        let result = match reply.status {
            0 => Ok(reply),
            status => {
                self.counts.refused += 1;
                Err(Failure::Status(status))
            }
        };
        self.done.push_back((flight.request.key, result));
    }

    fn land(&mut self, flight: &Flight<K>) {
        self.suspects_in_flight -= usize::from(flight.suspect);
        if let Some(flights) = self.by_node.get_mut(&flight.request.node) {
            *flights = flights.saturating_sub(1);
        }
    }

    /// Sends requests again whose deadline has passed, or gives them up, and with them all others of the node.
    fn expire(&mut self, now: Instant) {
        while let Some(transaction) = self.deadlines.front() {
            let Some(flight) = self.flights.get(transaction) else {
                self.deadlines.pop_front();
                continue;
            };
            if flight.until > now {
                return;
            }
            let Some(flight) = self.deadlines.pop_front().and_then(|t| self.flights.remove(&t)) else { continue };
            self.land(&flight);
            let Request { node, .. } = flight.request;
            if node != 0 {
                self.suspects.insert(node);
            }
            if flight.request.retries > 0 {
                let retries = flight.request.retries - 1;
                self.waiting.push_back(Request { retries, ..flight.request });
                continue;
            }
            self.counts.timed_out += 1;
            self.done.push_back((flight.request.key, Err(Failure::TimedOut)));
            if node != 0 {
                self.give_up(node);
            }
        }
    }

    /// Ends the requests of a node that have not been sent.
    fn give_up(&mut self, node: u64) {
        for queue in [&mut self.waiting, &mut self.suspended] {
            let (its, others) = queue.drain(..).partition(|request: &Request<K>| request.node == node);
            *queue = others;
            let its: VecDeque<Request<K>> = its;
            self.counts.skipped += its.len() as u64;
            self.done.extend(its.into_iter().map(|request| (request.key, Err(Failure::Skipped))));
        }
    }
}

#[cfg(test)]
mod tests;
