//! What the flows of a second do to the ports: bytes, queues, marks, pause or waits, and the errors of ordinary events.

use super::counters::{Counter, Totals};
use super::fabric::{Fabric, RATE};
use super::job::{Activity, Flow, Job};
use super::life::{HostEvent, Life};
use crate::random::Random;
use serde_json::json;

/// Bytes of a packet.
const PACKET: f64 = 4096.0;
/// Share of its NIC's rate at which a host reads from storage or writes to it.
const STORES: f64 = 0.3;
/// Load from which a queue builds up and packets are marked.
const FULL: f64 = 0.7;
/// Seconds after which a link that two jobs fill counts as hot.
const HOT_S: usize = 3;

/// State of all ports. A port is the direction that it sends to.
pub struct Traffic {
    pub totals: Vec<Totals>,
    /// By cable.
    pub up: Vec<bool>,
    /// By job: share of what it wanted to send that the network carried in the last second.
    speed: Vec<f64>,
    /// By job: seconds for which an all-to-all exchange is paused a little more, and how much.
    burst: Vec<(usize, f64)>,
    /// By direction: since when it has been overloaded.
    hot_since: Vec<Option<usize>>,
}

/// A flow of a second: its job, its way and the bytes that it wants to send.
struct Demand<'a> {
    job: usize,
    flow: &'a Flow,
    bytes: f64,
    /// Whether the job waits for it: exchanges are as fast as their slowest flow.
    exchange: bool,
}

impl Traffic {
    pub fn new(fabric: &Fabric, jobs: &[Job]) -> Self {
        Self {
            totals: vec![Totals::default(); fabric.directions()],
            up: vec![true; fabric.cables.len()],
            speed: vec![1.0; jobs.len()],
            burst: vec![(0, 0.0); jobs.len()],
            hot_since: vec![None; fabric.directions()],
        }
    }

    /// Goes on for a second.
    pub fn run(&mut self, second: usize, fabric: &Fabric, jobs: &mut [Job], life: &mut Life, random: &mut Random) {
        self.links(second, fabric, life);
        let wants: Vec<[f64; 2]> = jobs
            .iter_mut()
            .enumerate()
            .map(|(at, job)| if job.runs(second) { job.wants(second, self.speed[at], random) } else { [0.0; 2] })
            .collect();
        let demands = demands(second, jobs, &wants);
        let mut load = vec![0.0; fabric.directions()];
        demands.iter().for_each(|d| d.flow.path.iter().for_each(|at| load[*at] += d.bytes));
        let share = |at: &usize| if self.up[at / 2] { (RATE / load[*at].max(1.0)).min(1.0) } else { 0.0 };
        let of_way: Vec<f64> = demands.iter().map(|d| d.flow.path.iter().map(share).fold(1.0, f64::min)).collect();
        let mut speed = vec![1.0_f64; jobs.len()];
        for (demand, share) in demands.iter().zip(&of_way).filter(|(d, _)| d.exchange && d.bytes > 0.0) {
            speed[demand.job] = speed[demand.job].min(*share);
        }
        let mut carried = vec![0.0; fabric.directions()];
        for (demand, share) in demands.iter().zip(&of_way) {
            let bytes = demand.bytes * if demand.exchange { speed[demand.job] } else { *share };
            self.send(demand, bytes, &load, &mut carried, life.infiniband, random);
        }
        for (at, bytes) in carried.iter().enumerate() {
            self.fill(at, load[at].min(bytes * 1.3), fabric, life.infiniband, random);
        }
        self.tell_hot(second, fabric, &load, &carried, life);
        self.burst(second, jobs, life, random);
        self.host_events(second, fabric, life, random);
        self.speed = speed;
    }

    /// Links that are down in this second.
    fn links(&mut self, second: usize, fabric: &Fabric, life: &Life) {
        let mut up = vec![true; fabric.cables.len()];
        for event in life.at_hosts.iter().filter(|event| event.is_at(second)) {
            let of_host = event.host * fabric.rails..(event.host + 1) * fabric.rails;
            match event.what {
                HostEvent::Reboot | HostEvent::DriverReload => {
                    for cable in of_host {
                        up[cable] = false;
                        self.totals[2 * cable] = Totals::default();
                    }
                }
                HostEvent::Flap => up[of_host.start] = false,
                _ => {}
            }
        }
        for (cable, _) in up.iter().enumerate().filter(|(cable, up)| self.up[*cable] && !**up) {
            [2 * cable, 2 * cable + 1].iter().for_each(|port| self.totals[*port].add(Counter::LinkDowns, 1.0));
        }
        self.up = up;
    }

    /// Counts what a flow does on its way.
    fn send(
        &mut self,
        demand: &Demand<'_>,
        bytes: f64,
        load: &[f64],
        carried: &mut [f64],
        infiniband: bool,
        random: &mut Random,
    ) {
        let packets = bytes / PACKET;
        let path = &demand.flow.path;
        let mut marked = 0.0;
        for (hop, at) in path.iter().enumerate() {
            carried[*at] += bytes;
            self.totals[*at].add(Counter::TxBytes, bytes);
            self.totals[*at].add(Counter::TxPackets, packets);
            self.totals[Fabric::back(*at)].add(Counter::RxBytes, bytes);
            self.totals[Fabric::back(*at)].add(Counter::RxPackets, packets);
            let marks = packets * mark_share(load[*at] / RATE) * random.between(0.5, 1.5);
            // A NIC marks nothing: only switches have a queue before this hop.
            if hop > 0 && !infiniband {
                self.totals[*at].add(Counter::Marked, marks);
                marked += marks;
            }
            let over = 1.0 - (RATE / load[*at].max(1.0)).min(1.0);
            if hop > 0 && over > 0.0 {
                self.hold(path[hop - 1], over * bytes / load[path[hop - 1]].max(1.0), infiniband, random);
            }
        }
        if let (Some(first), Some(last)) = (path.first(), path.last()) {
            self.totals[Fabric::back(*last)].add(Counter::NotedMarks, marked);
            self.totals[Fabric::back(*last)].add(Counter::CnpSent, marked * 0.5);
            self.totals[*first].add(Counter::CnpHandled, marked * 0.5);
        }
    }

    /// A port is kept from sending for a part of what its way lacks.
    fn hold(&mut self, at: usize, lacks: f64, infiniband: bool, random: &mut Random) {
        if infiniband {
            self.totals[at].add(Counter::WaitBytes, lacks * RATE * random.between(0.3, 0.8));
        } else {
            let pause_ns = lacks * random.between(0.0, 0.02) * 1e9;
            self.pause(at, pause_ns);
        }
    }

    fn pause(&mut self, at: usize, ns: f64) {
        self.totals[at].add(Counter::RxPauseNs, ns);
        self.totals[Fabric::back(at)].add(Counter::TxPauseNs, ns);
    }

    /// The queue of a switch port, and what flows that share a link wait for each other.
    fn fill(&mut self, at: usize, bytes: f64, fabric: &Fabric, infiniband: bool, random: &mut Random) {
        let load = (bytes / RATE).min(1.3);
        if fabric.cables[at / 2][at % 2].host.is_none() {
            let backlog = if load > 1.0 { random.between(2e5, 1.5e6) } else { 2e4 * load / (1.02 - load) };
            let queue = if random.happens(load.min(1.0)) { backlog * random.between_by_ratio(0.05, 2.0) } else { 0.0 };
            self.totals[at].set(Counter::Queue, queue);
        }
        if infiniband {
            self.totals[at].add(Counter::WaitBytes, 0.02 * load * load * RATE * random.between(0.0, 2.0));
        }
    }

    /// Links that two or more jobs overload for some seconds are told as hot.
    fn tell_hot(&mut self, second: usize, fabric: &Fabric, load: &[f64], carried: &[f64], life: &mut Life) {
        for at in 0..load.len() {
            let hot = load[at] > RATE && carried[at] > FULL * RATE;
            match (hot, self.hot_since[at]) {
                (true, None) => self.hot_since[at] = Some(second),
                (false, Some(from_s)) => {
                    self.hot_since[at] = None;
                    if second - from_s >= HOT_S {
                        let [a, b] = &fabric.cables[at / 2];
                        let ports = [a.port.to_string(), b.port.to_string()];
                        let link =
                            json!({ "type": "link", "a": a.node, "a_port": ports[0], "b": b.node, "b_port": ports[1] });
                        life.tell("hot_link", link, from_s, second);
                    }
                }
                _ => {}
            }
        }
    }

    /// All-to-all exchanges wait a little always (InfiniBand), and now and then more for some seconds.
    fn burst(&mut self, second: usize, jobs: &[Job], life: &mut Life, random: &mut Random) {
        for (at, job) in jobs.iter().enumerate().filter(|(_, job)| job.runs(second)) {
            let sends =
                !matches!(job.activity(second), Some(Activity::Load | Activity::Stand | Activity::Checkpoint(false)));
            let (until, share) = self.burst[at];
            if until <= second && job.all_to_all && sends && random.happens(0.01) {
                let brief = random.happens(0.3);
                let length = if brief { 1 } else { 3 + random.below(6) };
                let share = if brief { 0.1 } else { random.between(0.01, 0.03) };
                self.burst[at] = (second + length, share);
                life.tell("a2a_burst", json!({ "type": "job", "job": job.id }), second, second + length);
            }
            let share = if until > second { share } else { 0.0 };
            for flow in job.flows.iter().filter(|_| sends) {
                let Some(first) = flow.path.first() else { continue };
                let waits = random.between(0.0, 2.0) * flow.part;
                if life.infiniband {
                    self.totals[*first].add(Counter::WaitBytes, waits * (job.waits + 2.0 * share) * RATE);
                } else if share > 0.0 {
                    self.pause(*first, waits * share * 1e9);
                }
            }
        }
    }

    /// Errors and pauses of ordinary events at hosts.
    fn host_events(&mut self, second: usize, fabric: &Fabric, life: &Life, random: &mut Random) {
        let error = if life.infiniband { Counter::ReceiveErrors } else { Counter::CrcErrors };
        for event in life.at_hosts.iter().filter(|event| event.is_at(second)) {
            let nic = 2 * event.host * fabric.rails;
            let leaf = Fabric::back(nic);
            match event.what {
                HostEvent::Hiccup if life.infiniband => {
                    self.totals[leaf].add(Counter::WaitBytes, random.between(0.01, 0.03) * RATE);
                }
                HostEvent::Hiccup => self.pause(leaf, random.between(0.01, 0.03) * 1e9),
                HostEvent::SymbolError => self.totals[leaf].add(Counter::SymbolErrors, 1.0),
                HostEvent::BadLink if random.happens(0.01) => {
                    let found = [Counter::SymbolErrors, error, Counter::OutOfSequence];
                    found.iter().for_each(|counter| self.totals[nic].add(*counter, 1.0));
                    let sender = 2 * (event.host ^ 1) * fabric.rails;
                    self.totals[sender].add(Counter::NakReceived, 1.0);
                    self.totals[sender].add(Counter::Retransmits, random.between(1.0, 60.0).round());
                }
                HostEvent::Flap if second == event.from_s => self.totals[nic].add(Counter::Timeouts, 2.0),
                _ => {}
            }
        }
    }
}

/// Flows of a second.
fn demands<'a>(second: usize, jobs: &'a [Job], wants: &[[f64; 2]]) -> Vec<Demand<'a>> {
    let mut demands = Vec::new();
    for (at, job) in jobs.iter().enumerate().filter(|(_, job)| job.runs(second)) {
        let exchange = job.flows.iter().map(|flow| Demand {
            job: at,
            flow,
            bytes: flow.part * wants[at][usize::from(flow.rail > 0)],
            exchange: true,
        });
        demands.extend(exchange);
        let stored = match job.activity(second) {
            Some(Activity::Load) => &job.reads,
            Some(Activity::Checkpoint(_)) => &job.writes,
            _ => continue,
        };
        demands.extend(stored.iter().map(|flow| Demand { job: at, flow, bytes: STORES * RATE, exchange: false }));
    }
    demands
}

/// Share of the packets that a switch marks at a load, in rates of the link.
fn mark_share(load: f64) -> f64 {
    if load <= FULL {
        0.0
    } else if load <= 1.0 {
        0.02 * ((load - FULL) / (1.0 - FULL)).powi(2)
    } else {
        0.05 + 0.25 * (1.0 - 1.0 / load)
    }
}
