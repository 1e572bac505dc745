//! The thread that reads the subnet: sweeps, rounds of counters, and what becomes of them.

use super::names::SwitchNames;
use super::port_series::{PortSeries, wait_bytes};
use super::{IbFabric, open};
use fabriclens_agent_host::batch::{Batch, chain};
use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_mad::counters::{Group, Poller, Target};
use fabriclens_agent_mad::discovery::{Sweep, discover};
use fabriclens_agent_mad::exchange::Counts;
use fabriclens_agent_mad::packet::Get;
use fabriclens_agent_mad::smp::NodeType;
use fabriclens_agent_mad::subnet::{PortId, Subnet};
use fabriclens_agent_mad::transport::Mad;
use fabriclens_catalog::metrics::ib_fabric::{
    IB_FABRIC_MADS, IB_FABRIC_NODES, IB_FABRIC_PORTS, IB_FABRIC_ROUND, IB_FABRIC_SILENT, IB_FABRIC_TRUNCATED,
};
use fabriclens_wire::{Resource, Section, Value};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Sweeps that a port may be missing from before its series end: a sweep may lose a node.
const MISSED: u32 = 3;
/// Least time between two sweeps.
const SOONEST: Duration = Duration::from_secs(1);
/// Pause after the port could not be opened.
const RETRY: Duration = Duration::from_secs(10);

/// What the thread needs of the engine.
pub struct Host<'a> {
    /// Files and devices.
    pub roots: &'a Roots,
    /// Clock of the time stamps.
    pub clock: &'a Clock,
    /// `host` label of the agent's own metrics.
    pub name: &'a Arc<str>,
    /// Takes sections.
    pub push: &'a (dyn Fn(Section) + Sync),
    /// Waits until an instant; true if the engine stops.
    pub wait: &'a (dyn Fn(Instant) -> bool + Sync),
    /// Whether the engine stops.
    pub stopping: &'a (dyn Fn() -> bool + Sync),
    /// Reports a problem, or that there is none.
    pub problem: &'a dyn Fn(Option<String>),
}

/// Reads until the engine stops; opens the port again when it is lost.
pub fn run(config: &IbFabric, host: &Host<'_>) {
    let mut reader = Reader::new(config, host);
    while !(host.stopping)() {
        match open(config, host.roots) {
            Ok((mad, name)) => {
                tracing::info!(port = name, "reading the InfiniBand subnet");
                let mut mad = Stoppable { mad, stopping: host.stopping };
                match reader.read(&mut mad) {
                    Err(_) if (host.stopping)() => {}
                    Err(error) => (host.problem)(Some(chain(&*error))),
                    Ok(()) => {}
                }
            }
            Err(why) => (host.problem)(Some(why)),
        }
        if (host.wait)(Instant::now() + RETRY) {
            break;
        }
    }
    reader.close();
}

/// Ends an exchange when the engine stops.
struct Stoppable<'a> {
    mad: Box<dyn Mad>,
    stopping: &'a (dyn Fn() -> bool + Sync),
}

impl Mad for Stoppable<'_> {
    fn send(&mut self, get: &Get, transaction: u32) -> io::Result<()> {
        self.mad.send(get, transaction)
    }

    fn receive(&mut self, wait: Duration, into: &mut Vec<u8>) -> io::Result<Option<()>> {
        if (self.stopping)() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.mad.receive(wait, into)
    }

    fn window(&self) -> usize {
        self.mad.window()
    }
}

struct Port {
    series: PortSeries,
    target: Option<Target>,
    /// Sweeps in a row without it.
    missed: u32,
}

struct Reader<'a> {
    config: &'a IbFabric,
    host: &'a Host<'a>,
    ports: BTreeMap<PortId, Port>,
    poller: Poller,
    subnet: Subnet,
    transaction: u32,
    counts: Counts,
    silent: usize,
    rounds: [Duration; 2],
    batch: Batch,
    start_ns: u64,
}

impl<'a> Reader<'a> {
    fn new(config: &'a IbFabric, host: &'a Host<'a>) -> Self {
        Self {
            config,
            host,
            ports: BTreeMap::new(),
            poller: Poller::default(),
            subnet: Subnet::default(),
            transaction: 0,
            counts: Counts::default(),
            silent: 0,
            rounds: [Duration::ZERO; 2],
            batch: Batch::default(),
            start_ns: host.clock.now(),
        }
    }

    /// Reads until the port is lost or the engine stops.
    fn read(&mut self, mad: &mut dyn Mad) -> Result<(), Box<dyn std::error::Error>> {
        let (mut sweep, mut round, mut details) = (Instant::now(), Instant::now(), Instant::now());
        loop {
            let now = Instant::now();
            if now >= sweep {
                self.sweep(mad)?;
                (self.host.problem)(self.complaint());
                sweep = now + self.config.sweep;
            }
            if now >= round {
                let mut changed = self.round(mad, Group::Basic)?;
                if now >= details {
                    changed |= self.round(mad, Group::Details)?;
                    details = now + self.config.details;
                }
                self.tell();
                round = (round + self.config.period).max(Instant::now());
                if changed {
                    sweep = sweep.min(now + SOONEST);
                }
            }
            if (self.host.wait)(round.min(sweep)) {
                return Ok(());
            }
        }
    }

    fn complaint(&self) -> Option<String> {
        let limits = self.config.limits;
        let why = || {
            format!("the subnet is larger than {} nodes or {} ports; a part is not read", limits.nodes, limits.ports)
        };
        self.subnet.truncated.then(why)
    }

    /// Finds nodes and links, and sets the state of all ports.
    fn sweep(&mut self, mad: &mut dyn Mad) -> Result<(), Box<dyn std::error::Error>> {
        let begin = Instant::now();
        let Sweep { subnet, counts, next_transaction } =
            discover(mad, self.config.pace, self.config.limits, self.transaction)?;
        self.transaction = next_transaction;
        self.counts.add(counts);
        let (nodes, links) = (subnet.nodes.len(), subnet.links.len() / 2);
        if (nodes, links) != (self.subnet.nodes.len(), self.subnet.links.len() / 2) {
            tracing::info!(nodes, links, "InfiniBand subnet changed");
        }
        self.subnet = subnet;
        let names = SwitchNames::of(&self.subnet);
        self.ports.values_mut().for_each(|port| port.missed += 1);
        for (guid, node) in &self.subnet.nodes {
            let tick = self.poller.tick(*guid);
            for (number, info) in &node.ports {
                let id = (*guid, *number);
                let wanted = if node.is_switch() { *number > 0 } else { self.config.adapters };
                // A port that never had a link has nothing to tell.
                if !wanted || !(info.is_linked() || self.ports.contains_key(&id)) {
                    continue;
                }
                let Some(resource) = names.resource(node, *number) else { continue };
                let port = self.ports.entry(id).or_insert_with(|| Port {
                    series: PortSeries::new(resource.clone()),
                    target: None,
                    missed: 0,
                });
                if *port.series.resource() != resource {
                    port.series.close(self.host.clock.now()).into_iter().for_each(self.host.push);
                    port.series = PortSeries::new(resource);
                }
                port.missed = 0;
                let wait = wait_bytes(&node.info, tick, info.lanes);
                port.series.set_state(info, wait, names.info(&self.subnet, id));
                port.target = node.lid(*number).map(|lid| Target { port: id, lid, lanes: info.virtual_lanes });
            }
        }
        let (now, push) = (self.host.clock.now(), self.host.push);
        self.ports.retain(|_, port| {
            if port.missed >= MISSED {
                port.series.close(now).into_iter().for_each(push);
            }
            port.missed < MISSED
        });
        let nodes = &self.subnet.nodes;
        self.poller.retain(|node| nodes.contains_key(&node));
        self.rounds[0] = begin.elapsed();
        Ok(())
    }

    /// Reads a group of counters of all ports. True if a link went down since the last round.
    fn round(&mut self, mad: &mut dyn Mad, group: Group) -> io::Result<bool> {
        let (begin, clock, push) = (Instant::now(), self.host.clock, self.host.push);
        let targets: Vec<Target> = self.ports.values().filter_map(|port| port.target).collect();
        let mut changed = false;
        let (ports, poller) = (&mut self.ports, &mut self.poller);
        let deadline = self.config.pace.deadline;
        let round = poller.read(mad, self.config.pace, (group, &targets), self.transaction, &mut |reading| {
            let Some(port) = ports.get_mut(&reading.port) else { return };
            let now = Instant::now();
            // The reply came within the deadline of its request.
            let began = now.checked_sub(deadline).map_or(begin, |earliest| earliest.max(begin));
            changed |= port.series.went_down(&reading);
            push(port.series.section(&reading, [clock.wall(began), clock.wall(now)], now));
        })?;
        self.transaction = round.next_transaction;
        self.counts.add(round.counts);
        self.silent = round.silent.len();
        self.rounds[1] = begin.elapsed();
        Ok(changed)
    }

    /// Pushes the reader's own metrics.
    fn tell(&mut self) {
        let batch = &mut self.batch;
        batch.begin();
        let nodes = self.subnet.nodes.values();
        for (kind, label) in
            [(NodeType::Switch, "switch"), (NodeType::Adapter, "adapter"), (NodeType::Router, "router")]
        {
            let count = nodes.clone().filter(|node| node.info.kind == kind).count();
            batch.fact(&IB_FABRIC_NODES, &[("type", label)], Value::Int(count as u64));
        }
        batch.fact(&IB_FABRIC_PORTS, &[], Value::Int(self.ports.len() as u64));
        batch.fact(&IB_FABRIC_SILENT, &[], Value::Int(self.silent as u64));
        batch.fact(&IB_FABRIC_TRUNCATED, &[], Value::Int(self.subnet.truncated.into()));
        for (kind, time) in ["sweep", "counters"].into_iter().zip(self.rounds) {
            batch.fact(&IB_FABRIC_ROUND, &[("kind", kind)], Value::Float(time.as_secs_f64()));
        }
        let Counts { sent, answered, refused, timed_out, skipped, foreign } = self.counts;
        for (result, count) in [
            ("sent", sent),
            ("answered", answered),
            ("refused", refused),
            ("timed_out", timed_out),
            ("skipped", skipped),
            ("foreign", foreign),
        ] {
            batch.fact(&IB_FABRIC_MADS, &[("result", result)], Value::Int(count));
        }
        let now = self.host.clock.now();
        (self.host.push)(Section {
            resource: Arc::new(Resource { host: Arc::clone(self.host.name), device: None, port: None }),
            columns: batch.facts.iter().map(|(column, _)| column.clone()).collect(),
            begin_ns: now,
            end_ns: now,
            starts: vec![self.start_ns; batch.facts.len()].into(),
            values: batch.facts.iter().map(|(_, value)| value.clone()).collect(),
            urgent: false,
        });
    }

    /// Ends the series of all ports.
    fn close(&mut self) {
        let now = self.host.clock.now();
        for port in self.ports.values_mut() {
            port.series.close(now).into_iter().for_each(self.host.push);
        }
    }
}
