//! A simulated network of ports for tests: delay, loss, duplicates, forgeries, clocks that jump, hosts that are slow.

use crate::port_prober::Time;
use fabriclens_kernel::datagrams::{
    Completion, DatagramPort, LONGEST, Peer, PortFacts, PortLost, QueuePair, Received, Route, SendError, SourcePorts,
};
use fabriclens_probe_plan::ProbedPort;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// Virtual time, shared by all ports.
#[derive(Clone, Debug, Default)]
pub struct VirtualTime(pub Rc<Cell<Duration>>);

impl Time for VirtualTime {
    fn now(&self) -> Duration {
        self.0.get()
    }

    fn unix_ns(&self) -> u64 {
        1_000_000_000_000 + ns(self.0.get())
    }
}

/// A datagram on its way.
#[derive(Clone, Debug)]
pub struct InFlight {
    at: Duration,
    from: Peer,
    to: Peer,
    route: Route,
    pub bytes: Vec<u8>,
}

/// What the network does with a datagram: the copies that arrive, each so much later.
type Fate = Box<dyn FnMut(&mut InFlight) -> Vec<Duration>>;

/// The network.
#[derive(Default)]
pub struct Network {
    flying: Vec<InFlight>,
    fate: Option<Fate>,
    pub sent: usize,
}

/// A port of the network.
pub struct SimulatedPort {
    pub facts: PortFacts,
    pub network: Rc<RefCell<Network>>,
    time: VirtualTime,
    sent: VecDeque<Completion>,
    /// Added to times of the NIC, nanoseconds.
    pub clock: i64,
    /// The NIC sends nothing.
    pub paused: bool,
    /// Queue pair that sends next where the route names none: another one each time, as on soft-RoCE.
    next: usize,
}

pub const LATENCY: Duration = Duration::from_micros(5);

impl Network {
    pub fn set_fate(&mut self, fate: impl FnMut(&mut InFlight) -> Vec<Duration> + 'static) {
        self.fate = Some(Box::new(fate));
    }

    /// Sends a datagram as any host could.
    pub fn inject(&mut self, at: Duration, from: Peer, to: Peer, bytes: &[u8]) {
        let route = Route { peer: to, queue_pair: 0, source_port: 0, traffic_class: 0, service_level: 0 };
        self.flying.push(InFlight { at, from, to, route, bytes: bytes.to_vec() });
    }
}

impl SimulatedPort {
    pub fn new(network: &Rc<RefCell<Network>>, time: &VirtualTime, host: u8) -> Self {
        let facts = PortFacts {
            address: Some([10, 77, 0, host].into()),
            queue_pairs: [100, 200].map(|n| QueuePair { number: n + u32::from(host), source_port: None }).to_vec(),
            source_ports: SourcePorts::Chosen,
            hardware_time: true,
        };
        let (network, time) = (Rc::clone(network), time.clone());
        Self { facts, network, time, sent: VecDeque::new(), clock: 0, paused: false, next: 0 }
    }

    pub fn peer(&self) -> Peer {
        Peer { address: self.facts.address, lid: 0, queue_pair: self.facts.queue_pairs[0].number }
    }

    pub fn probed(&self) -> ProbedPort {
        let Some(std::net::IpAddr::V4(v4)) = self.facts.address else { panic!("IPv4") };
        let queue_pair = self.facts.queue_pairs[0].number;
        ProbedPort { name: "mlx5_0/1".into(), address: v4.octets().to_vec(), queue_pair, ..ProbedPort::default() }
    }

    fn stamp(&self, at: Duration) -> u64 {
        ns(at).wrapping_add_signed(self.clock)
    }
}

impl DatagramPort for SimulatedPort {
    fn facts(&self) -> &PortFacts {
        &self.facts
    }

    fn send(&mut self, route: &Route, bytes: &[u8], id: u64) -> Result<(), SendError> {
        let now = self.time.now();
        if self.paused {
            return if self.sent.is_empty() { Ok(()) } else { Err(SendError::Full) };
        }
        let at = self.stamp(now);
        self.sent.push_back(Completion::Sent { id, at, source_port: Some(route.source_port) });
        self.next = (self.next + 1) % self.facts.queue_pairs.len();
        let any = self.facts.queue_pairs[self.next].number;
        let queue_pair = if route.queue_pair == 0 { any } else { route.queue_pair };
        let from = Peer { queue_pair, ..self.peer() };
        let datagram = InFlight { at: now + LATENCY, from, to: route.peer, route: *route, bytes: bytes.to_vec() };
        let mut changed = datagram.clone();
        let mut network = self.network.borrow_mut();
        network.sent += 1;
        let later = network.fate.as_mut().map_or(vec![Duration::ZERO], |fate| fate(&mut changed));
        network.flying.extend(later.into_iter().map(|more| InFlight { at: datagram.at + more, ..changed.clone() }));
        Ok(())
    }

    /// Does not wait: the test moves the time.
    fn poll(&mut self, _: Duration, out: &mut Vec<Completion>) -> Result<(), PortLost> {
        out.extend(self.sent.drain(..));
        let (now, me) = (self.time.now(), self.peer());
        let mut network = self.network.borrow_mut();
        let (mut arrived, flying): (Vec<_>, Vec<_>) = std::mem::take(&mut network.flying)
            .into_iter()
            .partition(|datagram| datagram.to.address == me.address && datagram.at <= now);
        network.flying = flying;
        arrived.sort_by_key(|datagram| datagram.at);
        for datagram in arrived {
            let mut payload = [0; LONGEST];
            let length = datagram.bytes.len();
            let copied = length.min(LONGEST);
            payload[..copied].copy_from_slice(&datagram.bytes[..copied]);
            let (at, traffic_class) = (self.stamp(datagram.at), datagram.route.traffic_class);
            let queue_pair = datagram.to.queue_pair;
            let received =
                Received { at, from: datagram.from, queue_pair, traffic_class, service_level: 0, payload, length };
            out.push(Completion::Received(received));
        }
        Ok(())
    }
}

pub fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap()
}
