//! Where lost probes were lost: each lost probe votes for the places on its path, and answered probes over a place speak against
//! it. Probes that one host or one moment lost count once, because they are no independent votes.

use crate::model::fabric::Fabric;
use crate::model::routes::path::{Path, PathSource};
use crate::model::routes::probes::{Probe, ProbeWindow};
use crate::model::topology::Role;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Share of probes that is lost on a good link: what answers of others and troubled hosts leave.
pub(crate) const USUAL_LOSS: f64 = 1e-4;
/// Lost probes with a common host in such a span are one event, nanoseconds.
const EVENT_NS: i64 = 1_000_000_000;

/// What may lose packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Suspect {
    /// A cable between switches, by its lower egress port.
    Cable(usize),
    /// A host with its cables, by node.
    Host(usize),
    /// A switch, by node.
    Switch(usize),
}

/// A place, and how well it explains the losses.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub suspect: Suspect,
    /// Egress ports: of a cable, in the direction that explains most, or both.
    pub egress: Vec<usize>,
    /// Votes for it.
    pub votes: f64,
    /// Times that answered probes crossed it, and how many did.
    pub passed: f64,
    pub probes: f64,
    /// Logarithm of how much likelier the losses are if it loses packets than if nothing does.
    pub gain: f64,
}

impl Place {
    /// Whether a probe crossed it.
    pub fn is_on(&self, probe: &Probe) -> bool {
        probe.links.iter().any(|link| self.egress.contains(link))
    }

    /// Share of packets that it loses.
    pub fn loss(&self) -> f64 {
        self.votes / (self.votes + self.passed).max(1.0)
    }
}

/// Lost and answered probes of some windows.
pub(crate) struct LossVotes<'a> {
    /// Lost probes and their votes.
    pub lost: Vec<(&'a Probe, f64)>,
    /// Number of answered probes by egress port: of all, and of those that came back over its cable.
    answered: HashMap<usize, [f64; 2]>,
    /// Answered probes.
    pub probes: f64,
}

impl<'a> LossVotes<'a> {
    /// Votes of closed windows, and of results whose windows are not complete.
    pub fn new(fabric: &Fabric, windows: &[&'a Arc<ProbeWindow>], waiting: impl Iterator<Item = &'a Probe>) -> Self {
        let mut lost: Vec<&Probe> = windows.iter().flat_map(|window| &window.lost).collect();
        let mut probes: f64 = windows.iter().map(|window| f64::from(window.answered)).sum();
        let mut answered: HashMap<usize, [f64; 2]> = HashMap::new();
        let mut add = |link: usize, all: u32, second: u32| {
            let of_link = answered.entry(link).or_default();
            *of_link = [of_link[0] + f64::from(all), of_link[1] + f64::from(second)];
        };
        for (link, of_link) in windows.iter().flat_map(|window| &window.links) {
            add(*link, of_link.answered, of_link.second);
        }
        for probe in waiting {
            if probe.rtt_ns.is_none() {
                lost.push(probe);
                continue;
            }
            probes += 1.0;
            probe.links.iter().enumerate().for_each(|(at, link)| add(*link, 1, probe.is_second(at).into()));
        }
        Self { lost: weighted(fabric, lost), answered, probes }
    }

    /// All votes.
    pub fn votes(&self) -> f64 {
        self.lost.iter().map(|(_, vote)| vote).sum()
    }

    /// Takes out the lost probes that crossed a place, with their votes.
    pub fn take(&mut self, place: &Place) -> Vec<(&'a Probe, f64)> {
        let (on, rest) = std::mem::take(&mut self.lost).into_iter().partition(|(probe, _)| place.is_on(probe));
        self.lost = rest;
        on
    }

    /// Places that explain losses, the best first.
    pub fn places(&self, fabric: &Fabric) -> Vec<Place> {
        let mut egress: BTreeMap<Suspect, BTreeSet<usize>> = BTreeMap::new();
        for port in self.lost.iter().flat_map(|(probe, _)| probe.links.iter().copied()) {
            for suspect in suspects(fabric, port) {
                egress.entry(suspect).or_default().insert(port);
            }
        }
        let mut places: Vec<Place> = Vec::new();
        for (suspect, found) in egress {
            let peers = |port: &usize| fabric.ports.list[*port].peer;
            // Ports without losses speak against a whole switch or host.
            let all: Vec<usize> = match suspect {
                Suspect::Switch(node) => fabric.ports.of_node(node).to_vec(),
                Suspect::Host(node) => {
                    let own = fabric.ports.of_node(node);
                    own.iter().copied().chain(own.iter().filter_map(peers)).collect()
                }
                Suspect::Cable(_) => found.into_iter().collect(),
            };
            // A cable may lose packets in one direction only.
            let single = matches!(suspect, Suspect::Cable(_)) && all.len() == 2;
            let sets = [all.clone()].into_iter().chain(all.iter().filter(|_| single).map(|port| vec![*port]));
            let each = sets.map(|egress| self.place(suspect, egress));
            places.extend(each.reduce(|best, next| if next.gain > best.gain { next } else { best }));
        }
        places.retain(|place| place.gain > 0.0);
        places.sort_by(|a, b| b.gain.total_cmp(&a.gain));
        places
    }

    fn place(&self, suspect: Suspect, egress: Vec<usize>) -> Place {
        let sum =
            |which: fn(&[f64; 2]) -> f64| egress.iter().filter_map(|p| self.answered.get(p)).map(which).sum::<f64>();
        let passed = sum(|[all, _]| *all);
        let probes = if egress.len() > 1 { passed - sum(|[_, second]| *second) } else { passed };
        let mut place = Place { suspect, egress, votes: 0.0, passed, probes, gain: 0.0 };
        // A probe that crosses it twice is as likely to be lost there as two others.
        let crossings = |probe: &Probe| probe.links.iter().filter(|link| place.egress.contains(link)).count();
        let on: Vec<(f64, usize)> =
            self.lost.iter().map(|(p, vote)| (*vote, crossings(p))).filter(|v| v.1 > 0).collect();
        let votes: f64 = on.iter().map(|(vote, _)| vote).sum();
        let loss = votes / (votes + passed).max(1.0);
        if loss > USUAL_LOSS {
            let of_lost = on.iter().map(|(vote, times)| vote * (loss * *times as f64 / USUAL_LOSS).ln()).sum::<f64>();
            place.gain = of_lost + passed * ((1.0 - loss.min(0.99)) / (1.0 - USUAL_LOSS)).ln();
        }
        place.votes = votes;
        place
    }
}

/// What an egress port is part of.
fn suspects(fabric: &Fabric, port: usize) -> impl Iterator<Item = Suspect> {
    let ends = [Some(fabric.ports.list[port].end.node), fabric.peer_node(port)];
    let is_host = |node: &usize| fabric.topology.nodes[*node].role == Role::Host;
    let host = ends.into_iter().flatten().find(is_host).map(Suspect::Host);
    let peer = fabric.ports.list[port].peer;
    let cable = fabric.is_between_switches(port).then(|| Suspect::Cable(peer.map_or(port, |peer| peer.min(port))));
    let switch = ends[0].filter(|node| !is_host(node)).map(Suspect::Switch);
    [host, cable, switch].into_iter().flatten()
}

/// Gives each event one vote, shared by its lost probes: those in the same second that have a host in common.
fn weighted<'a>(fabric: &Fabric, lost: Vec<&'a Probe>) -> Vec<(&'a Probe, f64)> {
    let node = |port: usize| fabric.ports.list[port].end.node;
    let mut of_second: BTreeMap<i64, Vec<&Probe>> = BTreeMap::new();
    lost.into_iter().for_each(|probe| of_second.entry(probe.sent_ns.div_euclid(EVENT_NS)).or_default().push(probe));
    let mut all = Vec::new();
    for probes in of_second.into_values() {
        let mut events: Vec<(BTreeSet<usize>, Vec<&Probe>)> = Vec::new();
        for probe in probes {
            let mut event = (probe.ends.map(node).into_iter().collect::<BTreeSet<usize>>(), vec![probe]);
            let (same, apart): (Vec<_>, Vec<_>) = events.into_iter().partition(|other| !other.0.is_disjoint(&event.0));
            for other in same {
                event.0.extend(other.0);
                event.1.extend(other.1);
            }
            events = apart;
            events.push(event);
        }
        for (_, probes) in events {
            let vote = 1.0 / probes.len() as f64;
            all.extend(probes.into_iter().map(|probe| (probe, vote)));
        }
    }
    all
}

/// The way of a probe, there or back, that crosses one of these egress ports.
pub(crate) fn path_over(fabric: &Fabric, probe: &Probe, egress: &[usize]) -> Option<Path> {
    let end = probe.links.iter().position(|hop| fabric.ports.list[*hop].peer == Some(probe.ends[1]))? + 1;
    let (there, back) = probe.links.split_at(end);
    let hops = [there, back].into_iter().find(|hops| hops.iter().any(|hop| egress.contains(hop)))?;
    Some(Path { hops: hops.to_vec(), source: PathSource::Traced })
}
