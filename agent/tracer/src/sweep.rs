//! Datagrams of one flow with TTL 1, 2, …: a trace of its path, or the search for the distance of the target.

use crate::exchange::{Exchange, Outcome};
use crate::stats::Stats;
use crate::transport::{Datagrams, IcmpKind};
use std::io;
use std::net::IpAddr;
use std::time::Instant;

/// Largest TTL of a search: a fabric of five stages has nine switches on a path.
pub const FARTHEST: u8 = 16;
/// Datagrams without an answer, after which a switch is taken to be silent.
const PATIENCE: u8 = 2;
/// Silent distances in a row, after which the search for the target ends.
const SILENT: u8 = 3;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Distance of the target: one answer per TTL is enough.
    Distance,
    /// The switches up to a distance, by so many answers per TTL.
    Path { routers: u8, answers: u8 },
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All TTLs were tried.
    Done,
    /// The target itself answered at this TTL.
    Reached(u8),
    /// A router knows no way to the target.
    Unreachable,
    /// The kernel did not send.
    Refused(io::ErrorKind),
}

/// A trace or search that goes on.
#[derive(Debug)]
pub struct Sweep<S> {
    pub exchange: Exchange<S>,
    goal: Goal,
    target: IpAddr,
    own: IpAddr,
    ttl: u8,
    answered: u8,
    silent: u8,
    /// Whether a router answered some datagrams and not others.
    is_limited: bool,
    /// Routers by distance, sorted, without duplicates.
    hops: Vec<Vec<IpAddr>>,
    /// Smallest TTL at which the target answered a search, while smaller ones are tried again that nobody answered: the target
    /// may limit its answers.
    reached: Option<u8>,
    end: Option<End>,
}

impl<S: Datagrams> Sweep<S> {
    /// `first`: the first router, if it is known; it is not asked then.
    pub fn new(exchange: Exchange<S>, goal: Goal, own: IpAddr, target: IpAddr, first: Option<IpAddr>) -> Self {
        let answered = if first.is_some() { u8::MAX } else { 0 };
        let hops = vec![first.into_iter().collect()];
        let (ttl, silent, is_limited, reached, end) = (1, 0, false, None, None);
        Self { exchange, goal, target, own, ttl, answered, silent, is_limited, hops, reached, end }
    }

    /// Takes what has come, and sends what is due while `may_send` permits it. Returns the end, once it is reached.
    pub fn step(&mut self, now: Instant, stats: &mut Stats, may_send: &mut dyn FnMut() -> bool) -> Option<End> {
        loop {
            match self.exchange.outcome(now, stats) {
                Some(Outcome::Answer(kind, from)) => self.answered(kind, from),
                Some(Outcome::Silence) => self.silent += 1,
                None => {}
            }
            self.advance();
            if self.end.is_some() || !self.exchange.is_free(now) || !may_send() {
                return self.end;
            }
            match self.exchange.send(self.ttl, now) {
                Ok(()) => stats.sent += 1,
                // The queue of the interface is full: later.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) => self.end = Some(End::Refused(error.kind())),
            }
        }
    }

    /// Whether a router answered some datagrams and not others: it limits its answers.
    pub fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Routers by distance. The last distances are left out if nothing was sent to them.
    pub fn hops(self) -> Vec<Vec<IpAddr>> {
        self.hops
    }

    fn answered(&mut self, kind: IcmpKind, from: IpAddr) {
        let is_router = from != self.target && from != self.own;
        match kind {
            IcmpKind::TimeExceeded if is_router => {
                self.answered = self.answered.saturating_add(1);
                if let Some(hop) = self.hops.last_mut()
                    && let Err(place) = hop.binary_search(&from)
                {
                    hop.insert(place, from);
                }
                self.end = self.reached.map(End::Reached);
            }
            IcmpKind::PortUnreachable if from == self.target => {
                self.hops.pop();
                if self.goal == Goal::Distance && self.hops.last().is_some_and(Vec::is_empty) {
                    self.reached = Some(self.ttl);
                    (self.ttl, self.answered, self.silent) = (self.ttl - 1, 0, 0);
                } else {
                    self.end = Some(End::Reached(self.ttl));
                }
            }
            IcmpKind::PortUnreachable | IcmpKind::Unreachable => {
                self.hops.pop();
                self.end = Some(End::Unreachable);
            }
            // A TTL that ends at the target or at this host tells of no router.
            IcmpKind::TimeExceeded | IcmpKind::Other => self.silent += 1,
        }
    }

    /// Goes to the next TTL if enough is known of this one, and ends behind the last.
    fn advance(&mut self) {
        let (enough, last) = match self.goal {
            Goal::Distance => (1, FARTHEST),
            Goal::Path { routers, answers } => (answers, routers),
        };
        if self.end.is_some() || self.answered < enough && self.silent < PATIENCE {
            return;
        }
        if let Some(ttl) = self.reached {
            self.end = Some(End::Reached(ttl));
            return;
        }
        let silent = self.hops.iter().rev().take_while(|hop| hop.is_empty()).count();
        let is_lost = self.goal == Goal::Distance && silent >= usize::from(SILENT);
        if self.ttl >= last || is_lost {
            self.is_limited |= self.answered > 0 && self.silent > 0;
            self.end = Some(End::Done);
            return;
        }
        self.is_limited |= self.answered > 0 && self.silent > 0;
        (self.ttl, self.answered, self.silent) = (self.ttl + 1, 0, 0);
        self.hops.push(Vec::new());
    }
}
