//! The fabric of a made-up fleet: hosts with a NIC on each rail, leaves of one rail, spines of one rail.

use crate::random::Random;
use serde_json::{Value, json};

/// Hosts below a leaf.
const BELOW: usize = 16;
/// Rate of a link, Gb/s.
pub const RATE_GBPS: u32 = 400;
/// The same in bytes per second.
pub const RATE: f64 = RATE_GBPS as f64 * 1.25e8;

/// One end of a cable.
#[derive(Clone)]
pub struct End {
    pub node: String,
    pub port: usize,
    /// Index of the host, if it is one.
    pub host: Option<usize>,
}

/// Nodes and cables. A direction of a cable is `2 * cable` from its first end to its second, and one more for the way
/// back; host cables come first, by host and rail, and begin at the host.
pub struct Fabric {
    pub hosts: usize,
    pub rails: usize,
    /// Cables of a leaf to its spines.
    pub uplinks: usize,
    spines: usize,
    pub cables: Vec<[End; 2]>,
}

impl Fabric {
    /// A fabric of 32 or 64 hosts with one, two or four rails, some with half as many uplinks as hosts.
    pub fn new(random: &mut Random) -> Self {
        let hosts = [32, 64][random.below(2)];
        let rails = [1, 2, 4][random.below(3)];
        let uplinks = [BELOW, BELOW / 2][random.below(2)];
        let spines = [2, 4][random.below(2)];
        let mut cables = Vec::new();
        for host in 0..hosts {
            for rail in 0..rails {
                let nic = End { node: format!("n{host:03}"), port: rail + 1, host: Some(host) };
                let leaf = End { node: format!("leaf{}-{rail}", host / BELOW), port: host % BELOW + 1, host: None };
                cables.push([nic, leaf]);
            }
        }
        for leaf in 0..hosts / BELOW * rails {
            let (group, rail) = (leaf / rails, leaf % rails);
            for uplink in 0..uplinks {
                let up = End { node: format!("leaf{group}-{rail}"), port: BELOW + uplink + 1, host: None };
                let spine = format!("spine{rail}-{}", uplink % spines);
                let down = End { node: spine, port: group * (uplinks / spines) + uplink / spines + 1, host: None };
                cables.push([up, down]);
            }
        }
        Self { hosts, rails, uplinks, spines, cables }
    }

    /// Number of directions of all cables.
    pub fn directions(&self) -> usize {
        2 * self.cables.len()
    }

    /// Directions from one host to another on a rail. `hash` chooses among parallel ways.
    pub fn path(&self, from: usize, to: usize, rail: usize, hash: usize) -> Vec<usize> {
        let [up, down] = [2 * (from * self.rails + rail), 2 * (to * self.rails + rail) + 1];
        if from / BELOW == to / BELOW {
            return vec![up, down];
        }
        let first = |host: usize| self.hosts * self.rails + (host / BELOW * self.rails + rail) * self.uplinks;
        let uplink = hash % self.uplinks;
        // Any cable of the same spine leads down.
        let parallel = self.uplinks / self.spines;
        let downlink = uplink % self.spines + self.spines * (hash / self.uplinks % parallel);
        vec![up, 2 * (first(from) + uplink), 2 * (first(to) + downlink) + 1, down]
    }

    /// The other direction of the same cable.
    pub fn back(direction: usize) -> usize {
        direction ^ 1
    }

    /// `topology.json`.
    pub fn topology(&self) -> Value {
        let ids = |hosts: bool| {
            let mut ids: Vec<&str> = self
                .cables
                .iter()
                .flatten()
                .filter(|end| end.host.is_some() == hosts)
                .map(|end| end.node.as_str())
                .collect();
            ids.sort_unstable();
            ids.dedup();
            ids.into_iter().map(|id| json!({ "id": id })).collect::<Vec<_>>()
        };
        let rail = |cable: usize| {
            if cable < self.hosts * self.rails {
                cable % self.rails
            } else {
                (cable - self.hosts * self.rails) / self.uplinks % self.rails
            }
        };
        let links = self.cables.iter().enumerate().map(|(at, [a, b])| {
            json!({
                "a": a.node, "a_port": a.port.to_string(), "b": b.node, "b_port": b.port.to_string(),
                "rate_gbps": RATE_GBPS, "rail": rail(at).to_string(),
            })
        });
        json!({ "hosts": ids(true), "switches": ids(false), "links": links.collect::<Vec<_>>() })
    }
}
