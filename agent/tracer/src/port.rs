//! Traces from one port of this host: which source port is due, its trace, and what is known of its path.

use crate::budget::Budget;
use crate::distance::{self, Distance, Distances};
use crate::exchange::Exchange;
use crate::path::{Path, Taken, Traced};
use crate::stats::{Paths, Stats};
use crate::sweep::{End, Goal, Sweep};
use crate::target::{Found, LocalPort, TraceTarget};
use crate::transport::{FlowAddress, Transport};
use fabriclens_probe_plan::{Hop, TracedPath, octets};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// UDP port of RoCE v2.
const ROCE: u16 = 4791;
/// Traces and searches at once. Each is one socket, which waits most of the time.
const ACTIVE: usize = 32;
/// Answers of each switch in a full trace, and in one that only looks whether the path is still the same.
const ANSWERS: u8 = 3;
const GLANCE: u8 = 1;
/// Time after which a trace that waits for another one, or for a distance, is looked at again.
const LATER: Duration = Duration::from_millis(500);
/// Shortest time after a trace that the kernel refused.
const REFUSED: Duration = Duration::from_secs(60);
/// How long the first switch is remembered. All datagrams of a port pass it, so that no trace asks it again.
const FIRST: Duration = Duration::from_secs(600);
/// Interval at which paths are reported that have not changed.
const REFRESH: Duration = Duration::from_secs(180);
/// Interval of the search for such paths.
const LOOK: Duration = Duration::from_secs(5);
/// Problems that are told, at most.
const PROBLEMS: usize = 4;

/// A source port towards a target: what is traced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    address: IpAddr,
    traffic_class: u8,
    source_port: u16,
    pair: Arc<fabriclens_probe_plan::ReportedPair>,
}

/// A path and its trace.
#[derive(Debug)]
struct Entry {
    key: Key,
    every: Duration,
    path: Path,
    traced_ns: u64,
    reported: Option<Instant>,
    /// When it is traced next; `None` while it is.
    due: Option<Instant>,
    /// Whether the next trace must be full.
    unsure: bool,
}

/// What a socket is used for.
#[derive(Debug)]
enum Job {
    /// Trace of the entry with this key.
    Trace { key: Key, full: bool },
    /// Search for the distance of this address.
    Search(IpAddr),
}

/// Tracing from one port.
#[derive(Debug)]
pub struct PortTracer<T: Transport> {
    local: LocalPort,
    budget: Budget,
    entries: Vec<Entry>,
    positions: HashMap<Key, usize>,
    /// Entries that wait, by time: those never traced, in the order of the plan, go before the others.
    fresh: BTreeSet<(Instant, usize)>,
    again: BTreeSet<(Instant, usize)>,
    active: Vec<(Job, Sweep<T::Socket>)>,
    distances: Distances,
    /// First switch of all paths, and until when it is known.
    first: Option<(IpAddr, Instant)>,
    /// What the kernel refused, by source port; `None`: a search for a target.
    problems: BTreeMap<Option<u16>, String>,
    looked: Instant,
}

/// Time of a step, and what steps share.
pub struct Step<'a, T> {
    pub now: Instant,
    pub unix_ns: u64,
    pub transport: &'a mut T,
    pub stats: &'a mut Stats,
    pub random: &'a mut dyn FnMut() -> u64,
}

impl<T: Transport> PortTracer<T> {
    pub fn new(local: LocalPort, per_second: u32, now: Instant) -> Self {
        Self {
            local,
            budget: Budget::new(per_second, now),
            entries: Vec::new(),
            positions: HashMap::new(),
            fresh: BTreeSet::new(),
            again: BTreeSet::new(),
            active: Vec::new(),
            distances: Distances::default(),
            first: None,
            problems: BTreeMap::new(),
            looked: now,
        }
    }

    pub fn local(&self) -> &LocalPort {
        &self.local
    }

    pub fn set_rate(&mut self, per_second: u32) {
        self.budget.set(per_second);
    }

    /// Replaces the targets; paths that stay keep what is known of them. At most `room` paths are taken; returns their number
    /// and that of the paths left out.
    pub fn set_targets<'a>(
        &mut self,
        targets: impl Iterator<Item = &'a TraceTarget>,
        room: usize,
        now: Instant,
    ) -> (usize, usize) {
        let mut known: HashMap<Key, Entry> = self.entries.drain(..).map(|entry| (entry.key.clone(), entry)).collect();
        self.positions.clear();
        let mut left_out = 0;
        for target in targets {
            for source_port in &target.source_ports {
                let key = Key {
                    address: target.address,
                    traffic_class: target.traffic_class,
                    source_port: *source_port,
                    pair: Arc::clone(&target.pair),
                };
                if self.positions.contains_key(&key) {
                    continue;
                }
                if self.entries.len() >= room || self.local.address.is_ipv4() != target.address.is_ipv4() {
                    left_out += 1;
                    continue;
                }
                let entry = match known.remove(&key) {
                    Some(entry) => Entry { every: target.every, ..entry },
                    None => Entry::new(key.clone(), target.every, now),
                };
                self.positions.insert(key, self.entries.len());
                self.entries.push(entry);
            }
        }
        let positions = &self.positions;
        self.active.retain(|(job, _)| match job {
            Job::Trace { key, .. } => positions.contains_key(key),
            Job::Search(_) => true,
        });
        let addresses: HashSet<IpAddr> = self.entries.iter().map(|entry| entry.key.address).collect();
        self.distances.retain(|address| addresses.contains(&address));
        let source_ports: HashSet<u16> = self.entries.iter().map(|entry| entry.key.source_port).collect();
        self.problems.retain(|subject, _| subject.is_none_or(|port| source_ports.contains(&port)));
        self.fresh.clear();
        self.again.clear();
        for position in 0..self.entries.len() {
            if let Some(due) = self.entries[position].due {
                self.schedule(position, due);
            }
        }
        (self.entries.len(), left_out)
    }

    /// Does what is due, and adds what was found.
    pub fn step(&mut self, step: &mut Step<'_, T>, found: &mut Vec<Found>) {
        let mut at = 0;
        while at < self.active.len() {
            let (budget, now) = (&mut self.budget, step.now);
            match self.active[at].1.step(now, step.stats, &mut || budget.take(now)) {
                None => at += 1,
                Some(end) => {
                    let (job, sweep) = self.active.swap_remove(at);
                    self.ended(job, sweep, end, step, found);
                }
            }
        }
        while self.active.len() < ACTIVE
            && self.budget.next() <= step.now
            && let Some(position) = self.next_due(step.now)
        {
            self.start(position, step, found);
            // What was just opened sends its first datagram at once.
            if let Some((_, sweep)) = self.active.last_mut() {
                let (budget, now) = (&mut self.budget, step.now);
                sweep.step(now, step.stats, &mut || budget.take(now));
            }
        }
        if step.now.saturating_duration_since(self.looked) >= LOOK {
            self.looked = step.now;
            self.refresh(step.now, found);
        }
    }

    /// When something is due, unless an answer comes before.
    pub fn next(&self, now: Instant) -> Instant {
        let waiting = self.fresh.first().into_iter().chain(self.again.first()).map(|(due, _)| *due).min();
        let waiting = waiting.filter(|_| self.active.len() < ACTIVE).map(|due| due.max(self.budget.next()));
        let active = self.active.iter().map(|(_, sweep)| {
            let exchange = &sweep.exchange;
            if exchange.is_free(now) { self.budget.next() } else { exchange.next() }
        });
        active.chain(waiting).min().unwrap_or(now + LOOK).min(now + LOOK)
    }

    pub fn sockets(&self) -> impl Iterator<Item = &T::Socket> {
        self.active.iter().map(|(_, sweep)| &sweep.exchange.socket)
    }

    /// Counts the paths by what is known of them.
    pub fn count(&self, paths: &mut Paths) {
        for entry in &self.entries {
            match entry.path.current() {
                None => paths.unknown += 1,
                Some(traced) if traced.is_unknown() => paths.unknown += 1,
                Some(traced) if traced.is_known() => paths.known += 1,
                Some(_) => paths.partial += 1,
            }
        }
    }

    /// Problems as sentences; the first few.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        let name = &self.local.name;
        self.problems.iter().take(PROBLEMS).map(move |(subject, why)| match subject {
            Some(source_port) => format!("{name}: source port {source_port}: {why}"),
            None => format!("{name}: search for targets: {why}"),
        })
    }

    fn schedule(&mut self, position: usize, due: Instant) {
        let entry = &mut self.entries[position];
        let is_fresh = entry.path.current().is_none();
        let (queue, other) =
            if is_fresh { (&mut self.fresh, &mut self.again) } else { (&mut self.again, &mut self.fresh) };
        if let Some(before) = entry.due.replace(due) {
            queue.remove(&(before, position));
            other.remove(&(before, position));
        }
        queue.insert((due, position));
    }

    /// Takes the next entry that is due out of its queue.
    fn next_due(&mut self, now: Instant) -> Option<usize> {
        for queue in [&mut self.fresh, &mut self.again] {
            if let Some((due, position)) = queue.first().copied()
                && due <= now
            {
                queue.pop_first();
                self.entries[position].due = None;
                return Some(position);
            }
        }
        None
    }

    /// Starts the trace of an entry, or first the search for its target.
    fn start(&mut self, position: usize, step: &mut Step<'_, T>, found: &mut Vec<Found>) {
        let (key, now) = (self.entries[position].key.clone(), step.now);
        let Some(distance) = self.distances.get(key.address, now) else {
            let is_searched =
                self.active.iter().any(|(job, _)| matches!(job, Job::Search(address) if *address == key.address));
            if !is_searched {
                self.search(key.address, key.traffic_class, step);
            }
            return self.schedule(position, now + LATER);
        };
        let is_taken = |job: &Job| matches!(job, Job::Trace { key: other, .. } if other.source_port == key.source_port);
        if self.active.iter().any(|(job, _)| is_taken(job)) {
            return self.schedule(position, now + LATER);
        }
        if distance.routers == 0 {
            return self.traced(position, Traced { hops: Vec::new(), complete: distance.is_known }, true, step, found);
        }
        let entry = &self.entries[position];
        let unsure = entry.unsure;
        let full = unsure || entry.path.current().is_none_or(|traced| !traced.is_known());
        let goal = Goal::Path { routers: distance.routers, answers: if full { ANSWERS } else { GLANCE } };
        let flow = self.flow(key.source_port, SocketAddr::new(key.address, ROCE), key.traffic_class);
        match self.open(&flow, Some(key.source_port), step) {
            Some(exchange) => {
                let first = self.first.filter(|(_, until)| now < *until && !unsure).map(|(router, _)| router);
                let sweep = Sweep::new(exchange, goal, self.local.address, key.address, first);
                self.active.push((Job::Trace { key, full }, sweep));
            }
            None => self.refused(position, step, found),
        }
    }

    fn search(&mut self, address: IpAddr, traffic_class: u8, step: &mut Step<'_, T>) {
        let flow = self.flow(0, SocketAddr::new(address, distance::PORT), traffic_class);
        match self.open(&flow, None, step) {
            Some(exchange) => {
                let sweep = Sweep::new(exchange, Goal::Distance, self.local.address, address, None);
                self.active.push((Job::Search(address), sweep));
            }
            None => self.distances.set(address, Distance { routers: 0, is_known: false }, step.now),
        }
    }

    fn flow(&self, source_port: u16, remote: SocketAddr, traffic_class: u8) -> FlowAddress {
        let local = SocketAddr::new(self.local.address, source_port);
        FlowAddress { local, remote, device: self.local.device.clone(), traffic_class }
    }

    /// Opens a socket; a failure becomes a problem of the subject.
    fn open(
        &mut self,
        flow: &FlowAddress,
        subject: Option<u16>,
        step: &mut Step<'_, T>,
    ) -> Option<Exchange<T::Socket>> {
        match step.transport.open(flow) {
            Ok(socket) => {
                self.problems.remove(&subject);
                Some(Exchange::new(socket, (step.random)(), step.now))
            }
            Err(error) => {
                step.stats.refused += 1;
                self.problems.insert(subject, why(&error));
                None
            }
        }
    }

    fn ended(&mut self, job: Job, sweep: Sweep<T::Socket>, end: End, step: &mut Step<'_, T>, found: &mut Vec<Found>) {
        let is_limited = sweep.is_limited();
        let (hops, now) = (sweep.hops(), step.now);
        match job {
            Job::Search(address) => {
                if let End::Refused(kind) = end {
                    step.stats.refused += 1;
                    self.problems.insert(None, why(&kind.into()));
                }
                self.distances.set(address, Distance::of(end, &hops), now);
            }
            Job::Trace { key, full } => {
                let Some(position) = self.positions.get(&key).copied() else { return };
                if let End::Refused(kind) = end {
                    step.stats.refused += 1;
                    self.problems.insert(Some(key.source_port), why(&kind.into()));
                    return self.refused(position, step, found);
                }
                self.adapt(position, is_limited, &hops, now);
                let is_known = self.distances.get(key.address, now).is_some_and(|distance| distance.is_known);
                if let End::Reached(_) = end {
                    // The target is nearer than the search found.
                    self.distances.set(key.address, Distance::of(end, &hops), now);
                }
                let complete = matches!(end, End::Reached(_)) || end == End::Done && is_known;
                self.traced(position, Traced { hops, complete }, full, step, found);
            }
        }
    }

    /// Learns from a trace: the first switch, and whether switches limit their answers.
    fn adapt(&mut self, position: usize, is_limited: bool, hops: &[Vec<IpAddr>], now: Instant) {
        let known = self.entries[position].path.current().map_or(&[][..], |traced| &traced.hops);
        let has_lost = known.iter().zip(hops).any(|(known, seen)| !known.is_empty() && seen.is_empty());
        self.budget.adapt(is_limited || has_lost);
        let is_old = self.first.is_none_or(|(_, until)| until <= now);
        match hops.first().map(Vec::as_slice) {
            Some([router]) if is_old || self.first.is_some_and(|(first, _)| first != *router) => {
                self.first = Some((*router, now + FIRST));
            }
            Some([_, _, ..]) => self.first = None,
            _ => {}
        }
    }

    /// What an entry without a trace becomes: unknown, and traced again later.
    fn refused(&mut self, position: usize, step: &mut Step<'_, T>, found: &mut Vec<Found>) {
        self.traced(position, Traced::default(), true, step, found);
        let due = step.now + self.entries[position].every.max(REFUSED);
        self.schedule(position, due);
    }

    /// Takes the result of a trace, and sets when the next one is due.
    fn traced(&mut self, position: usize, traced: Traced, full: bool, step: &mut Step<'_, T>, found: &mut Vec<Found>) {
        let now = step.now;
        let entry = &mut self.entries[position];
        let address = entry.key.address;
        // Without any answer the path is not traced more often than its target is searched for.
        let silent = traced.is_unknown().then(|| self.distances.until(address)).flatten();
        let taken = entry.path.take(traced, full);
        if taken == Taken::Unsure {
            entry.unsure = true;
            self.distances.expire(address, now);
            return self.schedule(position, now);
        }
        entry.unsure = false;
        entry.traced_ns = step.unix_ns;
        if let Taken::Changed { .. } = taken {
            entry.report(now, found);
        }
        let due = now + entry.every;
        self.schedule(position, silent.map_or(due, |until| until.max(due)));
        if taken == (Taken::Changed { moved: true }) {
            step.stats.changes += 1;
            self.hasten(address, position, now);
        }
    }

    /// Traces the other source ports to the same target now: what moved one may have moved them.
    fn hasten(&mut self, address: IpAddr, moved: usize, now: Instant) {
        for position in 0..self.entries.len() {
            let entry = &self.entries[position];
            if position != moved && entry.key.address == address && entry.due.is_some_and(|due| due > now) {
                self.schedule(position, now);
            }
        }
    }

    /// Reports paths again that were not reported for long.
    fn refresh(&mut self, now: Instant, found: &mut Vec<Found>) {
        for entry in &mut self.entries {
            if entry.reported.is_some_and(|at| now.saturating_duration_since(at) >= REFRESH) {
                entry.report(now, found);
            }
        }
    }
}

impl Entry {
    fn new(key: Key, every: Duration, now: Instant) -> Self {
        Self { key, every, path: Path::default(), traced_ns: 0, reported: None, due: Some(now), unsure: false }
    }

    fn report(&mut self, now: Instant, found: &mut Vec<Found>) {
        let Some(traced) = self.path.current() else { return };
        self.reported = Some(now);
        let hop = |hop: &Vec<IpAddr>| Hop { addresses: hop.iter().copied().map(octets).collect() };
        let path = TracedPath {
            pair: 0,
            source_port: self.key.source_port.into(),
            traced_ns: self.traced_ns,
            hops: traced.hops.iter().map(hop).collect(),
            complete: traced.complete,
        };
        found.push(Found { pair: Arc::clone(&self.key.pair), path });
    }
}

/// What the kernel refused, with the remedy.
fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another socket of this host has it, so its path is not traced".to_owned(),
        io::ErrorKind::AddrNotAvailable => "the host has lost the address of the port".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "not permitted; choosing the interface needs Linux 5.7 or CAP_NET_RAW, and a firewall may refuse UDP port 4791"
                .to_owned()
        }
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            "no route to a target; add a route by this interface".to_owned()
        }
        _ => error.to_string(),
    }
}
