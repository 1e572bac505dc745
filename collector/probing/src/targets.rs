//! Candidates of a plan: pairs of ports that are worth tracing and probing, without bounds on rates.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use fabriclens_correlate::{HostPort, Role, Topology};
use fabriclens_probe_plan::{PairClass, ProbedPort, SOURCE_PORTS};

use crate::demand::Demand;
use crate::labels::{choose, covering};
use crate::registry::Offer;

/// Least targets of a port in the mesh of its leaf: with fewer, one host that fails looks like half of the network.
const MESH_LEAST: usize = 4;
/// Targets of a port in the mesh of its leaf. A ring of neighbors: each port is a target as often as it has targets.
const MESH: usize = 8;
/// Other leaves that a port probes.
const REMOTE_LEAVES: usize = 5;
/// Pairs of a port that jobs use, those with most bytes first.
const JOB_TARGETS: usize = 16;
/// Flows of jobs in the whole fabric: each is a path that the collector keeps.
const JOB_FLOWS: usize = 262_144;
/// Probes per second of a target, before bounds: of a mesh, between leaves, of a job, on suspicion.
const MESH_RATE: f64 = 1.0;
const REMOTE_RATE: f64 = 1.0;
const JOB_RATE: f64 = 1.0;
const SUSPECT_RATE: f64 = 10.0;
/// Interval at which a source port is traced again, seconds: of a job, of others, on suspicion.
const JOB_TRACE_S: f64 = 60.0;
const TRACE_S: f64 = 120.0;
const SUSPECT_TRACE_S: f64 = 20.0;

/// Why a port that was offered is in no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Unused {
    /// It has neither an address nor a LID.
    NoAddress,
    /// Its address is not that of one host.
    NotUnicast,
    /// Another port claims its address.
    AddressShared,
}

impl Unused {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::NoAddress, Self::NotUnicast, Self::AddressShared];

    /// Label value.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoAddress => "no_address",
            Self::NotUnicast => "not_unicast",
            Self::AddressShared => "address_shared",
        }
    }

    /// What it means and what to do.
    pub fn words(self) -> &'static str {
        match self {
            Self::NoAddress => "the port has neither a RoCE v2 address nor a LID; give its interface an IP address",
            Self::NotUnicast => "the port's address is not that of one host; correct the address of its interface",
            Self::AddressShared => "another port claims the same address; none of them is used until one is corrected",
        }
    }
}

/// A port that plans use.
#[derive(Clone, Debug)]
pub(crate) struct PlanPort {
    /// Host name.
    pub host: Arc<str>,
    ports: Arc<[ProbedPort]>,
    at: usize,
    /// Index of its leaf in the topology, if known.
    pub leaf: Option<usize>,
    /// Nodes of one network have one number; ports without a known leaf have none.
    network: Option<usize>,
    /// Whether its losses or slowness must be placed.
    is_suspect: bool,
}

impl PlanPort {
    /// What the agent told of it.
    pub fn port(&self) -> &ProbedPort {
        &self.ports[self.at]
    }

    fn reaches(&self, other: &Self) -> bool {
        let (own, far) = (self.port(), other.port());
        let ip = !own.address.is_empty() && own.address.len() == far.address.len();
        let lid = own.lid != 0 && far.lid != 0 && self.network.is_some() && self.network == other.network;
        self.host != other.host && (ip || lid)
    }
}

/// A pair of ports to trace and probe.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// Index of the port that sends.
    pub from: usize,
    /// Index of the port that answers.
    pub to: usize,
    /// Source ports; empty on InfiniBand.
    pub source_ports: Vec<u16>,
    /// Those of them whose paths cross a suspect link.
    pub suspect_ports: Vec<u16>,
    /// Class.
    pub class: PairClass,
    /// Whether it is to place a loss or slowness.
    pub is_suspect: bool,
    /// Probes per second; 0: none.
    pub rate: f64,
    /// Whether each probe has a TCP twin.
    pub twin: bool,
    /// Interval of tracing each source port, seconds; infinite: none.
    pub trace_s: f64,
}

/// The ports of all offers.
#[derive(Default)]
pub(crate) struct PlanPorts {
    /// Ports that plans use, in order of host and name.
    pub list: Vec<PlanPort>,
    /// Ports that plans do not use.
    pub unused: Vec<(Arc<str>, String, Unused)>,
    /// Ways from a leaf to other switches, by its index in the topology.
    uplinks: HashMap<usize, usize>,
}

impl PlanPorts {
    /// Sorts out the ports of all offers.
    pub fn new(offers: &[Offer], topology: &Topology, demand: &Demand) -> Self {
        let shared = shared_addresses(offers);
        let (leaves, uplinks) = leaves(topology);
        let networks = networks(topology);
        let mut all = Self { uplinks, ..Self::default() };
        for offer in offers {
            let node = topology.node(&offer.host);
            for (at, port) in offer.ports.iter().enumerate() {
                let unused = match address(&port.address) {
                    None if port.lid == 0 => Some(Unused::NoAddress),
                    Some(ip) if !is_unicast(ip) => Some(Unused::NotUnicast),
                    Some(ip) if shared.contains(&ip) => Some(Unused::AddressShared),
                    _ => None,
                };
                if let Some(why) = unused {
                    all.unused.push((offer.host.clone(), port.name.clone(), why));
                    continue;
                }
                let leaf = node.and_then(|node| leaves.get(&(node, port.name.as_str()))).copied();
                let is_suspect = !demand.suspects.is_empty()
                    && demand.suspects.contains(&(offer.host.to_string(), port.name.clone()));
                let network = leaf.map(|leaf| networks[leaf]);
                let ports = offer.ports.clone();
                all.list.push(PlanPort { host: offer.host.clone(), ports, at, leaf, network, is_suspect });
            }
        }
        all.drop_shared_lids();
        all
    }

    /// LIDs are unique in one network only.
    fn drop_shared_lids(&mut self) {
        let lid = |port: &PlanPort| Some((port.network?, port.port().lid)).filter(|_| port.port().address.is_empty());
        let mut count: HashMap<(usize, u32), usize> = HashMap::new();
        self.list.iter().filter_map(lid).for_each(|lid| *count.entry(lid).or_default() += 1);
        let is_shared = |port: &PlanPort| lid(port).is_some_and(|lid| count[&lid] > 1);
        let (shared, list): (Vec<PlanPort>, Vec<PlanPort>) =
            std::mem::take(&mut self.list).into_iter().partition(is_shared);
        self.list = list;
        let why = |port: PlanPort| (port.host.clone(), port.port().name.clone(), Unused::AddressShared);
        self.unused.extend(shared.into_iter().map(why));
    }

    /// Candidates of all kinds, each pair of ports once: a job's before others. `paths` is the number of parallel paths between
    /// leaves where the topology does not tell it.
    pub fn drafts(&self, demand: &Demand, paths: usize, hour: u64) -> Vec<Draft> {
        let mut all: BTreeMap<(usize, usize), Draft> = BTreeMap::new();
        let (by_leaf, unknown) = self.by_leaf();
        let remote = self.remote(&by_leaf, unknown, paths, hour);
        for draft in self.jobs(demand).into_iter().chain(remote).chain(self.mesh(&by_leaf, hour)) {
            all.entry((draft.from, draft.to)).or_insert(draft);
        }
        self.answers(&mut all);
        self.suspect(demand, &mut all);
        all.into_values().collect()
    }

    /// Probes pairs over suspect links more often; also those that are only traced otherwise.
    fn suspect(&self, demand: &Demand, all: &mut BTreeMap<(usize, usize), Draft>) {
        if demand.suspect_flows.is_empty() {
            return;
        }
        let index = self.index();
        let at = |(host, port): &HostPort| index.get(&(host.as_str(), port.as_str())).copied();
        for ((from, to), ports) in &demand.suspect_flows {
            let Some(draft) = at(from).zip(at(to)).and_then(|pair| all.get_mut(&pair)) else { continue };
            let (own, far) = (self.list[draft.from].port(), self.list[draft.to].port());
            draft.is_suspect = true;
            if own.queue_pair != 0 && far.queue_pair != 0 {
                draft.rate = SUSPECT_RATE;
                draft.twin = !draft.source_ports.is_empty() && far.tcp_port != 0;
            }
            draft.trace_s = draft.trace_s.min(SUSPECT_TRACE_S);
            draft.suspect_ports = ports.iter().copied().filter(|port| draft.source_ports.contains(port)).collect();
        }
    }

    /// Positions of ports by host and name.
    fn index(&self) -> HashMap<(&str, &str), usize> {
        self.list.iter().enumerate().map(|(at, port)| ((&*port.host, port.port().name.as_str()), at)).collect()
    }

    fn draft(&self, from: usize, to: usize, source_ports: Vec<u16>, class: PairClass) -> Draft {
        let (own, far) = (self.list[from].port(), self.list[to].port());
        let is_suspect = self.list[from].is_suspect || self.list[to].is_suspect;
        let is_ip = !own.address.is_empty() && !far.address.is_empty();
        let rate = match class {
            _ if own.queue_pair == 0 || far.queue_pair == 0 => 0.0,
            _ if is_suspect => SUSPECT_RATE,
            PairClass::Job => JOB_RATE,
            PairClass::SameLeaf => MESH_RATE,
            PairClass::CrossLeaf | PairClass::Unknown => REMOTE_RATE,
        };
        let trace_s = match class {
            _ if !own.traces || !is_ip => f64::INFINITY,
            _ if is_suspect => SUSPECT_TRACE_S,
            PairClass::Job => JOB_TRACE_S,
            _ => TRACE_S,
        };
        let twin = rate > 0.0 && is_ip && far.tcp_port != 0 && (is_suspect || class == PairClass::Job);
        // A port whose driver fixes its source ports cannot probe from others.
        let mut source_ports = if is_ip { source_ports } else { Vec::new() };
        if is_ip {
            for fixed in own.source_ports.iter().filter_map(|port| u16::try_from(*port).ok()) {
                if !source_ports.contains(&fixed) {
                    source_ports.push(fixed);
                }
            }
        }
        source_ports.truncate(SOURCE_PORTS);
        Draft { from, to, source_ports, suspect_ports: Vec::new(), class, is_suspect, rate, twin, trace_s }
    }

    /// Ports by leaf; those without a known leaf are apart.
    fn by_leaf(&self) -> (BTreeMap<usize, Vec<usize>>, Vec<usize>) {
        let (mut of, mut unknown): (BTreeMap<usize, Vec<usize>>, _) = (BTreeMap::new(), Vec::new());
        for (at, port) in self.list.iter().enumerate() {
            match port.leaf {
                Some(leaf) => of.entry(leaf).or_default().push(at),
                None => unknown.push(at),
            }
        }
        (of, unknown)
    }

    fn mesh(&self, by_leaf: &BTreeMap<usize, Vec<usize>>, hour: u64) -> Vec<Draft> {
        let mut all = Vec::new();
        for ports in by_leaf.values() {
            for (at, from) in ports.iter().enumerate() {
                let around = (1..ports.len()).map(|next| ports[(at + next) % ports.len()]);
                let others: Vec<usize> =
                    around.filter(|to| self.list[*from].reaches(&self.list[*to])).take(MESH).collect();
                if others.len() >= MESH_LEAST {
                    let one = |to: usize| self.draft(*from, to, self.ports(*from, to, 1, hour), PairClass::SameLeaf);
                    all.extend(others.into_iter().map(one));
                }
            }
        }
        all
    }

    fn remote(
        &self,
        by_leaf: &BTreeMap<usize, Vec<usize>>,
        unknown: Vec<usize>,
        paths: usize,
        hour: u64,
    ) -> Vec<Draft> {
        let leaves: Vec<(usize, &Vec<usize>)> = by_leaf.iter().map(|(leaf, ports)| (*leaf, ports)).collect();
        let others = leaves.len().saturating_sub(1);
        let mut all = Vec::new();
        for (here, (leaf, ports)) in leaves.iter().enumerate() {
            let own = REMOTE_LEAVES.min(others);
            let paths = self.uplinks.get(leaf).copied().filter(|ways| *ways > 0).unwrap_or(paths);
            // The source ports of all pairs of the leaf cover its uplinks together.
            let each = covering(paths).div_ceil((own * ports.len()).max(1));
            for (at, from) in ports.iter().enumerate() {
                for n in 0..own {
                    let (_, there) = leaves[(here + 1 + (at * REMOTE_LEAVES + n) % others) % leaves.len()];
                    let around = (0..there.len()).map(|next| there[(at + 1 + n + next) % there.len()]);
                    if let Some(to) = around.into_iter().find(|to| self.list[*from].reaches(&self.list[*to])) {
                        let ports = self.ports(*from, to, each, hour);
                        all.push(self.draft(*from, to, ports, PairClass::CrossLeaf));
                    }
                }
            }
        }
        // Which ports are on one leaf becomes known by tracing.
        let known: Vec<usize> = by_leaf.values().flatten().copied().collect();
        let around: Vec<usize> = unknown.iter().chain(&known).copied().collect();
        let each = covering(paths).div_ceil(REMOTE_LEAVES);
        for (at, from) in unknown.iter().enumerate() {
            let stride = (around.len() / (REMOTE_LEAVES + 1)).max(1);
            let chosen: BTreeSet<usize> = (1..=REMOTE_LEAVES)
                .map(|n| around[(at + n * stride) % around.len()])
                .filter(|to| self.list[*from].reaches(&self.list[*to]))
                .collect();
            let one = |to: usize| self.draft(*from, to, self.ports(*from, to, each, hour), PairClass::Unknown);
            all.extend(chosen.into_iter().map(one));
        }
        all
    }

    /// Pairs that running jobs use, with the source ports of their queue pairs, those with most bytes first.
    fn jobs(&self, demand: &Demand) -> Vec<Draft> {
        let index = self.index();
        let mut pairs: Vec<(f64, usize, usize, Vec<u16>)> = Vec::new();
        for ((host, port), flows) in &demand.flows {
            let Some(from) = index.get(&(host.as_str(), port.as_str())).copied() else { continue };
            let mut of: BTreeMap<usize, (usize, BTreeSet<u16>)> = BTreeMap::new();
            for flow in flows.values() {
                let Some(to) = index.get(&(flow.to.node.as_str(), flow.to.port.as_str())).copied() else { continue };
                if self.list[from].reaches(&self.list[to]) {
                    let (count, ports) = of.entry(to).or_default();
                    *count += 1;
                    ports.extend(flow.source_port);
                }
            }
            let bytes = |at: usize, way: usize| {
                let port = &self.list[at];
                demand.bytes.get(&(port.host.to_string(), port.port().name.clone())).map_or(0.0, |both| both[way])
            };
            let sent = bytes(from, 0);
            let mut own: Vec<_> = of
                .into_iter()
                .map(|(to, (count, ports))| {
                    let part = sent * count as f64 / flows.len() as f64;
                    (part.min(bytes(to, 1)), from, to, ports.into_iter().take(SOURCE_PORTS).collect())
                })
                .collect();
            own.sort_by(|a: &(f64, usize, usize, Vec<u16>), b| b.0.total_cmp(&a.0));
            own.truncate(JOB_TARGETS);
            pairs.extend(own);
        }
        let is_suspect =
            |pair: &(f64, usize, usize, Vec<u16>)| [pair.1, pair.2].iter().any(|at| self.list[*at].is_suspect);
        pairs.sort_by(|a, b| is_suspect(b).cmp(&is_suspect(a)).then(b.0.total_cmp(&a.0)));
        let mut flows = 0;
        let fits = |pair: &(f64, usize, usize, Vec<u16>)| {
            flows += pair.3.len().max(1);
            flows <= JOB_FLOWS
        };
        let drafts = pairs.into_iter().take_while(fits);
        drafts.map(|(_, from, to, ports)| self.draft(from, to, ports, PairClass::Job)).collect()
    }

    /// Adds the ways back: a probe's answer carries the same source port, or the one that its driver fixes, and its way is
    /// another, which the responder traces.
    fn answers(&self, all: &mut BTreeMap<(usize, usize), Draft>) {
        let traced: Vec<(usize, usize)> =
            all.iter().filter(|(_, draft)| !draft.source_ports.is_empty()).map(|(pair, _)| *pair).collect();
        let mut seen = HashSet::new();
        for (from, to) in traced {
            if !seen.insert((from.min(to), from.max(to))) {
                continue;
            }
            let mut ports: Vec<u16> = Vec::new();
            for of in [all.get(&(from, to)), all.get(&(to, from))].into_iter().flatten() {
                of.source_ports.iter().for_each(|port| {
                    if !ports.contains(port) {
                        ports.push(*port);
                    }
                });
            }
            let given = all[&(from, to)].clone();
            for (a, b) in [(from, to), (to, from)] {
                match all.get_mut(&(a, b)) {
                    Some(draft) => draft.source_ports = self.draft(a, b, ports.clone(), draft.class).source_ports,
                    None => {
                        let back = self.draft(a, b, ports.clone(), given.class);
                        if back.trace_s.is_finite() {
                            all.insert((a, b), Draft { rate: 0.0, twin: false, ..back });
                        }
                    }
                }
            }
        }
    }

    fn ports(&self, from: usize, to: usize, count: usize, hour: u64) -> Vec<u16> {
        let [own, far] = [from, to].map(|at| &self.list[at]);
        if !own.port().source_ports.is_empty() {
            return Vec::new();
        }
        choose((&*own.host, own.port().name.as_str(), &*far.host, far.port().name.as_str()), count, hour)
    }
}

/// The address of a port.
pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    fabriclens_probe_plan::address(bytes).map(|ip| ip.to_canonical())
}

fn is_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast() || v4.octets()[0] == 0);
    !address.is_loopback() && !address.is_multicast() && !address.is_unspecified() && !broadcast
}

fn shared_addresses(offers: &[Offer]) -> HashSet<IpAddr> {
    let (mut seen, mut shared) = (HashSet::new(), HashSet::new());
    for ip in offers.iter().flat_map(|offer| offer.ports.iter()).filter_map(|port| address(&port.address)) {
        if !seen.insert(ip) {
            shared.insert(ip);
        }
    }
    shared
}

type Leaves<'a> = (HashMap<(usize, &'a str), usize>, HashMap<usize, usize>);

/// Leaf of each host port, and the number of ways from each switch to others.
fn leaves(topology: &Topology) -> Leaves<'_> {
    let (mut leaves, mut uplinks) = (HashMap::new(), HashMap::new());
    let is_host = |node: usize| topology.nodes[node].role == Role::Host;
    for link in &topology.links {
        let [a, b] = &link.ends;
        match (is_host(a.node), is_host(b.node)) {
            (true, false) => _ = leaves.insert((a.node, a.port.as_str()), b.node),
            (false, true) => _ = leaves.insert((b.node, b.port.as_str()), a.node),
            (false, false) => [a, b].iter().for_each(|end| *uplinks.entry(end.node).or_default() += 1),
            (true, true) => {}
        }
    }
    (leaves, uplinks)
}

/// Number of the network of each node.
fn networks(topology: &Topology) -> Vec<usize> {
    let mut of: Vec<usize> = (0..topology.nodes.len()).collect();
    fn root(of: &mut [usize], mut at: usize) -> usize {
        while of[at] != at {
            of[at] = of[of[at]];
            at = of[at];
        }
        at
    }
    for link in &topology.links {
        let [a, b] = link.ends.each_ref().map(|end| root(&mut of, end.node));
        of[a] = b;
    }
    (0..of.len()).map(|at| root(&mut of, at)).collect()
}
