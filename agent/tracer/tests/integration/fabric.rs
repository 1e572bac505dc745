//! A fabric of routers for tests of the tracer: answers each datagram as the test says, and keeps what was sent.

use fabriclens_agent_tracer::transport::{Datagrams, FlowAddress, IcmpError, IcmpKind, Transport};
use fabriclens_agent_tracer::{Found, LocalPort, TraceTarget, Tracer};
use fabriclens_probe_plan::ReportedPair;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// UDP port of RoCE v2.
pub const ROCE: u16 = 4791;

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A datagram that the tracer sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub flow: FlowAddress,
    pub ttl: u8,
    pub data: Vec<u8>,
}

/// How routers and targets answer.
#[derive(Debug, Default)]
pub struct Fabric {
    /// Switches of each source port; those of source port 0 for all others.
    pub paths: HashMap<u16, Vec<IpAddr>>,
    /// Switches and targets that do not answer.
    pub silent: HashSet<IpAddr>,
    /// Answers that a target leaves out before it begins to answer.
    pub limited: u32,
    /// Answers of each switch a second, after six at once, as Linux limits them.
    pub answers_per_second: Option<u32>,
    tokens: HashMap<IpAddr, (f64, Instant)>,
    /// Bytes of the data that switches quote.
    pub quoted: usize,
    /// Source ports that are taken.
    pub taken: HashSet<u16>,
    /// Answers that nobody asked for, before each true one.
    pub forged: Vec<IcmpError>,
    /// Time that true answers take.
    pub delay: Duration,
    now: Option<Instant>,
    pub sent: Vec<Sent>,
}

#[derive(Clone, Debug)]
pub struct Fake(pub Rc<RefCell<Fabric>>);

#[derive(Debug)]
pub struct FakeSocket {
    fabric: Rc<RefCell<Fabric>>,
    flow: FlowAddress,
    queue: Vec<(Instant, IcmpError)>,
}

impl Transport for Fake {
    type Socket = FakeSocket;

    fn open(&mut self, flow: &FlowAddress) -> io::Result<FakeSocket> {
        if self.0.borrow().taken.contains(&flow.local.port()) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        Ok(FakeSocket { fabric: Rc::clone(&self.0), flow: flow.clone(), queue: Vec::new() })
    }

    fn wait(&mut self, _: &[&FakeSocket], _: Duration) {}
}

impl Datagrams for FakeSocket {
    fn send(&mut self, ttl: u8, data: &[u8]) -> io::Result<()> {
        let mut fabric = self.fabric.borrow_mut();
        fabric.sent.push(Sent { flow: self.flow.clone(), ttl, data: data.to_vec() });
        let now = fabric.now.expect("a time");
        self.queue.extend(fabric.forged.iter().cloned().map(|forged| (now, forged)));
        let quoted = data[..data.len().min(fabric.quoted)].to_vec();
        let answer = fabric.answer(&self.flow, ttl).map(|(kind, from)| IcmpError { kind, from, quoted });
        self.queue.extend(answer.map(|answer| (now + fabric.delay, answer)));
        Ok(())
    }

    fn errors(&mut self) -> Vec<IcmpError> {
        let now = self.fabric.borrow().now.expect("a time");
        let come = self.queue.extract_if(.., |(at, _)| *at <= now);
        come.map(|(_, error)| error).collect()
    }
}

impl Fabric {
    fn answer(&mut self, flow: &FlowAddress, ttl: u8) -> Option<(IcmpKind, IpAddr)> {
        let path = self.paths.get(&flow.local.port()).or_else(|| self.paths.get(&0))?;
        let target = flow.remote.ip();
        let (kind, from) = match path.get(usize::from(ttl) - 1) {
            Some(router) => (IcmpKind::TimeExceeded, *router),
            // An adapter takes what arrives for RoCE, and answers nothing.
            None if flow.remote.port() == ROCE => return None,
            None if self.limited > 0 => {
                self.limited -= 1;
                return None;
            }
            None => (IcmpKind::PortUnreachable, target),
        };
        (!self.silent.contains(&from) && self.may_answer(from)).then_some((kind, from))
    }

    fn may_answer(&mut self, from: IpAddr) -> bool {
        let (Some(rate), Some(now)) = (self.answers_per_second, self.now) else { return true };
        let (tokens, at) = self.tokens.entry(from).or_insert((6.0, now));
        *tokens = (*tokens + (now - *at).as_secs_f64() * f64::from(rate)).min(6.0);
        *at = now;
        let has_one = *tokens >= 1.0;
        *tokens -= if has_one { 1.0 } else { 0.0 };
        has_one
    }

    /// Datagrams to a port, without those before position `from`.
    pub fn to(&self, port: u16, from: usize) -> Vec<Sent> {
        self.sent[from..].iter().filter(|sent| sent.flow.remote.port() == port).cloned().collect()
    }
}

/// A tracer in a fabric of two leaves and two spines, and its time.
pub struct Bench {
    pub fabric: Rc<RefCell<Fabric>>,
    pub tracer: Tracer<Fake>,
    pub now: Instant,
    pub found: Vec<Found>,
}

pub const TARGET: &str = "10.0.2.1";
pub const RATE: u32 = 50;

/// Address of a switch.
pub fn switch(name: &str) -> IpAddr {
    ip(match name {
        "leaf1" => "10.9.1.1",
        "leaf2" => "10.9.2.1",
        "spine1" => "10.9.3.1",
        "spine2" => "10.9.4.1",
        _ => panic!("no switch {name}"),
    })
}

pub fn by(spine: &str) -> Vec<IpAddr> {
    vec![switch("leaf1"), switch(spine), switch("leaf2")]
}

pub fn target(source_ports: &[u16]) -> TraceTarget {
    let pair = ReportedPair { from: "rxe0/1".into(), host: "b".into(), port: "rxe0/1".into() };
    TraceTarget {
        pair: Arc::new(pair),
        address: ip(TARGET),
        traffic_class: 104,
        source_ports: source_ports.to_vec(),
        every: Duration::from_secs(60),
    }
}

impl Bench {
    pub fn new(paths: &[(u16, &str)], source_ports: &[u16]) -> Self {
        let mut paths: HashMap<u16, Vec<IpAddr>> = paths.iter().map(|(port, spine)| (*port, by(spine))).collect();
        paths.entry(0).or_insert_with(|| by("spine1"));
        let fabric = Rc::new(RefCell::new(Fabric { paths, quoted: 64, ..Fabric::default() }));
        let (mut tracer, now) = (Tracer::new(Fake(Rc::clone(&fabric)), RATE, 1), Instant::now());
        tracer.set_ports(vec![LocalPort { name: "rxe0/1".into(), address: ip("10.0.1.1"), device: None }], now);
        tracer.set_targets(vec![target(source_ports)], now);
        Self { fabric, tracer, now, found: Vec::new() }
    }

    /// Lets so much time pass; returns what was found.
    pub fn run(&mut self, time: Duration) -> Vec<Found> {
        let (end, before) = (self.now + time, self.found.len());
        while self.now < end {
            self.fabric.borrow_mut().now = Some(self.now);
            let found = self.tracer.step(self.now, 7);
            self.found.extend(found);
            let delay = self.fabric.borrow().delay;
            let step = if delay.is_zero() { end } else { self.now + delay / 7 };
            let next = self.tracer.next(self.now).unwrap_or(end).min(step);
            self.now = next.max(self.now + Duration::from_micros(500)).min(end);
        }
        self.found[before..].to_vec()
    }

    /// Last path of a source port, as addresses by distance, and whether it is complete.
    pub fn path(&self, source_port: u16) -> (Vec<Vec<IpAddr>>, bool) {
        let of = |found: &&Found| found.path.source_port == u32::from(source_port);
        let path = &self.found.iter().rfind(of).expect("it was traced").path;
        let address = |bytes: &Vec<u8>| IpAddr::from(<[u8; 4]>::try_from(bytes.as_slice()).expect("four bytes"));
        (path.hops.iter().map(|hop| hop.addresses.iter().map(address).collect()).collect(), path.complete)
    }

    /// Fails if a datagram for RoCE could arrive at the target.
    #[track_caller]
    pub fn check_that_none_arrived(&self) {
        let fabric = self.fabric.borrow();
        for sent in fabric.to(ROCE, 0) {
            let path = fabric.paths.get(&sent.flow.local.port()).unwrap_or(&fabric.paths[&0]);
            assert!(usize::from(sent.ttl) <= path.len(), "TTL {} of a path of {}", sent.ttl, path.len());
        }
    }
}
