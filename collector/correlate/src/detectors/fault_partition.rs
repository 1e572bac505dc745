//! Partitions the fabric into fault domains from the current job placement and pause relations. A large fleet always
//! has some incident: detectors that compare ports (the longest queue, the largest job, who loses) must not be misled
//! by another domain.
//!
//! Two leaves share a domain if a job has hosts at both, or if pause passes between them. Cables to common spines join
//! them only if ports without a known job move data, because then its path is unknown.

use crate::baseline::reference::Baseline;
use crate::baseline::window::Window;
use crate::detectors::fault_domain::{DomainSet, FaultDomain};
use crate::detectors::hold_signal;
use crate::detectors::thresholds::Thresholds;
use crate::model::fabric::Fabric;
use crate::model::signal::Signal;
use crate::model::topology::Role;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Load above which a port carries the traffic of some job. Idle hosts still talk a little.
const BUSY: f64 = 0.01;

/// All fault domains at one time.
#[derive(Default)]
pub struct FaultDomains {
    /// Domain of each port.
    of_port: Vec<usize>,
    /// The domains; each port and job is in exactly one.
    each: Vec<Arc<FaultDomain>>,
    whole: Arc<FaultDomain>,
    /// Cached unions of domains.
    several: RefCell<HashMap<BTreeSet<usize>, Arc<FaultDomain>>>,
}

impl FaultDomains {
    /// Partitions the fabric. `now` holds the last seconds; the baseline shows which ports move data.
    pub fn of(fabric: &Fabric, thresholds: &Thresholds, now: &Window, baseline: &Baseline) -> Self {
        let whole = Arc::new(FaultDomain::whole(fabric));
        let moves = |port: usize| {
            let rate = baseline.window.mean(Signal::Rate, port).or_else(|| fabric.nominal_rate(port));
            let bytes = [Signal::Tx, Signal::Rx].map(|s| [baseline.window.mean(s, port), now.mean(s, port)]);
            bytes.into_iter().flatten().flatten().any(|bytes| bytes > BUSY * rate.unwrap_or(0.0))
        };
        let mut of_job = vec![false; fabric.ports.list.len()];
        fabric.jobs.iter().flat_map(|job| &job.ports).for_each(|port| of_job[*port] = true);
        let stray: Vec<usize> = fabric.host_ports().filter(|port| !of_job[*port] && moves(*port)).collect();
        let mut parts = Parts::of(fabric, &stray);
        let held = |port: usize| {
            let long = |(signal, least)| {
                let least = thresholds.get(least);
                now.values(signal, port).any(|share| share >= least)
            };
            hold_signal::hold_signal(now, port).is_some_and(long)
        };
        for port in fabric.switch_ports().filter(|port| held(*port)) {
            let peer = fabric.peer_node(port).filter(|peer| fabric.topology.nodes[*peer].role != Role::Host);
            // A switch that pauses one port may do so because of any other.
            peer.into_iter().for_each(|peer| parts.join_all(fabric, peer));
        }
        for job in &fabric.jobs {
            job.ports.windows(2).for_each(|pair| parts.join(parts.node(fabric, pair[0]), parts.node(fabric, pair[1])));
        }
        Self::number(fabric, &mut parts, whole)
    }

    fn number(fabric: &Fabric, parts: &mut Parts, whole: Arc<FaultDomain>) -> Self {
        let mut each: Vec<FaultDomain> = vec![FaultDomain::default()];
        let mut known: HashMap<usize, usize> = HashMap::new();
        for (at, job) in fabric.jobs.iter().enumerate() {
            let Some(port) = job.ports.first() else {
                each[0].jobs.push(at);
                continue;
            };
            let part = parts.top(parts.node(fabric, *port));
            let number = *known.entry(part).or_insert(each.len());
            if number == each.len() {
                each.push(FaultDomain::default());
            }
            each[number].jobs.push(at);
        }
        // Ports without jobs, whose loss harms nobody, share one domain.
        let of_port: Vec<usize> = (0..fabric.ports.list.len())
            .map(|port| known.get(&parts.top(parts.node(fabric, port))).copied().unwrap_or(0))
            .collect();
        for (port, number) in of_port.iter().enumerate() {
            let domain = &mut each[*number];
            domain.ports.push(port);
            if fabric.is_host(port) {
                domain.hosts.push(port)
            } else {
                domain.switches.push(port)
            }
            domain.nodes.push(fabric.ports.list[port].end.node);
        }
        for domain in &mut each {
            domain.nodes.sort_unstable();
            domain.nodes.dedup();
        }
        // With a single domain, results for the whole fabric are reused.
        let one = each.iter().filter(|domain| !domain.ports.is_empty()).count() == 1;
        let of = |d: FaultDomain| if one && !d.ports.is_empty() { whole.clone() } else { Arc::new(d) };
        let each = each.into_iter().map(of).collect();
        Self { of_port, each, whole, several: RefCell::default() }
    }

    /// Each domain with ports, as a set of one; without any port, all of them as one, because jobs need no counters to stand still.
    pub fn each(&self) -> impl Iterator<Item = DomainSet> + '_ {
        let some = |n: &usize| !self.each[*n].ports.is_empty();
        let none = self.of_port.is_empty().then(DomainSet::default);
        (0..self.each.len()).filter(some).map(|n| DomainSet([n].into())).chain(none)
    }

    /// Domains of these ports; of no ports, all domains.
    pub fn containing(&self, ports: impl IntoIterator<Item = usize>) -> DomainSet {
        DomainSet(ports.into_iter().filter_map(|port| self.of_port.get(port).copied()).collect())
    }

    /// Union of the domains of a set.
    pub fn union(&self, DomainSet(numbers): &DomainSet) -> Arc<FaultDomain> {
        match numbers.first() {
            None => self.whole.clone(),
            Some(one) if numbers.len() == 1 => self.each[*one].clone(),
            _ => self.several.borrow_mut().entry(numbers.clone()).or_insert_with(|| self.sum(numbers)).clone(),
        }
    }

    fn sum(&self, numbers: &BTreeSet<usize>) -> Arc<FaultDomain> {
        let of = |list: fn(&FaultDomain) -> &Vec<usize>| {
            let all: BTreeSet<usize> = numbers.iter().flat_map(|n| list(&self.each[*n]).iter().copied()).collect();
            all.into_iter().collect()
        };
        Arc::new(FaultDomain {
            ports: of(|d| &d.ports),
            hosts: of(|d| &d.hosts),
            switches: of(|d| &d.switches),
            nodes: of(|d| &d.nodes),
            jobs: of(|d| &d.jobs),
        })
    }
}

/// Tier of leaves; the tier of hosts is 0.
const LEAF: usize = 1;

/// Cables from each node to the nearest host, if any.
fn tiers(fabric: &Fabric) -> Vec<Option<usize>> {
    let hosts = (0..fabric.topology.nodes.len()).filter(|n| fabric.topology.nodes[*n].role == Role::Host);
    let mut tiers = vec![None; fabric.topology.nodes.len()];
    let mut next: Vec<usize> = hosts.collect();
    for tier in 0.. {
        // Keeps each node once: a switch is reached from all of its peers.
        next.retain(|node| {
            let new = tiers[*node].is_none();
            tiers[*node].get_or_insert(tier);
            new
        });
        if next.is_empty() {
            return tiers;
        }
        let ports = next.iter().flat_map(|node| fabric.ports.of_node(*node));
        next = ports.filter_map(|port| fabric.peer_node(*port)).collect();
    }
    tiers
}

/// Union-find over nodes.
struct Parts {
    up: Vec<usize>,
    /// Switches of the top tier, which join only what is below: their ports belong to the domain at the other end.
    crosses: Vec<bool>,
}

impl Parts {
    /// Joins nodes by cables alone; `stray` host ports move data without a known job.
    fn of(fabric: &Fabric, stray: &[usize]) -> Self {
        let n = fabric.topology.nodes.len();
        let tiers = tiers(fabric);
        let peers = |node: usize| fabric.ports.of_node(node).iter().filter_map(|port| fabric.peer_node(*port));
        let is_top = |node: usize| tiers[node] > Some(LEAF) && peers(node).all(|peer| tiers[peer] < tiers[node]);
        let crosses: Vec<bool> = (0..n).map(is_top).collect();
        let cables = || fabric.topology.links.iter().map(|link| link.ends.each_ref().map(|end| end.node));
        // One extra node for ports without a known cable.
        let mut islands = Self { up: (0..=n).collect(), crosses: vec![false; n] };
        cables().for_each(|[a, b]| islands.join(a, b));
        let mixed: HashSet<usize> = stray.iter().map(|port| islands.top(fabric.ports.list[*port].end.node)).collect();
        let mut parts = Self { up: (0..=n).collect(), crosses };
        for [a, b] in cables() {
            if !parts.crosses[a] && !parts.crosses[b] || mixed.contains(&islands.top(a)) {
                parts.join(a, b);
            }
        }
        let unknown = |port: &usize| fabric.ports.list[*port].peer.is_none();
        let of_jobs = fabric.jobs.iter().flat_map(|job| job.ports.iter().copied());
        for port in of_jobs.chain(stray.iter().copied()).filter(unknown) {
            parts.join(fabric.ports.list[port].end.node, n);
        }
        parts
    }

    /// Node that decides the domain of a port.
    fn node(&self, fabric: &Fabric, port: usize) -> usize {
        let own = fabric.ports.list[port].end.node;
        if self.crosses[own] { fabric.peer_node(port).unwrap_or(own) } else { own }
    }

    /// Joins all nodes that are cabled to a switch.
    fn join_all(&mut self, fabric: &Fabric, switch: usize) {
        for port in fabric.ports.of_node(switch) {
            if let Some(peer) = fabric.peer_node(*port) {
                self.join(peer, switch);
            }
        }
    }

    fn top(&mut self, mut node: usize) -> usize {
        while self.up[node] != node {
            self.up[node] = self.up[self.up[node]];
            node = self.up[node];
        }
        node
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.top(a), self.top(b));
        self.up[a.max(b)] = a.min(b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fabric::Job;
    use crate::model::ports::Ports;
    use crate::model::topology::{Link, LinkEnd, Node, Topology};

    /// Two pods of two leaves under a core. One job has a host at each leaf of the first pod, another at one leaf of
    /// the second; two hosts have no known cable.
    fn pods(unwired: [usize; 2]) -> Fabric {
        let names =
            ["a1", "a2", "b1", "b2", "x", "y", "leaf-a1", "leaf-a2", "leaf-b1", "leaf-b2", "pod-a", "pod-b", "core"];
        let role = |name: &str| match name {
            "core" | "pod-a" | "pod-b" => Role::Spine,
            _ if name.starts_with("leaf") => Role::Leaf,
            _ => Role::Host,
        };
        let nodes: Vec<Node> = names.iter().map(|n| Node { name: (*n).into(), role: role(n) }).collect();
        let cables = [[0, 6], [1, 7], [2, 8], [3, 9], [6, 10], [7, 10], [8, 11], [9, 11], [10, 12], [11, 12]];
        let link = |[a, b]: [usize; 2]| {
            Link::new([(a, b), (b, a)].map(|(n, p)| LinkEnd { node: n, port: p.to_string() }), None)
        };
        let topology = Topology::new(nodes, cables.map(link).to_vec());
        let mut ports = Ports::new(&topology);
        for host in [4, 5] {
            ports.add(&LinkEnd { node: host, port: "1".into() });
        }
        let job = |id: &str, hosts: &[usize]| Job {
            id: id.into(),
            ports: hosts.iter().flat_map(|h| ports.of_node(*h).to_vec()).collect(),
            since_ns: i64::MIN,
        };
        let [x, y] = unwired;
        let jobs = vec![job("a", &[0, 1]), job("b", &[2]), job("x", &[4, x]), job("y", &[5, y])];
        Fabric::new(topology, ports, jobs)
    }

    fn parts(fabric: &Fabric) -> Vec<Vec<String>> {
        let (now, baseline) = (Window::default(), Baseline::of(Window::default(), fabric, i64::MIN));
        let domains = FaultDomains::of(fabric, &Thresholds::default(), &now, &baseline);
        let name = |node: &usize| fabric.topology.nodes[*node].name.clone();
        let names = |at: DomainSet| domains.union(&at).nodes.iter().map(name).collect::<Vec<_>>();
        let mut all: Vec<_> = domains.each().map(names).collect();
        all.sort();
        all
    }

    #[test]
    fn pods_are_separate_domains() {
        let all = parts(&pods([4, 5]));
        let expected: [&[&str]; 3] = [
            &["a1", "a2", "leaf-a1", "leaf-a2", "pod-a", "core"],
            &["b1", "b2", "leaf-b1", "leaf-b2", "pod-b", "core"],
            &["x", "y"],
        ];
        assert_eq!(all, expected);
        assert_eq!(parts(&pods([0, 2])).len(), 1, "they may be wired to anything, and their jobs are in both pods");
    }
}
