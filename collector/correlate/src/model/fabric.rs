//! Ports with their cables and jobs with their ports: what every detector needs besides the signals.

use crate::model::ports::{Port, Ports};
use crate::model::routes::Routes;
use crate::model::topology::{Link, LinkEnd, Node, Role, Topology};
use fabriclens_collectives::JobCollectives;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A running job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Job id, as incidents name it.
    pub id: String,
    /// Its host ports. Empty once the job has ended and its index waits for reuse.
    pub ports: Vec<usize>,
    /// Start, Unix nanoseconds. Earlier traffic of its ports belongs to other jobs.
    pub since_ns: i64,
}

/// Topology, ports and jobs. Indices are stable while the fabric grows and is rewired.
#[derive(Clone, Debug)]
pub struct Fabric {
    /// Nodes and links.
    pub topology: Topology,
    /// Ports of all nodes.
    pub ports: Ports,
    /// Running jobs.
    pub jobs: Vec<Job>,
    /// Paths, queue pairs and probes; empty where no agent tells of them.
    pub routes: Routes,
    /// Collectives of running jobs with stragglers, by job id; empty where no agent reads them.
    pub collectives: BTreeMap<String, JobCollectives>,
    /// Owner of each port; `None` if no job or more than one job uses it.
    owner: Vec<Option<usize>>,
    /// Whether the last topology names a node, by node.
    described: Vec<bool>,
    /// Revision of `jobs`.
    revision: u64,
    /// Queue-pair peers of the ports that were looked up.
    peers: HashMap<usize, BTreeSet<usize>>,
}

impl Fabric {
    /// Builds a fabric and works out which job owns which port.
    pub fn new(topology: Topology, ports: Ports, jobs: Vec<Job>) -> Self {
        let described = vec![true; topology.nodes.len()];
        let mut fabric = Self {
            topology,
            ports,
            jobs,
            routes: Routes::default(),
            collectives: BTreeMap::new(),
            owner: Vec::new(),
            described,
            revision: 0,
            peers: HashMap::new(),
        };
        fabric.index_owners();
        fabric
    }

    fn index_owners(&mut self) {
        self.owner = vec![None; self.ports.list.len()];
        let mut shared = HashSet::new();
        for (at, job) in self.jobs.iter().enumerate() {
            for port in &job.ports {
                if self.owner[*port].replace(at).is_some() {
                    shared.insert(*port);
                }
            }
        }
        shared.into_iter().for_each(|port| self.owner[port] = None);
    }

    /// Index of a port, which is added if it is new. An unknown node is added as a host. `None` without a node or port
    /// name.
    pub fn measured_port(&mut self, node: &str, port: &str) -> Option<usize> {
        if node.is_empty() || port.is_empty() {
            return None;
        }
        let node = self.topology.host(node);
        Some(self.ports.add(&LinkEnd { node, port: port.to_owned() }))
    }

    /// Removes ports that have neither cable nor job, and nodes that are left without ports. A node stays if the
    /// topology names it or `keeps` returns true.
    pub(crate) fn remove_ports(&mut self, ports: &[usize], keeps: impl Fn(usize) -> bool) {
        ports.iter().for_each(|port| self.ports.remove(*port));
        self.peers.clear();
        self.routes.forget(ports);
        for node in 0..self.topology.nodes.len() {
            let described = self.described.get(node).copied().unwrap_or(false);
            let left = described || keeps(node) || !self.ports.of_node(node).is_empty();
            if !left && !self.topology.nodes[node].is_gone() {
                self.topology.remove_node(node);
            }
        }
    }

    /// Takes over the links of another topology, whose nodes may be in another order.
    pub fn rewire(&mut self, topology: &Topology) {
        let mut nodes = std::mem::take(&mut self.topology.nodes);
        let known = nodes.iter().enumerate().filter(|(_, node)| !node.is_gone());
        let mut index: HashMap<String, usize> = known.map(|(at, node)| (node.name.clone(), at)).collect();
        let mut free = (0..nodes.len()).filter(|at| nodes[*at].is_gone()).collect::<Vec<_>>().into_iter();
        let place = |node: &Node| {
            let next = || free.next().unwrap_or(nodes.len());
            let at = *index.entry(node.name.clone()).or_insert_with(next);
            match nodes.get_mut(at) {
                Some(old) => old.clone_from(node),
                None => nodes.push(node.clone()),
            }
            at
        };
        let to: Vec<usize> = topology.nodes.iter().map(place).collect();
        self.described = vec![false; nodes.len()];
        to.iter().for_each(|at| self.described[*at] = true);
        let here = |end: &LinkEnd| LinkEnd { node: to[end.node], port: end.port.clone() };
        let links = topology.links.iter().map(|link| Link { ends: link.ends.each_ref().map(here), ..link.clone() });
        let rails = topology.rails.iter().map(|(end, rail)| (here(end), rail.clone())).collect();
        // Only the resolution of traces asks for addresses, and has the topology itself.
        self.topology = Topology::new(nodes, links.collect());
        self.topology.rails = rails;
        self.ports.wire(&self.topology.links);
        self.index_owners();
    }

    /// Replaces the running jobs. Known jobs keep their index, and so do ended jobs in `pinned`.
    pub fn set_jobs(&mut self, jobs: Vec<Job>, pinned: &HashSet<usize>) {
        self.revision += 1;
        let mut index: HashMap<(&str, i64), usize> = HashMap::new();
        for (at, job) in self.jobs.iter().enumerate() {
            index.insert((job.id.as_str(), job.since_ns), at);
        }
        let known: Vec<Option<usize>> =
            jobs.iter().map(|job| index.get(&(job.id.as_str(), job.since_ns)).copied()).collect();
        let kept: HashSet<usize> = known.iter().flatten().copied().collect();
        for (at, job) in self.jobs.iter_mut().enumerate().filter(|(at, _)| !kept.contains(at)) {
            job.ports.clear();
            if !pinned.contains(&at) {
                job.id.clear();
            }
        }
        let mut free = (0..self.jobs.len()).filter(|at| self.jobs[*at].id.is_empty()).collect::<Vec<_>>().into_iter();
        for (job, at) in jobs.into_iter().zip(known) {
            match at.or_else(|| free.next()) {
                Some(at) => self.jobs[at] = job,
                None => self.jobs.push(job),
            }
        }
        self.index_owners();
    }

    /// Incremented whenever the jobs change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Role of the node of a port.
    pub fn role(&self, port: usize) -> Role {
        self.topology.nodes[self.ports.list[port].end.node].role
    }

    /// Whether a port belongs to a host.
    pub fn is_host(&self, port: usize) -> bool {
        self.role(port) == Role::Host
    }

    /// Node at the other end of a port's cable.
    pub fn peer_node(&self, port: usize) -> Option<usize> {
        self.ports.list[port].peer.map(|p| self.ports.list[p].end.node)
    }

    /// The only job that uses a host port.
    pub fn job_of(&self, port: usize) -> Option<usize> {
        self.owner.get(port).copied().flatten()
    }

    /// Whether no job uses a port, although jobs are known.
    pub fn is_outside_jobs(&self, port: usize) -> bool {
        !self.jobs.is_empty() && !self.jobs.iter().any(|job| job.ports.contains(&port))
    }

    /// Stores the queue-pair peers of a port ([`crate::connected_ports`]).
    pub fn set_peers(&mut self, port: usize, others: BTreeSet<usize>) {
        self.peers.insert(port, others);
    }

    /// The first of these ports whose queue-pair peers are not stored yet. Forgets the peers of all other ports.
    pub(crate) fn first_without_peers(&mut self, ports: &[usize]) -> Option<usize> {
        self.peers.retain(|port, _| ports.contains(port));
        ports.iter().copied().find(|port| !self.peers.contains_key(port))
    }

    /// Queue-pair peers of any of these ports; `None` if they are unknown for one of them.
    pub(crate) fn peers_of(&self, ports: &[usize]) -> Option<BTreeSet<usize>> {
        let of = |port: &usize| self.peers.get(port).filter(|others| !others.is_empty());
        let known: Option<Vec<_>> = ports.iter().map(of).collect();
        known.map(|known| known.into_iter().flatten().copied().collect())
    }

    /// Nominal rate of a port's link in bytes per second, if the topology states it.
    pub fn nominal_rate(&self, port: usize) -> Option<f64> {
        self.ports.list[port].link.and_then(|l| self.topology.links[l].rate)
    }

    /// Rail of a port, from the topology or from agents.
    pub fn rail(&self, port: usize) -> Option<&str> {
        let Port { end, link, .. } = &self.ports.list[port];
        let own = || self.topology.rails.get(end).map(String::as_str);
        link.and_then(|l| self.topology.links[l].rail.as_deref()).or_else(own)
    }

    /// Indices of all host ports.
    pub fn host_ports(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ports.list.len()).filter(|p| self.is_host(*p))
    }

    /// Indices of all switch ports.
    pub fn switch_ports(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ports.list.len()).filter(|p| !self.is_host(*p))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(cables: &[(&str, &str)]) -> Topology {
        let mut nodes: Vec<Node> = Vec::new();
        let mut node = |name: &str| {
            let role = if name.starts_with('h') { Role::Host } else { Role::Leaf };
            nodes.iter().position(|n| n.name == name).unwrap_or_else(|| {
                nodes.push(Node { name: name.into(), role });
                nodes.len() - 1
            })
        };
        let ends: Vec<[LinkEnd; 2]> = cables
            .iter()
            .map(|(a, b)| [LinkEnd { node: node(a), port: "1".into() }, LinkEnd { node: node(b), port: (*a).into() }])
            .collect();
        Topology::new(nodes, ends.into_iter().map(|ends| Link::new(ends, None)).collect())
    }

    #[test]
    fn rewiring_keeps_indices() {
        let first = topology(&[("h0", "leaf0"), ("h1", "leaf0")]);
        let ports = Ports::new(&first);
        let mut fabric = Fabric::new(first, ports, Vec::new());
        let known = fabric.measured_port("h1", "1").unwrap();
        let new = fabric.measured_port("h9", "mlx5_0/1").unwrap();
        let uplink = fabric.measured_port("leaf0", "uplink").unwrap();
        assert_eq!((fabric.is_host(uplink), fabric.peer_node(uplink)), (false, None), "nobody tells where it leads");
        assert_eq!(fabric.peer_node(new), None);
        fabric.rewire(&topology(&[("h1", "leaf1"), ("h2", "leaf1"), ("h0", "leaf0")]));
        assert_eq!(fabric.measured_port("h1", "1"), Some(known));
        assert_eq!(fabric.measured_port("h9", "mlx5_0/1"), Some(new));
        let name = |node: usize| fabric.topology.nodes[node].name.as_str();
        assert_eq!(fabric.peer_node(known).map(name), Some("leaf1"), "its cable was moved");
        assert_eq!(fabric.topology.nodes.iter().map(|n| n.name.as_str()).collect::<HashSet<_>>().len(), 6);
    }

    #[test]
    fn jobs_keep_indices_and_shared_ports_have_no_owner() {
        let first = topology(&[("h0", "leaf0"), ("h1", "leaf0")]);
        let ports = Ports::new(&first);
        let mut fabric = Fabric::new(first, ports, Vec::new());
        let port = fabric.measured_port("h0", "1").unwrap();
        let job = |id: &str, since_ns| Job { id: id.into(), ports: vec![port], since_ns };
        fabric.set_jobs(vec![job("a", 1), job("b", 2)], &HashSet::new());
        assert_eq!(fabric.job_of(port), None);
        fabric.set_jobs(vec![job("b", 2), job("b", 3)], &HashSet::from([0]));
        let ids: Vec<_> = fabric.jobs.iter().map(|j| (j.id.as_str(), j.since_ns, j.ports.len())).collect();
        assert_eq!(ids, [("a", 1, 0), ("b", 2, 1), ("b", 3, 1)], "an incident still names the first");
        fabric.set_jobs(vec![job("c", 4)], &HashSet::new());
        assert_eq!((fabric.jobs.len(), fabric.jobs[0].id.as_str(), fabric.job_of(port)), (3, "c", Some(0)));
    }
}
