//! What is known of the paths of flows: traced or computed paths, connected queue pairs with their source ports, and results
//! of probes. Empty where no agent tells of them; every rule that reads them then says nothing.

pub mod path;
mod path_table;
pub mod probes;
mod queue_pairs;
pub mod update;

use crate::model::fabric::Fabric;
use crate::model::topology::LinkEnd;
use path::{Flow, Path};
use path_table::PathTable;
use probes::{Probe, Probes};
pub use queue_pairs::QueuePair;
use queue_pairs::QueuePairTable;
use std::collections::HashSet;
use std::sync::Arc;
use update::{FlowName, PortName, RouteUpdate};

/// Paths, queue pairs and probes, by ports of one [`Fabric`].
#[derive(Clone, Debug, Default)]
pub struct Routes {
    paths: PathTable,
    queue_pairs: QueuePairTable,
    /// Results of probes.
    pub probes: Probes,
}

impl Routes {
    /// Whether no path is known.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The path of a flow at an instant, if it is exactly known.
    pub fn path(&self, flow: Flow, time_ns: i64) -> Option<&Arc<Path>> {
        self.paths.at(flow, time_ns)
    }

    /// Queue pairs of a port that were connected at some time of a span, Unix nanoseconds.
    pub fn queue_pairs(&self, port: usize, span_ns: [i64; 2]) -> impl Iterator<Item = &QueuePair> {
        self.queue_pairs.of(port, span_ns)
    }

    /// Drops what is known of ports that are gone.
    pub(crate) fn forget(&mut self, ports: &[usize]) {
        let ports: HashSet<usize> = ports.iter().copied().collect();
        self.paths.forget(&ports);
        self.queue_pairs.forget(&ports);
        self.probes.forget(&ports);
    }
}

impl Fabric {
    /// Stores what became known of paths, queue pairs or probes at an instant, Unix nanoseconds. Ports that the fabric does not
    /// have are ignored, and so are paths over them and probes with impossible times.
    pub fn learn(&mut self, time_ns: i64, update: RouteUpdate) {
        match update {
            RouteUpdate::Path { flow, hops, source } => {
                let hops: Option<Vec<usize>> = hops.iter().map(|hop| self.known_port(hop)).collect();
                if let Some((flow, hops)) = self.known_flow(&flow).zip(hops) {
                    let path = Path { hops, source };
                    let leaves = self.leaves(flow).filter(|_| path.reaches(self, flow.to));
                    self.routes.paths.set(flow, path, time_ns, leaves);
                }
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
            RouteUpdate::Probe { flow, sent_ns, rtt_ns, turn_ns } => {
                let Some(flow) = self.known_flow(&flow) else { return };
                let is_time = |ns: Option<f64>| ns.is_none_or(|ns| ns.is_finite() && ns >= 0.0);
                if !is_time(rtt_ns) || !is_time(turn_ns) || sent_ns > time_ns {
                    return;
                }
                let complete = |flow: Flow| self.routes.path(flow, sent_ns).filter(|path| path.reaches(self, flow.to));
                let Some((there, back)) = complete(flow).zip(complete(flow.reverse())) else { return };
                let links = there.hops.iter().chain(&back.hops).copied().collect();
                let probe = Probe { sent_ns, ends: [flow.from, flow.to], links, rtt_ns, turn_ns };
                self.routes.probes.take(probe);
            }
        }
    }

    /// Paths that a flow took or may have taken at an instant: its own, or else all between the same two switches.
    pub fn paths_of(&self, flow: Flow, time_ns: i64) -> Vec<Arc<Path>> {
        if let Some(own) = self.routes.path(flow, time_ns) {
            return vec![own.clone()];
        }
        let last = self.ports.list[flow.to].peer;
        let Some((leaves, last)) = self.leaves(flow).zip(last) else { return Vec::new() };
        self.routes.paths.alternatives(flow, leaves, last).into_iter().map(Arc::new).collect()
    }

    /// Switches of the two ports of a flow.
    fn leaves(&self, flow: Flow) -> Option<[usize; 2]> {
        Some([self.peer_node(flow.from)?, self.peer_node(flow.to)?])
    }

    fn known_port(&self, PortName { node, port }: &PortName) -> Option<usize> {
        let node = self.topology.node(node)?;
        self.ports.at(&LinkEnd { node, port: port.clone() })
    }

    fn known_flow(&self, FlowName { from, to, source_port }: &FlowName) -> Option<Flow> {
        Some(Flow { from: self.known_port(from)?, to: self.known_port(to)?, source_port: *source_port })
    }
}
