//! One datagram after the other at one socket: what was sent waits for its answer or for the end of its time.
//!
//! Routers may quote too little of a datagram to tell which one they answer. So at most one datagram waits at a time, and
//! after one without an answer the socket rests: a late answer then meets no datagram that waits, and is ignored.

use crate::stats::Stats;
use crate::token::{Quote, Secret};
use crate::transport::{Datagrams, IcmpKind};
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Time that an answer has.
pub const TIMEOUT: Duration = Duration::from_secs(1);
/// Rest after a datagram without an answer.
pub const REST: Duration = Duration::from_secs(2);

/// A socket and the datagram that waits for an answer.
#[derive(Debug)]
pub struct Exchange<S> {
    pub socket: S,
    secret: Secret,
    number: u32,
    waiting: Option<Instant>,
    /// When the next datagram may be sent.
    rests_until: Instant,
}

/// What became of the datagram that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered.
    Answer(IcmpKind, IpAddr),
    /// Its time has passed.
    Silence,
}

impl<S: Datagrams> Exchange<S> {
    pub fn new(socket: S, secret: u64, now: Instant) -> Self {
        Self { socket, secret: Secret(secret), number: 0, waiting: None, rests_until: now }
    }

    /// Whether a datagram may be sent.
    pub fn is_free(&self, now: Instant) -> bool {
        self.waiting.is_none() && self.rests_until <= now
    }

    /// When the state changes without an answer: the end of the wait, or of the rest.
    pub fn next(&self) -> Instant {
        self.waiting.map_or(self.rests_until, |sent| sent + TIMEOUT)
    }

    /// Sends the next datagram.
    pub fn send(&mut self, ttl: u8, now: Instant) -> io::Result<()> {
        self.number += 1;
        self.socket.send(ttl, &self.secret.data(self.number))?;
        self.waiting = Some(now);
        Ok(())
    }

    /// What became of the datagram that waits; `None` while it waits, or if none does. Answers to other datagrams are ignored
    /// and counted.
    pub fn outcome(&mut self, now: Instant, stats: &mut Stats) -> Option<Outcome> {
        let mut outcome = None;
        for error in self.socket.errors() {
            let quote = self.secret.compare(self.number, &error.quoted);
            let is_answer = self.waiting.is_some() && quote != Quote::Other && error.kind != IcmpKind::Other;
            if is_answer && outcome.is_none() {
                stats.answers += 1;
                outcome = Some(Outcome::Answer(error.kind, error.from));
            } else {
                stats.ignored += 1;
            }
        }
        if outcome.is_none() && self.waiting.is_some_and(|sent| sent + TIMEOUT <= now) {
            stats.silent += 1;
            self.rests_until = now + REST;
            outcome = Some(Outcome::Silence);
        }
        if outcome.is_some() {
            self.waiting = None;
        }
        outcome
    }
}
