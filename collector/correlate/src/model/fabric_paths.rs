//! Paths over a fabric: stores what is told of them by names, and finds the paths of a flow.

use crate::model::fabric::Fabric;
use crate::model::location::LocationId;
use crate::model::routes::path::{Flow, Path, PathSource};
use crate::model::routes::probes::{Probe, TcpProbe};
use crate::model::routes::update::{FlowName, PortName, ProbeTransport, RouteUpdate};
use crate::model::topology::{LinkEnd, Role};
use std::sync::Arc;

impl Fabric {
    /// Stores what became known of paths, queue pairs or probes at an instant, Unix nanoseconds. Ports that the fabric does not
    /// have are ignored, and so are paths over them and probes with impossible times.
    pub fn learn(&mut self, time_ns: i64, update: RouteUpdate) {
        match update {
            RouteUpdate::Path { flow, hops, source } => {
                let hops: Option<Vec<usize>> = hops.iter().map(|hop| self.known_port(hop)).collect();
                if let Some((flow, hops)) = self.known_flow(&flow).zip(hops) {
                    let path = Path { hops, source };
                    let leaves = self.leaves(flow).filter(|_| self.reaches(&path, flow.to));
                    self.routes.paths.set(flow, path, time_ns, leaves);
                }
            }
            RouteUpdate::OneOf { flow, paths } => {
                let Some(flow) = self.known_flow(&flow) else { return };
                let path = |hops: Vec<PortName>| {
                    let hops = hops.iter().map(|hop| self.known_port(hop)).collect::<Option<_>>()?;
                    Some(Path { hops, source: PathSource::OneOf }).filter(|path| self.reaches(path, flow.to))
                };
                // With some of them unknown, those left would seem likelier than they are.
                let paths: Option<Vec<Path>> = paths.into_iter().map(path).collect();
                self.routes.paths.set_one_of(flow, paths.unwrap_or_default(), time_ns);
            }
            RouteUpdate::Connected { flow, number } => {
                if let Some(flow) = self.known_flow(&flow) {
                    self.routes.queue_pairs.open(number, flow, time_ns);
                }
            }
            RouteUpdate::Closed { port, number } => {
                if let Some(port) = self.known_port(&port) {
                    self.routes.queue_pairs.close(port, number, time_ns);
                }
            }
            RouteUpdate::Probe { flow, answer_port, transport, sent_ns, rtt_ns, turn_ns } => {
                let Some(flow) = self.known_flow(&flow) else { return };
                let is_time = |ns: Option<f64>| ns.is_none_or(|ns| ns.is_finite() && ns >= 0.0);
                if !is_time(rtt_ns) || !is_time(turn_ns) || sent_ns > time_ns {
                    return;
                }
                if transport == ProbeTransport::Tcp {
                    self.routes.probes.take_twin(TcpProbe { sent_ns, ends: [flow.from, flow.to], rtt_ns });
                    return;
                }
                let complete = |flow: Flow| self.routes.path(flow, sent_ns).filter(|path| self.reaches(path, flow.to));
                let Some((there, back)) =
                    complete(flow).zip(complete(Flow { source_port: answer_port, ..flow.reverse() }))
                else {
                    return;
                };
                let links: Arc<[usize]> = there.hops.iter().chain(&back.hops).copied().collect();
                let second = self.second_crossings(&links);
                let probe = Probe { sent_ns, ends: [flow.from, flow.to], links, second, rtt_ns, turn_ns };
                self.routes.probes.take(probe);
            }
        }
    }

    /// Egress ports by which cables are crossed for the second time, as bits.
    fn second_crossings(&self, links: &[usize]) -> u32 {
        let is_second = |at: usize| self.ports.list[links[at]].peer.is_some_and(|peer| links[..at].contains(&peer));
        (0..links.len().min(32)).filter(|at| is_second(*at)).fold(0, |bits, at| bits | 1 << at)
    }

    /// Paths that a flow took or may have taken at an instant: its own, those of which it takes one, or else all between the same two
    /// switches.
    pub fn paths_of(&self, flow: Flow, time_ns: i64) -> Vec<Arc<Path>> {
        let own = self.routes.paths.all_at(flow, time_ns);
        if !own.is_empty() {
            return own.to_vec();
        }
        let last = self.ports.list[flow.to].peer;
        let Some((leaves, last)) = self.leaves(flow).zip(last) else { return Vec::new() };
        self.routes.paths.alternatives(flow, leaves, last).into_iter().map(Arc::new).collect()
    }

    /// Switches of the two ports of a flow.
    fn leaves(&self, flow: Flow) -> Option<[usize; 2]> {
        Some([self.peer_node(flow.from)?, self.peer_node(flow.to)?])
    }

    /// Index of the port with these names of its node and on it.
    pub fn port_at(&self, node: &str, port: &str) -> Option<usize> {
        let node = self.topology.node(node)?;
        self.ports.at(&LinkEnd { node, port: port.to_owned() })
    }

    /// Names of a port: of its node, and on it.
    pub fn port_name(&self, port: usize) -> (String, String) {
        let LinkEnd { node, port } = &self.ports.list[port].end;
        (self.topology.nodes[*node].name.clone(), port.clone())
    }

    fn known_port(&self, PortName { node, port }: &PortName) -> Option<usize> {
        self.port_at(node, port)
    }

    fn known_flow(&self, FlowName { from, to, source_port }: &FlowName) -> Option<Flow> {
        Some(Flow { from: self.known_port(from)?, to: self.known_port(to)?, source_port: *source_port })
    }

    /// Whether a path leads to a port.
    fn reaches(&self, path: &Path, to: usize) -> bool {
        path.hops.last().is_some_and(|hop| self.ports.list[*hop].peer == Some(to))
    }

    /// Whether the link behind an egress port connects two switches.
    pub fn is_between_switches(&self, egress: usize) -> bool {
        let is_switch = |node: usize| self.topology.nodes[node].role != Role::Host;
        is_switch(self.ports.list[egress].end.node) && self.peer_node(egress).is_some_and(is_switch)
    }

    /// The link behind a port, or the port alone if its other end is not known.
    pub fn link_or_port(&self, port: usize) -> LocationId {
        self.ports.list[port].link.map_or(LocationId::Port(port), LocationId::Link)
    }

    /// The ports of a path, then the port that it leads to, in words: `h1 port 1 > leaf1 port 9 > spine2 port 3 > h7 port 1`.
    pub fn path_words(&self, hops: &[usize]) -> String {
        let name = |port: usize| {
            let end = &self.ports.list[port].end;
            format!("{} port {}", self.topology.nodes[end.node].name, end.port)
        };
        let last = hops.last().and_then(|hop| self.ports.list[*hop].peer);
        let all: Vec<String> = hops.iter().copied().chain(last).map(name).collect();
        all.join(" > ")
    }
}
