//! Infers cables from counters that move together: what one port sends, the other end of its cable receives, and the
//! reverse. A pair is accepted when both ports are much closer to each other than to any other port, several times in a
//! row. It is dropped when they diverge, or when a better source names the cable.
//!
//! Each port is compared with the few ports whose byte counts are closest, so the cost grows linearly with the number
//! of ports. Ports of an accepted pair are only compared with each other.

use crate::model::fabric::Fabric;
use crate::model::frame::Frame;
use crate::model::ports::Port;
use crate::model::signal::Signal;
use crate::model::topology::{Cable, CableEnd, Provenance, Role, TopologySource};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Frames that are compared.
pub(crate) const TICKS: usize = 20;
/// Frames that are summed, because nodes do not read their counters at the same instant.
const SUMMED: usize = 3;
/// Candidates per port, those with the closest byte counts.
const CANDIDATES: usize = 32;
/// Accepted difference between two ends, as a share of the bytes that they move.
const MAX_DIFFERENCE: f64 = 0.05;
/// How many times farther every other port must be.
const MARGIN: f64 = 3.0;
/// Differences below this share count as equal.
const EQUAL: f64 = 0.002;
/// Bytes per second below which traffic is control traffic of switches.
const ACTIVE: f64 = 1e6;
/// Consecutive votes that accept a pair, and that drop it.
const VOTES: u8 = 3;

/// A port with enough traffic to be compared.
struct Candidate {
    port: usize,
    is_switch: bool,
    /// Bytes per second, summed over some frames: sent, received; `NaN` where a frame is missing.
    tx: Vec<f32>,
    rx: Vec<f32>,
    mean: [f64; 2],
}

/// Votes for a pair.
#[derive(Default)]
struct Pair {
    votes: u8,
    known: bool,
}

/// Pairs of ports that likely share a cable.
#[derive(Default)]
pub(crate) struct InferredCables {
    /// By its ports, the lower first.
    pairs: BTreeMap<[usize; 2], Pair>,
    /// The pair of each port.
    of: HashMap<usize, [usize; 2]>,
    /// An accepted pair was dropped since the last update.
    dropped: bool,
}

impl InferredCables {
    /// Compares the latest frames. Returns whether the accepted pairs have changed.
    pub fn update(&mut self, frames: &[Arc<Frame>], fabric: &Fabric, is_switch: impl Fn(usize) -> bool) -> bool {
        let before: Vec<[usize; 2]> = self.known().collect();
        // A better source needs no guess, and one of two supposed switches may have turned out to be a host.
        let forwards = |port: usize| is_switch(fabric.ports.list[port].end.node);
        let fits = |pair: &[usize; 2]| pair.iter().all(|p| is_free(fabric, *p)) && pair.iter().any(|p| forwards(*p));
        let gone: Vec<[usize; 2]> = self.pairs.keys().filter(|pair| !fits(pair)).copied().collect();
        gone.into_iter().for_each(|pair| self.forget(pair));
        let free = || (0..fabric.ports.list.len()).filter(|p| is_free(fabric, *p));
        // Most fabrics have no switch whose counters are read.
        if free().any(forwards) {
            let all: Vec<Candidate> = free().filter_map(|p| Candidate::new(frames, p, forwards(p))).collect();
            self.vote(&all, fabric);
        }
        std::mem::take(&mut self.dropped) || !self.known().eq(before)
    }

    /// Drops the pairs of ports without recent samples. The next update reports the change.
    pub fn forget_ports(&mut self, ports: &[usize]) {
        let pairs: Vec<[usize; 2]> = ports.iter().filter_map(|port| self.of.get(port).copied()).collect();
        for pair in pairs {
            self.dropped |= self.pairs.get(&pair).is_some_and(|pair| pair.known);
            self.forget(pair);
        }
    }

    fn known(&self) -> impl Iterator<Item = [usize; 2]> + '_ {
        self.pairs.iter().filter(|(_, pair)| pair.known).map(|(ports, _)| *ports)
    }

    fn forget(&mut self, pair: [usize; 2]) {
        self.pairs.remove(&pair);
        for port in pair {
            self.of.remove(&port);
        }
    }

    fn vote(&mut self, all: &[Candidate], fabric: &Fabric) {
        let at: HashMap<usize, &Candidate> = all.iter().map(|m| (m.port, m)).collect();
        let mut settled = HashSet::new();
        let mut against = Vec::new();
        for (ports, pair) in &mut self.pairs {
            // A pair without traffic gives no evidence.
            let [Some(a), Some(b)] = ports.map(|p| at.get(&p)) else { continue };
            let far = distance(a, b);
            if far > 2.0 * MAX_DIFFERENCE {
                against.push(*ports);
            } else if pair.known && far <= MAX_DIFFERENCE {
                pair.votes = VOTES;
                settled.extend(*ports);
            }
        }
        let found = matches(all, &settled, fabric);
        // A new match of a port is evidence against its old pair.
        let others = found.iter().flat_map(|pair| pair.map(|p| self.of.get(&p).filter(|of| *of != pair).copied()));
        against.extend(others.flatten());
        against.sort_unstable();
        against.dedup();
        for pair in against {
            let votes = self.pairs.get_mut(&pair).map_or(0, |p| {
                p.votes -= 1;
                p.votes
            });
            if votes == 0 {
                self.forget(pair);
            }
        }
        for ports in found {
            if ports.iter().all(|p| self.of.get(p).is_none_or(|of| *of == ports)) {
                let pair = self.pairs.entry(ports).or_default();
                pair.votes = (pair.votes + 1).min(VOTES);
                pair.known |= pair.votes == VOTES;
                self.of.extend(ports.map(|p| (p, ports)));
            }
        }
    }

    /// The accepted pairs as a source of topology.
    pub fn as_source(&self, fabric: &Fabric, is_switch: impl Fn(usize) -> bool) -> TopologySource {
        let mut told = TopologySource::new("counters that move together", "counters");
        let mut nodes = BTreeMap::new();
        for ports in self.known() {
            let sides = ports.map(|port| {
                let Port { end, .. } = &fabric.ports.list[port];
                let node = fabric.topology.nodes[end.node].name.clone();
                // `merge` decides between leaf and spine.
                nodes.insert(node.clone(), if is_switch(end.node) { Role::Spine } else { Role::Host });
                CableEnd { node, port: end.port.clone(), ..CableEnd::default() }
            });
            told.cable(0, Cable { sides, rate: None, rail: None, known: Provenance::Counters });
        }
        told.nodes = nodes.into_iter().collect();
        told
    }
}

/// No source names its cable, or only schedulers or this inference do.
fn is_free(fabric: &Fabric, port: usize) -> bool {
    let link = fabric.ports.list[port].link;
    link.is_none_or(|l| fabric.topology.links[l].known <= Provenance::Counters)
        && !fabric.ports.list[port].end.is_unknown()
}

impl Candidate {
    /// `None` if too little was measured or too little moves.
    fn new(frames: &[Arc<Frame>], port: usize, is_switch: bool) -> Option<Self> {
        let summed = |signal| -> Vec<f32> {
            let values: Vec<f64> = frames.iter().map(|f| f.get(signal, port).unwrap_or(f64::NAN)).collect();
            values.windows(SUMMED).map(|w| w.iter().sum::<f64>() as f32).collect()
        };
        let mean =
            |values: &[f32]| crate::model::stats::mean(values.iter().filter(|v| !v.is_nan()).map(|v| f64::from(*v)));
        let (tx, rx) = (summed(Signal::Tx), summed(Signal::Rx));
        let measured = tx.iter().zip(&rx).filter(|(t, r)| !t.is_nan() && !r.is_nan()).count();
        let mean = [mean(&tx)?, mean(&rx)?];
        let enough = measured * 2 > TICKS && mean[0] + mean[1] >= 2.0 * ACTIVE * SUMMED as f64;
        enough.then_some(Self { port, is_switch, tx, rx, mean })
    }
}

/// Difference of two ports as ends of one cable, relative to what they move; 0 if each receives what the other sends.
fn distance(a: &Candidate, b: &Candidate) -> f64 {
    let (mut apart, mut moved) = (0.0, 0.0);
    for (sent, received) in [(&a.tx, &b.rx), (&b.tx, &a.rx)] {
        for (s, r) in sent.iter().zip(received).filter(|(s, r)| !s.is_nan() && !r.is_nan()) {
            apart += f64::from((s - r).abs());
            moved += f64::from(s.max(*r));
        }
    }
    if moved > 0.0 { apart / moved } else { f64::INFINITY }
}

/// Pairs that are each other's closest by far. Ports in `settled` already have a pair.
fn matches(all: &[Candidate], settled: &HashSet<usize>, fabric: &Fabric) -> Vec<[usize; 2]> {
    let order = |which: fn(&&Candidate) -> bool| {
        let mut order: Vec<&Candidate> = all.iter().filter(which).collect();
        order.sort_by(|a, b| a.mean[1].total_cmp(&b.mean[1]));
        order
    };
    // At least one end of a cable is a switch.
    let (switches, every) = (order(|m| m.is_switch), order(|_| true));
    let node = |m: &Candidate| fabric.ports.list[m.port].end.node;
    let nearest = |a: &Candidate| {
        let order = if a.is_switch { &every } else { &switches };
        let near = near(order, a.mean[0]).filter(|b| node(b) != node(a));
        let mut far: Vec<(f64, usize)> = near.take(CANDIDATES).map(|b| (distance(a, b), b.port)).collect();
        far.sort_by(|x, y| x.0.total_cmp(&y.0));
        let (best, with) = *far.first()?;
        let next = far.get(1).map_or(f64::INFINITY, |f| f.0);
        (best <= MAX_DIFFERENCE && next >= MARGIN * best.max(EQUAL)).then_some((a.port, with))
    };
    let open = all.iter().filter(|a| !settled.contains(&a.port));
    let best: HashMap<usize, usize> = open.filter_map(nearest).collect();
    best.iter().filter(|(a, b)| a < b && best.get(b) == Some(a)).map(|(a, b)| [*a, *b]).collect()
}

/// Ports ordered by distance of their received bytes from `sent`, closest first, within reach.
fn near<'a>(order: &'a [&'a Candidate], sent: f64) -> impl Iterator<Item = &'a Candidate> {
    let mut up = order.partition_point(|m| m.mean[1] < sent);
    let mut down = up;
    let apart = move |m: &&Candidate| (m.mean[1] - sent).abs();
    let next = move || {
        let (above, below) = (order.get(up), down.checked_sub(1).map(|n| &order[n]));
        let take_above = match (above, below) {
            (Some(a), Some(b)) => apart(a) <= apart(b),
            (above, _) => above.is_some(),
        };
        let one = if take_above { above } else { below }?;
        if take_above {
            up += 1
        } else {
            down -= 1
        }
        Some(*one)
    };
    std::iter::from_fn(next).take_while(move |m| apart(m) <= 2.0 * MAX_DIFFERENCE * sent.max(m.mean[1]))
}
