//! Sweeps, rounds of counters, and what becomes of them. While another host has the lease of the subnet, the reader stands
//! by and sweeps rarely.

use super::IbFabric;
use super::forwarding::ForwardingReader;
use super::host::Host;
use super::names::SwitchNames;
use super::permission::Permission;
use super::port_plans::PortPlans;
use super::port_series::PortSeries;
use super::timetable::Timetable;
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_mad::counters::{Group, Poller, Target};
use fabriclens_agent_mad::discovery::{Sweep, discover};
use fabriclens_agent_mad::exchange::Counts;
use fabriclens_agent_mad::smp::NodeType;
use fabriclens_agent_mad::subnet::{PortId, Subnet};
use fabriclens_agent_mad::transport::Mad;
use fabriclens_agent_uplink::Outlook;
use fabriclens_catalog::metrics::ib_fabric::{
    IB_FABRIC_LEASE, IB_FABRIC_MADS, IB_FABRIC_NODES, IB_FABRIC_PORTS, IB_FABRIC_READING, IB_FABRIC_ROUND,
    IB_FABRIC_SILENT, IB_FABRIC_TRUNCATED,
};
use fabriclens_wire::{Resource, Value};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Sweeps that a port may be missing from before its series end: a sweep may lose a node.
const MISSED: u32 = 3;
/// Interval of sweeps while another host reads: they find the switches by which the subnet is known.
const STANDBY_SWEEP: Duration = Duration::from_secs(600);
/// Interval at which a pause checks whether this host may read.
const CHECK: Duration = Duration::from_millis(250);
/// Transactions that are skipped after an exchange was cut off: its replies may still come.
const CUT_OFF: u32 = 1 << 20;

/// Failure that ends the reading until the port is opened again.
pub type Error = Box<dyn std::error::Error>;

struct Port {
    series: Box<PortSeries>,
    target: Option<Target>,
    /// Sweeps in a row without it.
    missed: u32,
}

/// Outcome of reading a group of counters.
#[derive(Default)]
struct Read {
    /// Ports that answered.
    readings: usize,
    /// A link went down since the last reading.
    link_lost: bool,
}

/// Reader of one subnet.
pub struct Reader<'a> {
    config: &'a IbFabric,
    host: &'a Host<'a>,
    /// Whether this host may read.
    pub permission: Permission<'a>,
    ports: BTreeMap<PortId, Port>,
    plans: PortPlans,
    poller: Poller,
    timetable: Timetable,
    forwarding: ForwardingReader<'a>,
    /// The last port whose details were read.
    detailed: Option<PortId>,
    subnet: Subnet,
    /// End of the last sweep.
    swept: Option<Instant>,
    transaction: u32,
    counts: Counts,
    silent: usize,
    rounds: [Duration; 2],
    batch: Batch,
    start_ns: u64,
    /// Outlook that the log tells.
    outlook: Option<Outlook>,
}

impl<'a> Reader<'a> {
    /// A reader that has not read yet.
    pub fn new(config: &'a IbFabric, host: &'a Host<'a>) -> Self {
        Self {
            config,
            host,
            permission: Permission(host.lease),
            ports: BTreeMap::new(),
            plans: PortPlans::default(),
            poller: Poller::default(),
            timetable: Timetable::new(config),
            forwarding: ForwardingReader::new(host.tables),
            detailed: None,
            subnet: Subnet::default(),
            swept: None,
            transaction: 0,
            counts: Counts::default(),
            silent: 0,
            rounds: [Duration::ZERO; 2],
            batch: Batch::default(),
            start_ns: host.clock.now(),
            outlook: None,
        }
    }

    /// Reads while this host may and stands by otherwise, until the port is lost or the engine stops.
    pub fn serve(&mut self, mad: &mut dyn Mad) -> Result<(), Error> {
        // The port may have been another one before.
        self.swept = None;
        while !(self.host.stopping)() {
            if !self.permission.may_read() {
                self.hand_over();
                self.stand_by(mad)?;
                continue;
            }
            self.permission.set_reading(true);
            let read = self.read(mad);
            let lost = self.permission.is_lost();
            self.permission.set_reading(false);
            match read {
                Err(_) if lost => self.transaction = self.transaction.wrapping_add(CUT_OFF),
                other => other?,
            }
        }
        Ok(())
    }

    /// Sweeps rarely until this host may read or the engine stops.
    fn stand_by(&mut self, mad: &mut dyn Mad) -> Result<(), Error> {
        let (mut sweep, mut round) = (Instant::now(), Instant::now());
        while !self.permission.may_read() && !(self.host.stopping)() {
            let now = Instant::now();
            if now >= sweep {
                self.sweep(mad)?;
                sweep = now + STANDBY_SWEEP;
            }
            if now >= round {
                (self.host.problem)(self.complaint());
                self.tell(false);
                round = now + self.config.period;
            }
            (self.host.wait)(Instant::now() + CHECK);
        }
        Ok(())
    }

    /// Reads until the engine stops or this host may not.
    fn read(&mut self, mad: &mut dyn Mad) -> Result<(), Error> {
        let now = Instant::now();
        // An agent that stood by has swept the subnet and knows its ports. It reads them first, because another sweep of a
        // large subnet takes long.
        let known = self.swept.is_some() && !self.ports.is_empty();
        let mut sweep = if known { self.next_sweep().max(now + self.config.period) } else { now };
        let mut round = now;
        while !self.permission.is_lost() {
            let now = Instant::now();
            if now >= sweep {
                self.sweep(mad)?;
                (self.host.problem)(self.complaint());
                sweep = self.next_sweep();
            }
            if now >= round {
                let changed = self.round(mad)?;
                (self.host.problem)(self.complaint());
                self.tell(true);
                round = (round + self.config.period).max(Instant::now());
                if changed {
                    let now = Instant::now();
                    sweep = sweep.min(Timetable::sweep_for_loss(now, self.swept.unwrap_or(now), self.rounds[0]));
                }
            }
            if (self.host.wait)(self.permission.next_check(round.min(sweep), CHECK)) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Time of the next regular sweep: at once if there was none.
    fn next_sweep(&self) -> Instant {
        self.swept.map_or_else(Instant::now, |swept| self.timetable.next_sweep(swept, self.rounds[0]))
    }

    fn complaint(&self) -> Option<String> {
        let limits = self.config.limits;
        let why = || {
            format!("the subnet is larger than {} nodes or {} ports; a part is not read", limits.nodes, limits.ports)
        };
        let problems = [self.permission.problem(), self.subnet.truncated.then(why), self.timetable.problem()];
        let problems: Vec<String> = problems.into_iter().flatten().collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }

    /// Finds nodes and links, and sets the state of all ports.
    fn sweep(&mut self, mad: &mut dyn Mad) -> Result<(), Error> {
        let begin = Instant::now();
        let Sweep { subnet, counts, next_transaction } =
            discover(mad, self.config.pace, self.config.limits, self.transaction)?;
        self.transaction = next_transaction;
        self.counts.add(counts);
        let (nodes, links) = (subnet.nodes.len(), subnet.links.len() / 2);
        if (nodes, links) != (self.subnet.nodes.len(), self.subnet.links.len() / 2) {
            tracing::info!(nodes, links, "InfiniBand subnet changed");
        }
        let links_changed = subnet.links != self.subnet.links;
        self.subnet = subnet;
        self.permission.claim(&self.subnet);
        let names = SwitchNames::of(&self.subnet);
        self.forwarding.swept(&self.subnet, &names, links_changed);
        self.ports.values_mut().for_each(|port| port.missed += 1);
        for (guid, node) in &self.subnet.nodes {
            for (number, info) in &node.ports {
                let id = (*guid, *number);
                let wanted = if node.is_switch() { *number > 0 } else { self.config.adapters };
                // A port that never had a link has nothing to tell.
                if !wanted || !(info.is_linked() || self.ports.contains_key(&id)) {
                    continue;
                }
                let Some(resource) = names.resource(node, *number) else { continue };
                let port = self.ports.entry(id).or_insert_with(|| Port {
                    series: Box::new(PortSeries::new(resource.clone())),
                    target: None,
                    missed: 0,
                });
                if *port.series.resource() != resource {
                    port.series.close(Some(self.host.clock.now())).into_iter().for_each(self.host.push);
                    *port.series = PortSeries::new(resource);
                }
                port.missed = 0;
                port.series.set_state(&node.info, info, names.info(&self.subnet, id));
                port.target = node.lid(*number).map(|lid| Target { port: id, lid, lanes: info.virtual_lanes });
            }
        }
        let (now, push) = (self.host.clock.now(), self.host.push);
        self.ports.retain(|_, port| {
            if port.missed >= MISSED {
                port.series.close(Some(now)).into_iter().for_each(push);
            }
            port.missed < MISSED
        });
        self.plans.forget_unused();
        let nodes = &self.subnet.nodes;
        self.poller.retain(|node| nodes.contains_key(&node));
        self.rounds[0] = begin.elapsed();
        self.swept = Some(Instant::now());
        Ok(())
    }

    /// Reads the counters of all ports, and the details of those whose turn it is. True if a link went down since the last
    /// round, or no port answers: then a sweep finds what is left.
    fn round(&mut self, mad: &mut dyn Mad) -> io::Result<bool> {
        let begin = Instant::now();
        let targets: Vec<Target> = self.ports.values().filter_map(|port| port.target).collect();
        let read = self.group(mad, Group::Basic, &targets)?;
        let after = targets.partition_point(|target| self.detailed.is_some_and(|last| target.port <= last));
        let turn = self.timetable.turn(targets.len());
        let turn: Vec<Target> = targets[after..].iter().chain(&targets[..after]).take(turn).copied().collect();
        self.group(mad, Group::Details, &turn)?;
        self.detailed = turn.last().map(|target| target.port);
        let (counts, next) =
            self.forwarding.turn(mad, self.config, (&self.subnet, &self.timetable), self.transaction)?;
        self.transaction = next;
        self.counts.add(counts);
        self.rounds[1] = begin.elapsed();
        self.timetable.round(self.rounds[1]);
        Ok(read.link_lost || read.readings == 0 && !targets.is_empty())
    }

    /// Reads a group of counters of these ports.
    fn group(&mut self, mad: &mut dyn Mad, group: Group, targets: &[Target]) -> io::Result<Read> {
        let (begin, clock, push) = (Instant::now(), self.host.clock, self.host.push);
        let mut read = Read::default();
        let (ports, poller, plans) = (&mut self.ports, &mut self.poller, &mut self.plans);
        let deadline = self.config.pace.deadline;
        let round = poller.read(mad, self.config.pace, (group, targets), self.transaction, &mut |reading| {
            read.readings += 1;
            let Some(port) = ports.get_mut(&reading.port) else { return };
            let now = Instant::now();
            // The reply came within the deadline of its request.
            let began = now.checked_sub(deadline).map_or(begin, |earliest| earliest.max(begin));
            read.link_lost |= port.series.went_down(&reading);
            port.series.take(reading, plans, [clock.wall(began), clock.wall(now)], now, push);
        })?;
        self.transaction = round.next_transaction;
        self.counts.add(round.counts);
        if group == Group::Basic {
            self.silent = round.silent.len();
        }
        Ok(read)
    }

    /// Pushes the reader's own metrics; `reading`: counters are read.
    fn tell(&mut self, reading: bool) {
        self.permission.log_change(&mut self.outlook);
        let batch = &mut self.batch;
        batch.begin();
        let nodes = self.subnet.nodes.values();
        for (kind, label) in
            [(NodeType::Switch, "switch"), (NodeType::Adapter, "adapter"), (NodeType::Router, "router")]
        {
            let count = nodes.clone().filter(|node| node.info.kind == kind).count();
            batch.fact(&IB_FABRIC_NODES, &[("type", label)], Value::Int(count as u64));
        }
        batch.fact(&IB_FABRIC_READING, &[], Value::Int(reading.into()));
        batch.fact(&IB_FABRIC_LEASE, &[], Value::Int(self.permission.has_lease().into()));
        batch.fact(&IB_FABRIC_PORTS, &[], Value::Int(if reading { self.ports.len() as u64 } else { 0 }));
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
        let resource = Resource { host: Arc::clone(self.host.name), device: None, port: None };
        (self.host.push)(batch.section(Arc::new(resource), self.start_ns, now));
    }

    /// Ends the series of all ports at their last samples and forgets them: later samples of the same series are those
    /// of the next reader, and a marker after them would hide them until its next round.
    fn hand_over(&mut self) {
        self.forwarding.clear();
        for (_, mut port) in std::mem::take(&mut self.ports) {
            port.series.close(None).into_iter().for_each(self.host.push);
        }
    }

    /// Ends the series of all ports.
    pub fn close(&mut self) {
        self.forwarding.clear();
        let now = self.host.clock.now();
        for port in self.ports.values_mut() {
            port.series.close(Some(now)).into_iter().for_each(self.host.push);
        }
    }
}
