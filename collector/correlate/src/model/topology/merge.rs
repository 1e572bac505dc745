//! Merges all sources into one topology. Port by port the most trusted source wins; claims of others become
//! contradictions.

use super::contradiction::{Claim, Contradiction};
use super::names::{HostNames, ResolvedEnd, short};
use super::source::{Cable, CableEnd, TopologySource};
use super::types::{AddressOwner, Link, LinkEnd, Node, Provenance, Role, UNKNOWN};
use super::wiring::Topology;
use std::collections::{HashMap, HashSet};

/// Contradictions that are kept. More than that means a file of another fabric.
const CONTRADICTIONS: usize = 200;

/// Merges sources into one topology, with host and port names as in series.
pub fn merge(described: &[TopologySource], names: &HostNames) -> Topology {
    let mut build = Build::new(names, described);
    // A source of scheduler and inferred cables alone may use made-up switch names.
    let vague =
        |one: &TopologySource| !one.cables.is_empty() && one.cables.iter().all(|c| c.known <= Provenance::Scheduler);
    let switches =
        described.iter().filter(|d| !vague(d)).flat_map(|d| &d.nodes).filter(|(_, role)| *role != Role::Host);
    build.switches = switches.map(|(name, _)| names.host(name).unwrap_or(name).to_owned()).collect();
    for one in described {
        let vague = vague(one);
        for (name, role) in &one.nodes {
            let at = build.node(name, *role);
            build.sure[at] |= !vague;
        }
    }
    let all = described.iter().enumerate().flat_map(|(n, d)| d.cables.iter().map(move |c| (n, c)));
    let mut all: Vec<(usize, &Cable)> = all.collect();
    // The sort is stable: among equally trusted sources the first wins.
    all.sort_by_key(|(_, cable)| std::cmp::Reverse(cable.known));
    for (source, cable) in all {
        build.cable(source, cable);
    }
    build.finish()
}

/// A link whose ends may still be completed.
struct Draft {
    ends: [(usize, String); 2],
    rate: Option<f64>,
    rail: Option<String>,
    known: Provenance,
    source: usize,
}

struct Build<'a> {
    names: &'a HostNames,
    described: &'a [TopologySource],
    nodes: Vec<Node>,
    index: HashMap<String, usize>,
    /// Switches by host part of their name in lower case; `None` if several share it.
    shorts: HashMap<String, Option<usize>>,
    links: Vec<Draft>,
    /// Links of each node.
    of: Vec<Vec<usize>>,
    /// Link by node and port.
    at: HashMap<(usize, String), usize>,
    /// Nodes that are switches although an agent runs on them.
    switches: HashSet<String>,
    /// Nodes that a source names which observes the hardware.
    sure: Vec<bool>,
    contradictions: Vec<Contradiction>,
}

impl<'a> Build<'a> {
    fn new(names: &'a HostNames, described: &'a [TopologySource]) -> Self {
        Self {
            names,
            described,
            nodes: Vec::new(),
            index: HashMap::new(),
            shorts: HashMap::new(),
            links: Vec::new(),
            of: Vec::new(),
            at: HashMap::new(),
            switches: HashSet::new(),
            sure: Vec::new(),
            contradictions: Vec::new(),
        }
    }

    /// Index of the node with this name. A new node gets this role, unless agents know it as a host.
    fn node(&mut self, name: &str, role: Role) -> usize {
        let host = self.names.host(name);
        let name = host.unwrap_or(name);
        if let Some(at) = self.index.get(name) {
            return *at;
        }
        let brief = short(name).to_lowercase();
        // `leaf1` and `leaf1.example` are one node; `leaf1.west` and `leaf1.east` are two.
        let like = self.shorts.get(&brief).copied().flatten().filter(|at| {
            let other = &self.nodes[*at].name;
            host.is_none() && (other.eq_ignore_ascii_case(name) || (short(other) == other) != (short(name) == name))
        });
        if let Some(at) = like {
            self.index.insert(name.to_owned(), at);
            return at;
        }
        let at = self.nodes.len();
        let role = match role {
            Role::Host if self.switches.contains(name) => Role::Spine,
            role if host.is_none() || self.switches.contains(name) => role,
            _ => Role::Host,
        };
        self.nodes.push(Node { name: name.to_owned(), role });
        self.of.push(Vec::new());
        self.sure.push(false);
        self.index.insert(name.to_owned(), at);
        self.shorts.entry(brief).and_modify(|old| *old = None).or_insert(Some(at));
        at
    }

    fn is_host(&self, node: usize) -> bool {
        self.nodes[node].role == Role::Host
    }

    fn cable(&mut self, source: usize, cable: &Cable) {
        let places = cable.sides.each_ref().map(|side| self.names.place(side));
        let host = |side: &CableEnd| {
            if side.description.is_empty() && side.guids.is_empty() { Role::Spine } else { Role::Host }
        };
        let nodes = [0, 1].map(|n| self.node(&places[n].node, host(&cable.sides[n])));
        if nodes[0] == nodes[1] && places[0].port == places[1].port {
            return;
        }
        let [a, b] = places.map(|ResolvedEnd { port, .. }| port);
        if cable.known > Provenance::Scheduler {
            return self.link(source, cable, [(nodes[0], a), (nodes[1], b)]);
        }
        // Scheduler sources name nodes, not ports: they count for hosts that no better source wires.
        for (n, peer) in [(0, 1), (1, 0)] {
            // Only hosts are checked: they have few links, a switch may have thousands.
            if !self.is_host(nodes[n]) {
                continue;
            }
            let wired = self.of[nodes[n]].iter().map(|l| &self.links[*l]).find(|l| l.known > cable.known);
            if let Some(other) = wired {
                let known = self.of[nodes[peer]].iter().any(|l| self.links[*l].known > cable.known);
                let there = self.of[nodes[n]].iter().any(|l| self.far(*l, nodes[n]).0 == nodes[peer]);
                if known && !there && cable.known == Provenance::Scheduler {
                    let near = other.ends.iter().find(|end| end.0 == nodes[n]).cloned();
                    let believed = self.saying(self.at[&near.clone().unwrap_or_default()], nodes[n]);
                    let port = near.map(|end| end.1).unwrap_or_default();
                    let rejected = self.claim(source, cable, nodes[peer], None);
                    self.contradict(nodes[n], port, believed, rejected);
                }
                return;
            }
        }
        let several = [0, 1].map(|n| {
            let ports: Vec<String> = match [&a, &b][n] {
                None if self.is_host(nodes[n]) => {
                    self.names.rdma(&self.nodes[nodes[n]].name).map(str::to_owned).collect()
                }
                _ => Vec::new(),
            };
            ports
        });
        match several {
            [ports, _] if !ports.is_empty() => {
                ports.into_iter().for_each(|p| self.link(source, cable, [(nodes[0], Some(p)), (nodes[1], b.clone())]));
            }
            [_, ports] if !ports.is_empty() => {
                ports.into_iter().for_each(|p| self.link(source, cable, [(nodes[0], a.clone()), (nodes[1], Some(p))]));
            }
            _ => self.link(source, cable, [(nodes[0], a), (nodes[1], b)]),
        }
    }

    fn link(&mut self, source: usize, cable: &Cable, ends: [(usize, Option<String>); 2]) {
        let found = ends.each_ref().map(|(node, port)| port.as_ref().and_then(|p| self.taken(*node, p, source)));
        let nodes = [ends[0].0, ends[1].0];
        let agreed = match found {
            [Some(a), Some(b)] => (a == b).then_some(a),
            [Some(link), None] => self.agrees(link, nodes[0], &ends[1]),
            [None, Some(link)] => self.agrees(link, nodes[1], &ends[0]),
            // The same cable with less detail.
            [None, None] => self.vague(nodes, &ends, source),
        };
        if let Some(link) = agreed {
            self.fill(link, cable, &ends);
            return;
        }
        for (n, link) in found.into_iter().enumerate() {
            if let Some(link) = link {
                let believed = self.saying(link, nodes[n]);
                let rejected = self.claim(source, cable, nodes[1 - n], ends[1 - n].1.clone());
                self.contradict(nodes[n], ends[n].1.clone().unwrap_or_default(), believed, rejected);
            }
        }
        if found == [None, None] {
            self.add(source, cable, ends);
        }
    }

    /// The link on a port. Other sources may name a switch port differently: `swp3`, `Ethernet1/3`, `3`.
    fn taken(&self, node: usize, port: &str, source: usize) -> Option<usize> {
        let exact = self.at.get(&(node, port.to_owned())).copied();
        exact.or_else(|| {
            let alike = |l: &&usize| {
                let link = &self.links[**l];
                link.source != source && link.ends.iter().any(|end| end.0 == node && same_port(&end.1, port))
            };
            self.of[node].iter().filter(|_| !self.is_host(node)).find(alike).copied()
        })
    }

    fn far(&self, link: usize, node: usize) -> &(usize, String) {
        let ends = &self.links[link].ends;
        if ends[0].0 == node { &ends[1] } else { &ends[0] }
    }

    /// The link if its far end is `node` and the port is unknown on one side.
    fn agrees(&self, link: usize, near: usize, (node, port): &(usize, Option<String>)) -> Option<usize> {
        let far = self.far(link, near);
        (far.0 == *node && (port.is_none() || far.1.starts_with(UNKNOWN))).then_some(link)
    }

    /// A link between the two nodes that may be the one meant, because one of the two does not name its ports.
    fn vague(&self, nodes: [usize; 2], ends: &[(usize, Option<String>); 2], source: usize) -> Option<usize> {
        let fits = |l: &&usize| {
            let link = &self.links[**l];
            let fit = |(node, port): &(usize, Option<String>)| {
                let own = link.ends.iter().find(|end| end.0 == *node);
                port.is_none() || own.is_some_and(|end| end.1.starts_with(UNKNOWN))
            };
            link.source != source && self.far(**l, nodes[0]).0 == nodes[1] && ends.iter().all(fit)
        };
        self.of[nodes[0]].iter().find(fits).copied()
    }

    /// Fills in what the more trusted source left open.
    fn fill(&mut self, at: usize, cable: &Cable, ends: &[(usize, Option<String>); 2]) {
        for (node, port) in ends {
            let (Some(port), false) = (port, ends[0].0 == ends[1].0) else { continue };
            self.at.insert((*node, port.clone()), at);
            let file = cable.known == Provenance::File;
            if let Some(own) = self.links[at].ends.iter_mut().find(|end| end.0 == *node)
                // Files use the port names of series.
                && (own.1.starts_with(UNKNOWN) || file && own.1 != *port && same_port(&own.1, port))
            {
                own.1.clone_from(port);
            }
        }
        let link = &mut self.links[at];
        link.rate = link.rate.or(cable.rate);
        link.rail = link.rail.take().or_else(|| cable.rail.clone());
    }

    fn add(&mut self, source: usize, cable: &Cable, ends: [(usize, Option<String>); 2]) {
        let at = self.links.len();
        let name = |n: usize| {
            let (node, port) = &ends[n];
            let (peer, peer_port) = &ends[1 - n];
            port.clone().unwrap_or_else(|| {
                let peer = &self.nodes[*peer].name;
                let stem = match peer_port {
                    Some(port) => format!("{UNKNOWN}{peer} {port}"),
                    None => format!("{UNKNOWN}{peer}"),
                };
                let taken = |port: &String| self.at.contains_key(&(*node, port.clone()));
                (1..)
                    .map(|k| if k == 1 { stem.clone() } else { format!("{stem}#{k}") })
                    .find(|p| !taken(p))
                    .unwrap_or(stem)
            })
        };
        let names = [name(0), name(1)];
        let ends = [(ends[0].0, names[0].clone()), (ends[1].0, names[1].clone())];
        for end in &ends {
            self.at.insert(end.clone(), at);
            self.of[end.0].push(at);
        }
        let Cable { rate, rail, known, .. } = cable.clone();
        self.links.push(Draft { ends, rate, rail, known, source });
    }

    fn saying(&self, link: usize, near: usize) -> Claim {
        let (node, port) = self.far(link, near);
        let Draft { known, source, .. } = &self.links[link];
        let port = if port.starts_with(UNKNOWN) { String::new() } else { port.clone() };
        let source = self.described[*source].source.clone();
        Claim { source, known: *known, node: self.nodes[*node].name.clone(), port }
    }

    fn claim(&self, source: usize, cable: &Cable, node: usize, port: Option<String>) -> Claim {
        let source = self.described[source].source.clone();
        Claim { source, known: cable.known, node: self.nodes[node].name.clone(), port: port.unwrap_or_default() }
    }

    fn contradict(&mut self, node: usize, port: String, believed: Claim, rejected: Claim) {
        let new = Contradiction { node: self.nodes[node].name.clone(), port, believed, rejected };
        // Dumps list each cable from both ends.
        if self.contradictions.len() < CONTRADICTIONS && !self.contradictions.contains(&new) {
            self.contradictions.push(new);
        }
    }

    fn finish(mut self) -> Topology {
        let gone = self.ghosts();
        let mut place = vec![usize::MAX; self.nodes.len()];
        let mut nodes = Vec::new();
        for (at, node) in self.nodes.iter().enumerate().filter(|(at, _)| !gone[*at]) {
            place[at] = nodes.len();
            let role = match node.role {
                Role::Spine if self.of[at].iter().any(|l| self.is_host(self.far(*l, at).0)) => Role::Leaf,
                role => role,
            };
            nodes.push(Node { name: node.name.clone(), role });
        }
        let drafts = std::mem::take(&mut self.links);
        let links = drafts.into_iter().filter(|l| l.ends.iter().all(|end| !gone[end.0])).map(|draft| {
            let rail = draft.rail.or_else(|| {
                draft.ends.iter().find_map(|(n, port)| Some(self.names.rail(&self.nodes[*n].name, port)?.to_owned()))
            });
            let ends = draft.ends.map(|(node, port)| LinkEnd { node: place[node], port });
            Link { ends, rate: draft.rate, known: draft.known, rail }
        });
        let mut topology = Topology::new(nodes, links.collect());
        topology.contradictions = self.contradictions;
        let rail = |(host, port, rail): (&str, &str, &str)| {
            let end = LinkEnd { node: topology.node(host)?, port: port.to_owned() };
            Some((end, rail.to_owned()))
        };
        topology.rails = self.names.rails().filter_map(rail).collect();
        // What LLDP announces is a hint and comes last.
        let (announced, stated): (Vec<_>, Vec<_>) = self.described.iter().partition(|one| one.format == "LLDP");
        for (ip, node, port) in stated.into_iter().chain(announced).flat_map(|one| &one.addresses) {
            let at = self.index.get(self.names.host(node).unwrap_or(node)).map(|at| place[*at]);
            if let Some(node) = at.filter(|at| *at != usize::MAX && topology.nodes[*at].role != Role::Host) {
                let port = Some(port.clone()).filter(|port| !port.is_empty());
                topology.addresses.entry(*ip).or_insert(AddressOwner { node, port });
            }
        }
        topology
    }

    /// Switches of schedulers, often made up, that have no host below them because better sources wire all hosts.
    fn ghosts(&self) -> Vec<bool> {
        let mut gone: Vec<bool> = (0..self.nodes.len()).map(|at| !self.is_host(at) && !self.sure[at]).collect();
        loop {
            let before = gone.iter().filter(|g| **g).count();
            for at in 0..self.nodes.len() {
                // A scheduler link lists the lower node first; an observed link proves both of its ends.
                let proves = |l: &&usize| {
                    let Draft { ends, known, .. } = &self.links[**l];
                    *known > Provenance::Scheduler || ends[1].0 == at && !gone[ends[0].0]
                };
                if gone[at] && self.of[at].iter().any(|l| proves(&l)) {
                    gone[at] = false;
                }
            }
            if gone.iter().filter(|g| **g).count() == before {
                return gone;
            }
        }
    }
}

/// Whether two names denote one switch port: the numbers in one are the last numbers in the other.
fn same_port(a: &str, b: &str) -> bool {
    let numbers = |text: &str| -> Vec<String> {
        let digits = text.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty());
        digits.map(|n| n.trim_start_matches('0').to_owned()).collect()
    };
    if a.starts_with(UNKNOWN) || b.starts_with(UNKNOWN) {
        return false;
    }
    let (a_numbers, b_numbers) = (numbers(a), numbers(b));
    let tail = !a_numbers.is_empty() && (a_numbers.ends_with(&b_numbers) || b_numbers.ends_with(&a_numbers));
    a.eq_ignore_ascii_case(b) || tail && !b_numbers.is_empty()
}
