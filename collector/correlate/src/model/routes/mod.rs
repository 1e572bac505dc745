//! What is known of the paths of flows: traced or computed paths, connected queue pairs with their source ports, and results
//! of probes. Empty where no agent tells of them; every rule that reads them then says nothing.

pub mod path;
mod path_table;
pub mod probes;
mod queue_pairs;
pub mod update;

use path::{Flow, Path};
use path_table::PathTable;
use probes::Probes;
pub use queue_pairs::QueuePair;
use queue_pairs::QueuePairTable;
use std::collections::HashSet;
use std::sync::Arc;

/// Paths, queue pairs and probes, by ports of one fabric.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// Paths by flow.
    pub(super) paths: PathTable,
    /// Connected queue pairs by port.
    pub(super) queue_pairs: QueuePairTable,
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

    /// Flows whose own newest path crosses any of these egress ports.
    pub fn flows_over<'a>(&'a self, links: &'a HashSet<usize>) -> impl Iterator<Item = Flow> + 'a {
        self.paths.flows_over(links)
    }

    /// Drops traced paths that were not told again since an instant, Unix nanoseconds.
    pub(crate) fn forget_paths_before(&mut self, time_ns: i64) {
        self.paths.forget_before(time_ns);
    }

    /// Drops what is known of ports that are gone.
    pub(crate) fn forget(&mut self, ports: &[usize]) {
        let ports: HashSet<usize> = ports.iter().copied().collect();
        self.paths.forget(&ports);
        self.queue_pairs.forget(&ports);
        self.probes.forget(&ports);
    }
}
