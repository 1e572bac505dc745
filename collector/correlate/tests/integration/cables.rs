//! Cables inferred from what both ends send and receive.

use crate::common::{USUAL, fabric};
use fabriclens_correlate::topology::{HostNames, TopologySource, merge};
use fabriclens_correlate::{Fabric, Frame, IncidentTracker, Provenance, Role, Signal, Thresholds, Topology};
use std::collections::BTreeSet;

const S: i64 = 1_000_000_000;

/// A reproducible number in [0, 1).
fn chance(n: i64) -> f64 {
    let mut x = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 31;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x >> 40) as f64 / (1 << 24) as f64
}

/// Traffic of a link: a level of its own, which varies from second to second.
fn own(second: i64, link: usize, back: bool) -> f64 {
    let n = link as i64 * 2 + i64::from(back);
    USUAL * (0.5 + 0.1 * chance(n) + 0.5 * chance(second * 1000 + n))
}

struct Lab {
    truth: Fabric,
    watch: IncidentTracker,
    second: i64,
    told: Option<TopologySource>,
}

impl Lab {
    /// A fabric without known cables.
    fn new() -> Self {
        let truth = fabric();
        let mut bare = truth.clone();
        bare.rewire(&Topology::new(truth.topology.nodes.clone(), Vec::new()));
        Self { truth, watch: IncidentTracker::new(bare, Thresholds::default()), second: 0, told: None }
    }

    /// Seconds of traffic by second, link and direction; the other end is sampled `skew` of a second later.
    fn run(&mut self, seconds: i64, skew: f64, traffic: impl Fn(i64, usize, bool) -> f64) {
        for second in self.second..self.second + seconds {
            let mut frame = Frame::new(second * S);
            for (at, link) in self.truth.topology.links.iter().enumerate() {
                let [a, b] = link.ends.each_ref().map(|end| self.truth.ports.at(end).unwrap());
                let late = |back| (1.0 - skew) * traffic(second, at, back) + skew * traffic(second + 1, at, back);
                for (port, signal, value) in [
                    (a, Signal::Tx, traffic(second, at, false)),
                    (a, Signal::Rx, traffic(second, at, true)),
                    (b, Signal::Tx, late(true)),
                    (b, Signal::Rx, late(false)),
                ] {
                    frame.set(signal, port, value);
                }
            }
            self.watch.push(frame);
            let is_switch = |fabric: &Fabric, node: usize| fabric.topology.nodes[node].role != Role::Host;
            self.told = self.watch.cables(is_switch).or(self.told.take());
        }
        self.second += seconds;
    }

    /// Known cables.
    fn known(&self) -> BTreeSet<[String; 2]> {
        let cables = self.told.iter().flat_map(|told| &told.cables);
        let name = |side: &fabriclens_correlate::topology::CableEnd| format!("{} {}", side.node, side.port);
        cables
            .map(|cable| {
                assert_eq!(cable.known, Provenance::Counters);
                let mut ends = cable.sides.each_ref().map(name);
                ends.sort();
                ends
            })
            .collect()
    }

    fn all(&self) -> BTreeSet<[String; 2]> {
        let nodes = &self.truth.topology.nodes;
        let ends = |l: &fabriclens_correlate::Link| {
            let mut ends = l.ends.each_ref().map(|end| format!("{} {}", nodes[end.node].name, end.port));
            ends.sort();
            ends
        };
        self.truth.topology.links.iter().map(ends).collect()
    }
}

#[test]
fn equal_traffic_infers_cables() {
    for skew in [0.0, 0.2] {
        let mut lab = Lab::new();
        lab.run(35, skew, own);
        assert_eq!(lab.known().len(), 0, "seen twice is not known");
        lab.run(30, skew, own);
        assert_eq!(lab.known(), lab.all(), "skew {skew}");
    }
    let mut lab = Lab::new();
    lab.run(65, 0.0, own);
    let topology = merge(&[lab.told.clone().unwrap()], &HostNames::default());
    let role = |name: &str| topology.nodes[topology.node(name).unwrap()].role;
    assert_eq!([role("h0"), role("leaf0"), role("spine0")], [Role::Host, Role::Leaf, Role::Spine]);
}

#[test]
fn ambiguous_or_idle_ports_get_no_cable() {
    let alike: fn(i64, usize, bool) -> f64 = |second, _, _| USUAL * (0.5 + 0.5 * chance(second));
    let hum: fn(i64, usize, bool) -> f64 = |second, link, back| own(second, link, back) / USUAL * 1e4;
    for traffic in [alike, hum] {
        let mut lab = Lab::new();
        lab.run(120, 0.1, traffic);
        assert_eq!(lab.known().len(), 0);
    }
}

#[test]
fn moved_cable_is_found_again() {
    let mut lab = Lab::new();
    lab.run(65, 0.0, own);
    let before = lab.known();
    // h0 and h1 swap their ports.
    let mut moved = lab.truth.topology.clone();
    let [a, b] = [0, 1].map(|link: usize| moved.links[link].ends[1].clone());
    (moved.links[0].ends[1], moved.links[1].ends[1]) = (b, a);
    lab.truth.rewire(&moved);
    lab.run(55, 0.0, own);
    assert_eq!((lab.known().len(), lab.known().is_subset(&before)), (before.len() - 2, true), "{:?}", lab.known());
    lab.run(60, 0.0, own);
    assert_eq!(lab.known(), lab.all());
}

#[test]
fn better_sources_win_and_idle_cables_stay() {
    let mut lab = Lab::new();
    lab.run(65, 0.0, own);
    lab.run(60, 0.0, |second, link, back| if link == 2 { 0.0 } else { own(second, link, back) });
    assert_eq!(lab.known(), lab.all());
    let mut some = lab.truth.topology.clone();
    some.links.truncate(1);
    lab.watch.rewire(&some);
    lab.run(20, 0.0, own);
    assert_eq!(lab.known().len(), lab.all().len() - 1);
}
