//! Paths from tables: the switches' own next ports, and where they route adaptively, all shortest ways.

use crate::tables::{Port, Switch, Tables};
use fabriclens_base::infiniband::hex;
use fabriclens_forwarding_tables::AdapterPort;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Switches of a path, beyond which it is taken for a loop.
const MOST_HOPS: usize = 64;
/// Different paths of a pair that are told; more say no more.
const MOST_PATHS: usize = 64;

/// Switches that are visited in search of them: a malicious sender may tell tables with any number of dead ends.
const MOST_STEPS: usize = 4096;

/// An egress port of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// Host or switch.
    pub node: Arc<str>,
    /// Egress port as in samples.
    pub port: Arc<str>,
    /// Port by which packets come into the node; `None` at the sender.
    pub ingress: Option<u32>,
    /// Virtual lanes at this port, if they were read.
    pub lanes: Option<HopLanes>,
}

/// Virtual lanes of packets through a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HopLanes {
    /// Virtual lane of each service level, four bits each; service level 0 in the lowest.
    by_service_level: u64,
    /// Whether they were read for the path's own ingress port; otherwise for another one.
    pub is_exact: bool,
}

impl HopLanes {
    /// Virtual lane of each service level.
    pub fn all(self) -> [u8; 16] {
        std::array::from_fn(|level| (self.by_service_level >> (4 * level) & 15) as u8)
    }
}

/// The paths between two adapter ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairPaths {
    /// Paths, each from the sender's port to the egress port to the receiver; at least one.
    pub all: Vec<Vec<Hop>>,
    /// A switch with a choice routes adaptively, or does not say: packets take one of the paths, and may take yet another one.
    pub is_adaptive: bool,
    /// The receiver has several LIDs with different paths, and the sender chooses one of them.
    pub has_several_lids: bool,
}

impl PairPaths {
    /// Whether packets take the one path.
    pub fn is_exact(&self) -> bool {
        self.all.len() == 1 && !self.is_adaptive
    }
}

/// Why there is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The tables of no subnet are known.
    #[error("no reader has told the forwarding tables of an InfiniBand subnet (docs/infiniband.md)")]
    NoTables,
    /// A port is in no subnet that is known.
    #[error("{0} port {1} is in no InfiniBand subnet whose forwarding tables are known")]
    UnknownPort(String, String),
    /// The two ports are in different subnets.
    #[error("the two ports are in different subnets")]
    DifferentSubnets,
    /// An adapter port is connected to no known switch.
    #[error("{0} port {1} is connected to no known switch")]
    NotAttached(Arc<str>, Arc<str>),
    /// A switch has no route.
    #[error("{switch} has no route to LID {lid}")]
    NoRoute {
        /// The switch.
        switch: Arc<str>,
        /// Destination.
        lid: u16,
    },
    /// A port leads nowhere, or to a node that is not the receiver and forwards nothing.
    #[error("the path to LID {lid} ends at {switch} port {port}")]
    DeadEnd {
        /// The last switch.
        switch: Arc<str>,
        /// Its egress port.
        port: u32,
        /// Destination.
        lid: u16,
    },
    /// The tables lead in a circle.
    #[error("the forwarding tables lead in a circle on the way to LID {0}")]
    Loop(u16),
}

/// Sender, receiver, and the switch port of each.
pub(crate) struct Pair<'a> {
    pub from: &'a AdapterPort,
    pub to: &'a AdapterPort,
    /// Where the sender is connected.
    pub first: Port,
    /// Where the receiver is connected.
    pub last: Port,
}

/// Ports of a path: ingress, switch, egress.
type Way = Vec<(u32, u64, u32)>;

/// Number of links between each switch and one of them.
pub(crate) type Distances = BTreeMap<u64, usize>;

/// All paths of a pair. `distances` are those to the receiver's switch.
pub(crate) fn paths(
    tables: &Tables,
    pair: &Pair<'_>,
    distances: impl FnOnce() -> Arc<Distances>,
) -> Result<PairPaths, PathError> {
    let lids = lids(pair.to);
    let mut ways: BTreeSet<Way> = BTreeSet::new();
    for lid in lids.clone() {
        ways.insert(way(tables, pair, lid)?);
    }
    let has_several_lids = ways.len() > 1;
    // At the receiver's own switch there is no choice.
    let choices =
        |way: &Way| way.iter().any(|(_, switch, _)| *switch != pair.last.0 && tables.switches[switch].is_adaptive);
    let is_adaptive = ways.iter().any(choices);
    if is_adaptive {
        let distances = distances();
        lids.for_each(|lid| spread(tables, pair, lid, &distances, &mut ways));
    }
    let all = ways.iter().map(|way| hops(tables, pair, way)).collect();
    Ok(PairPaths { all, is_adaptive, has_several_lids })
}

fn lids(port: &AdapterPort) -> impl Iterator<Item = u16> + Clone + use<> {
    let base = u16::try_from(port.lid).unwrap_or(0);
    (0..1_u16 << port.lmc.min(7)).map(move |n| base.saturating_add(n))
}

/// The way by the tables alone.
fn way(tables: &Tables, pair: &Pair<'_>, lid: u16) -> Result<Way, PathError> {
    let mut way = Way::new();
    let (mut at, mut ingress) = pair.first;
    loop {
        // A cable may lead to a switch that has not answered: the port before it then leads nowhere.
        let Some(switch) = tables.switches.get(&at) else {
            return Err(PathError::NoRoute { switch: hex(at).into(), lid });
        };
        let egress = switch.egress(lid).ok_or_else(|| PathError::NoRoute { switch: Arc::clone(&switch.name), lid })?;
        way.push((ingress, at, egress));
        let far = switch.far(egress);
        if far == Some((pair.to.guid, pair.to.port)) {
            return Ok(way);
        }
        let next = far.filter(|(guid, _)| tables.switches.contains_key(guid));
        let dead_end = || PathError::DeadEnd { switch: Arc::clone(&switch.name), port: egress, lid };
        (at, ingress) = next.ok_or_else(dead_end)?;
        if way.len() >= MOST_HOPS {
            return Err(PathError::Loop(lid));
        }
    }
}

/// Distances to a switch.
pub(crate) fn distances(tables: &Tables, to: u64) -> Distances {
    let mut distances = BTreeMap::from([(to, 0)]);
    let mut next = VecDeque::from([to]);
    while let Some(at) = next.pop_front() {
        let far = distances[&at] + 1;
        for (_, (guid, _)) in tables.switches[&at].cables() {
            if tables.switches.contains_key(&guid) && !distances.contains_key(&guid) {
                distances.insert(guid, far);
                next.push_back(guid);
            }
        }
    }
    distances
}

/// Adds the shortest ways that adaptive switches may choose.
fn spread(tables: &Tables, pair: &Pair<'_>, lid: u16, distances: &Distances, ways: &mut BTreeSet<Way>) {
    let mut open: Vec<(Way, Port)> = vec![(Way::new(), pair.first)];
    for _ in 0..MOST_STEPS {
        let Some((way, (at, ingress))) = open.pop().filter(|_| ways.len() < MOST_PATHS) else { return };
        let Some(switch) = tables.switches.get(&at) else { continue };
        let with = |egress: u32| {
            let mut way = way.clone();
            way.push((ingress, at, egress));
            way
        };
        if at == pair.last.0 {
            ways.insert(with(pair.last.1));
            continue;
        }
        let Some(distance) = distances.get(&at).filter(|_| way.len() < MOST_HOPS) else { continue };
        let nearer = |(guid, _): &Port| distances.get(guid).is_some_and(|other| other < distance);
        let own = switch.egress(lid);
        let may_choose = |port: u32| switch.is_adaptive || own == Some(port);
        open.extend(
            switch.cables().filter(|(port, far)| may_choose(*port) && nearer(far)).map(|(port, far)| (with(port), far)),
        );
    }
}

fn hops(tables: &Tables, pair: &Pair<'_>, way: &Way) -> Vec<Hop> {
    let sender = Hop { node: host(pair.from), port: pair.from.name.as_str().into(), ingress: None, lanes: None };
    let hop = |(ingress, guid, egress): &(u32, u64, u32)| {
        let switch: &Switch = &tables.switches[guid];
        let lanes = switch.lanes(*ingress, *egress);
        let lanes = lanes.map(|(by_service_level, is_exact)| HopLanes { by_service_level, is_exact });
        Hop { node: Arc::clone(&switch.name), port: egress.to_string().into(), ingress: Some(*ingress), lanes }
    };
    [sender].into_iter().chain(way.iter().map(hop)).collect()
}

/// Host of an adapter port; its GUID if it has no name.
pub(crate) fn host(port: &AdapterPort) -> Arc<str> {
    if port.host.is_empty() { hex(port.guid).into() } else { port.host.as_str().into() }
}
