//! TCP twins of probes: the thread that sends and answers them.

mod echo;
mod message;
mod socket;
mod twin;

use crate::bucket::Bucket;
use crate::flights::STALL;
use crate::port_prober::Time as _;
use crate::prober::Prober;
use crate::schedule::Schedule;
use echo::Connection;
use fabriclens_probe_plan::Target;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use twin::{Twin, TwinResult};

/// Longest wait: the answer to "shall it stop", and to new targets.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// Connections that are accepted at once.
const ACCEPTS: usize = 32;
/// Interval at which idle connections are closed, and listeners that failed are tried again.
const UPKEEP: Duration = Duration::from_secs(5);
/// Kinds of sockets by the upper byte of their number.
const LISTENER: u64 = 1 << 56;
const CONNECTION: u64 = 2 << 56;
const TWIN: u64 = 3 << 56;
const KIND: u64 = 0xff << 56;

/// A listener of a port.
struct Listening {
    address: IpAddr,
    /// `None`: it could not listen.
    socket: Option<TcpListener>,
    number: u64,
}

/// All sockets of the thread.
struct Twins<'a> {
    prober: &'a Prober,
    epoll: OwnedFd,
    next: u64,
    listeners: BTreeMap<String, Listening>,
    connections: HashMap<u64, (String, Connection)>,
    twins: HashMap<u64, (Arc<Target>, Twin)>,
    numbers: HashMap<Arc<Target>, u64>,
    schedule: Schedule,
    budgets: HashMap<String, Bucket>,
}

/// Sends and answers TCP twins until the prober stops.
pub fn run(prober: &Prober) {
    let epoll = match epoll::create(CreateFlags::CLOEXEC) {
        Ok(epoll) => epoll,
        Err(error) => {
            tracing::warn!(%error, "TCP twins are off: no epoll");
            return;
        }
    };
    let mut twins = Twins {
        prober,
        epoll,
        next: 0,
        listeners: BTreeMap::new(),
        connections: HashMap::new(),
        twins: HashMap::new(),
        numbers: HashMap::new(),
        schedule: Schedule::default(),
        budgets: HashMap::new(),
    };
    let (mut version, mut upkeep, mut last) = (0, Duration::ZERO, prober.now());
    let mut events: Vec<Event> = Vec::with_capacity(128);
    while !prober.is_stopping() {
        let now = prober.now();
        let is_changed = version != prober.version();
        if is_changed || now >= upkeep {
            version = prober.version();
            upkeep = now + UPKEEP;
            twins.listen();
            twins.connections.retain(|_, (_, connection)| !connection.is_idle(now));
        }
        if is_changed {
            twins.set_targets(now);
        }
        let wait = twins.schedule.next().map_or(LONGEST_WAIT, |at| at.saturating_sub(now).min(LONGEST_WAIT));
        events.clear();
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
        _ = epoll::wait(&twins.epoll, spare_capacity(&mut events), Some(&limit));
        let now = prober.now();
        let pause = now.saturating_sub(last).saturating_sub(wait);
        if pause >= STALL {
            twins.twins.values_mut().for_each(|(_, twin)| twin.stalled(pause));
        }
        for event in &events {
            let number = event.data.u64();
            match number & KIND {
                LISTENER => twins.accept(number),
                CONNECTION => twins.serve(number),
                _ => twins.ready(number),
            }
        }
        twins.send_due();
        last = prober.now();
    }
}

impl Twins<'_> {
    fn number(&mut self, kind: u64) -> u64 {
        self.next = (self.next + 1) & !KIND;
        kind | self.next
    }

    /// Listens on the address of each port, and on no other.
    fn listen(&mut self) {
        let wanted: Vec<(String, IpAddr)> = {
            let ports = self.prober.ports.lock();
            let address = |(name, entry): (&String, &crate::prober::PortEntry)| {
                Some((name.clone(), entry.source.as_ref().ok()?.gid?.1))
            };
            ports.iter().filter_map(address).collect()
        };
        self.listeners.retain(|name, listening| wanted.contains(&(name.clone(), listening.address)));
        for (name, address) in wanted {
            if self.listeners.get(&name).is_some_and(|listening| listening.socket.is_some()) {
                continue;
            }
            let number = self.number(LISTENER);
            let listened = socket::listen(SocketAddr::new(address, self.prober.settings.tcp_port)).and_then(|socket| {
                self.watch(&socket, number, EventFlags::IN)?;
                Ok(socket)
            });
            let port = self.prober.settings.tcp_port;
            let (socket, state) = match listened {
                Ok(socket) => (Some(socket), Ok(())),
                Err(error) => (None, Err(format!("it cannot listen on {address} port {port}: {error}"))),
            };
            if let Some(entry) = self.prober.ports.lock().get_mut(&name) {
                entry.tcp = state;
            }
            self.listeners.insert(name, Listening { address, socket, number });
        }
    }

    fn watch(&self, socket: impl AsFd, number: u64, flags: EventFlags) -> std::io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(number), flags)?)
    }

    fn accept(&mut self, number: u64) {
        let found = self.listeners.iter().find(|(_, listening)| listening.number == number);
        let Some((name, Listening { socket: Some(socket), .. })) = found else { return };
        let mut accepted = Vec::new();
        for _ in 0..ACCEPTS {
            match socket.accept() {
                Ok((stream, from)) => accepted.push((stream, from.ip())),
                Err(_) => break,
            }
        }
        let (name, now) = (name.clone(), self.prober.now());
        for (stream, from) in accepted {
            // Others are closed at once.
            if !echo::is_admitted(self.connections.values().map(|(_, connection)| connection), from) {
                continue;
            }
            let number = self.number(CONNECTION);
            let Ok(connection) = Connection::new(stream, from, now) else { continue };
            if self.watch(connection.stream(), number, EventFlags::IN | EventFlags::RDHUP).is_ok() {
                self.connections.insert(number, (name.clone(), connection));
            }
        }
    }

    fn serve(&mut self, number: u64) {
        let now = self.prober.now();
        let Some((name, connection)) = self.connections.get_mut(&number) else { return };
        match connection.serve(now) {
            Ok(answers) => {
                if let Some(entry) = self.prober.ports.lock().get_mut(name.as_str()) {
                    entry.tcp_stats.answered += answers;
                }
            }
            Err(_) => _ = self.connections.remove(&number),
        }
    }

    fn set_targets(&mut self, now: Duration) {
        let sources: BTreeMap<&String, IpAddr> = self.listeners.iter().map(|(name, l)| (name, l.address)).collect();
        let targets = self.prober.targets();
        let wanted: Vec<(Arc<Target>, IpAddr)> = targets
            .iter()
            .filter(|target| target.tcp_twin)
            .filter_map(|target| Some((Arc::clone(target), *sources.get(&target.from)?)))
            .collect();
        let mut before = std::mem::take(&mut self.numbers);
        for (target, from) in &wanted {
            let kept = before.remove(target);
            let number = match kept {
                Some(number) => number,
                None => {
                    let Some(twin) = Twin::new(target, *from, now) else { continue };
                    let number = self.number(TWIN);
                    self.twins.insert(number, (Arc::clone(target), twin));
                    number
                }
            };
            self.numbers.insert(Arc::clone(target), number);
        }
        for number in before.values() {
            self.twins.remove(number);
        }
        self.schedule.set(self.numbers.keys().cloned().collect::<Vec<_>>(), now);
    }

    fn send_due(&mut self) {
        let now = self.prober.now();
        while let Some(due) = self.schedule.take(now, 1.0) {
            let per_second = self.prober.settings.per_second;
            let budget = self.budgets.entry(due.target.from.clone()).or_insert_with(|| Bucket::new(per_second, now));
            if !budget.take(now) || !self.prober.take(now) {
                continue;
            }
            let Some(number) = self.numbers.get(&due.target).copied() else { continue };
            let Some((_, twin)) = self.twins.get_mut(&number) else { continue };
            let (found, is_new) = twin.due(now, self.prober.unix_ns());
            if is_new && let Some((_, twin)) = self.twins.get(&number) {
                // Each edge is read until nothing is left.
                let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
                let watched = twin.stream().map(|stream| self.watch(stream, number, flags));
                if let Some(Err(error)) = watched {
                    tracing::debug!(%error, "a TCP twin cannot be watched");
                }
            }
            self.found(&due.target, found);
        }
    }

    fn ready(&mut self, number: u64) {
        let now = self.prober.now();
        let Some((target, twin)) = self.twins.get_mut(&number) else { return };
        let (target, found) = (Arc::clone(target), twin.ready(now));
        self.found(&target, found);
    }

    fn found(&self, target: &Target, found: Option<TwinResult>) {
        let Some(result) = found.map(|found| found.result()) else { return };
        if let Some(entry) = self.prober.ports.lock().get_mut(&target.from) {
            entry.tcp_stats.add(target.class, &result);
        }
        (self.prober.report)(target, result);
    }
}

#[cfg(test)]
mod tests;
