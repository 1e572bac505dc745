//! Table of candidates and their leases, without a clock of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use fabriclens_base::infiniband::hex;
use fabriclens_base::{Sender, host_name};
use fabriclens_reader_lease::{AskRequest, LEASE, SWITCHES};

/// Most candidates of all subnets, and of one host.
const CANDIDATES: usize = 512;
const OF_HOST: usize = 4;
/// Longest host name, bytes.
const HOST_BYTES: usize = 255;

/// Answer to a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the candidate has the lease for [`LEASE`] from now on.
    pub granted: bool,
    /// Host that has the lease; `None` if there is none yet.
    pub holder: Option<Arc<str>>,
    /// Number of other candidates in the subnet.
    pub others: u32,
    /// Whether the candidate did not have the lease before.
    pub moved: bool,
}

/// A request is refused; `Display` names the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The host name is empty, too long, or has control characters.
    #[error("host must be a name of 1 to {HOST_BYTES} bytes without control characters")]
    Host,
    /// No switch, or too many.
    #[error("switches must be 1 to {SWITCHES} GUIDs other than 0")]
    Switches,
    /// No memory for more candidates.
    #[error(
        "more than {CANDIDATES} agents, {OF_HOST} of one host, or a quarter of them by a caller that is bound to no host ask to read InfiniBand subnets; set ib_fabric.enabled on few hosts, with tokens or certificates of their own"
    )]
    Full,
}

/// An agent that can read a subnet.
struct Candidate {
    host: Arc<str>,
    agent: u64,
    switches: BTreeSet<u64>,
    /// First and last request.
    first: Instant,
    last: Instant,
    /// Number of its lease, if it has one; older leases have lower numbers.
    lease: Option<u64>,
    /// Name of its caller, unless it is bound to the host.
    unbound: Option<Box<str>>,
}

impl Candidate {
    fn is(&self, request: &AskRequest) -> bool {
        self.agent == request.agent && host_name::is_same(&self.host, &request.host)
    }

    fn sender(&self) -> Sender<'_> {
        Sender::of(self.unbound.as_deref())
    }

    /// Order in which candidates keep a lease: those whose credential names their host first, then the oldest.
    fn rank(&self) -> (bool, u64) {
        (self.unbound.is_some(), self.lease.unwrap_or(u64::MAX))
    }

    fn is_in_subnet_of(&self, other: &Self) -> bool {
        !self.switches.is_disjoint(&other.switches)
    }
}

/// All candidates. A candidate that has not asked for [`LEASE`] is forgotten, and its lease with it.
#[derive(Default)]
pub(super) struct LeaseTable {
    candidates: Vec<Candidate>,
    leases: u64,
}

impl LeaseTable {
    /// Decides whether a candidate has the lease of its subnet.
    ///
    /// The oldest lease in a subnet is kept. Without one, a candidate that reads already gets it at once, another
    /// when it has asked for [`LEASE`]: a reader that this collector does not know yet, because either of them has just
    /// started, has asked by then. A candidate whose credential names its host takes the lease of one that could be any host.
    pub(super) fn ask(&mut self, sender: Sender<'_>, request: &AskRequest, now: Instant) -> Result<Decision, Refused> {
        check(request)?;
        self.forget(now);
        let own = self.own(sender, request, now)?;
        let candidate = &self.candidates[own];
        let in_subnet = |other: &&Candidate| !other.is(request) && other.is_in_subnet_of(candidate);
        let rivals = || self.candidates.iter().filter(in_subnet);
        let others = u32::try_from(rivals().count()).unwrap_or(u32::MAX);
        let held = candidate.lease;
        let rank = candidate.rank();
        let keeps = |rival: &&Candidate| rival.lease.is_some() && rival.rank() < rank;
        let holder = rivals().filter(keeps).min_by_key(|rival| rival.rank()).map(|rival| Arc::clone(&rival.host));
        let waited = request.reading || now.duration_since(candidate.first) >= LEASE;
        let granted = holder.is_none() && (held.is_some() || waited);
        let moved = granted && held.is_none();
        if moved {
            self.leases += 1;
        }
        let candidate = &mut self.candidates[own];
        candidate.lease = granted.then(|| held.unwrap_or(self.leases));
        let holder = holder.or_else(|| granted.then(|| Arc::clone(&candidate.host)));
        Ok(Decision { granted, holder, others, moved })
    }

    /// Index of the candidate that asks, which is added if it is new.
    fn own(&mut self, sender: Sender<'_>, request: &AskRequest, now: Instant) -> Result<usize, Refused> {
        let switches = request.switches.iter().copied().collect();
        if let Some(own) = self.candidates.iter().position(|candidate| candidate.is(request)) {
            let candidate = &mut self.candidates[own];
            (candidate.last, candidate.switches) = (now, switches);
            if sender == Sender::Bound {
                candidate.unbound = None;
            }
            return Ok(own);
        }
        let of_host = self.candidates.iter().filter(|other| host_name::is_same(&other.host, &request.host)).count();
        let all = self.candidates.iter().map(|candidate| (candidate.sender(), 1));
        if !sender.may_keep(CANDIDATES, all, 1) || of_host >= OF_HOST {
            return Err(Refused::Full);
        }
        let unbound = match sender {
            Sender::Bound => None,
            Sender::Unbound(name) => Some(name.into()),
        };
        let (host, agent) = (request.host.as_str().into(), request.agent);
        self.candidates.push(Candidate { host, agent, switches, first: now, last: now, lease: None, unbound });
        Ok(self.candidates.len() - 1)
    }

    /// Whether an agent has a lease.
    pub(super) fn is_held_by(&mut self, host: &str, agent: u64, now: Instant) -> bool {
        self.forget(now);
        let is_it = |other: &&Candidate| other.agent == agent && host_name::is_same(&other.host, host);
        self.candidates.iter().find(is_it).is_some_and(|candidate| candidate.lease.is_some())
    }

    fn forget(&mut self, now: Instant) {
        self.candidates.retain(|candidate| now.duration_since(candidate.last) < LEASE);
    }

    /// Lowest switch, host, and number of candidates of each lease.
    pub(super) fn holders(&mut self, now: Instant) -> impl Iterator<Item = (String, &str, i64)> {
        self.forget(now);
        let all = &self.candidates;
        all.iter().filter(|candidate| candidate.lease.is_some()).filter_map(|holder| {
            let count = all.iter().filter(|other| other.is_in_subnet_of(holder)).count();
            Some((hex(*holder.switches.first()?), &*holder.host, i64::try_from(count).unwrap_or(i64::MAX)))
        })
    }
}

fn check(request: &AskRequest) -> Result<(), Refused> {
    let host = &request.host;
    if host.is_empty() || host.len() > HOST_BYTES || host.chars().any(char::is_control) {
        return Err(Refused::Host);
    }
    let count = request.switches.len();
    if count == 0 || count > SWITCHES || request.switches.contains(&0) { Err(Refused::Switches) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
