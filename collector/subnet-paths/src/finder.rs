//! Computes paths from a snapshot of the tables.

use crate::paths::{Distances, Pair, PairPaths, PathError, distances, host, paths};
use crate::subnet::Snapshot;
use crate::tables::Port;
use fabriclens_forwarding_tables::AdapterPort;
use parking_lot::Mutex;
use std::sync::Arc;

/// An adapter port, as series and topology name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// Host.
    pub host: String,
    /// Port, for instance `mlx5_0/1`.
    pub port: String,
    /// Switch and port that the topology says it is connected to. This finds it also where the node description names the
    /// host otherwise than its samples.
    pub attached: Option<(String, String)>,
}

/// A snapshot of all usable tables. Under adaptive routing, paths to one switch after the other are found much faster than in
/// another order.
#[derive(Debug)]
pub struct PathFinder {
    subnets: Vec<Arc<Snapshot>>,
    distances: Mutex<Option<LastDistances>>,
}

/// Subnet and switch that were asked for last, and the distances to it.
type LastDistances = (Arc<Snapshot>, u64, Arc<Distances>);

impl PathFinder {
    pub(crate) fn new(subnets: Vec<Arc<Snapshot>>) -> Self {
        Self { subnets, distances: Mutex::default() }
    }

    /// Paths from one adapter port to another.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn paths(&self, from: &Endpoint, to: &Endpoint) -> Result<PairPaths, PathError> {
        if self.subnets.is_empty() {
            return Err(PathError::NoTables);
        }
        let (of, sender) = self.port(from)?;
        let (subnet, receiver) = self.port(to)?;
        if !Arc::ptr_eq(of, subnet) {
            return Err(PathError::DifferentSubnets);
        }
        let adapter = |port: Port| -> &AdapterPort { &subnet.tables.adapters[&port] };
        let (from, to) = (adapter(sender), adapter(receiver));
        let attached = |port: Port, adapter: &AdapterPort| {
            let none = || PathError::NotAttached(host(adapter), adapter.name.as_str().into());
            subnet.index.attached(port).ok_or_else(none)
        };
        let (first, last) = (attached(sender, from)?, attached(receiver, to)?);
        paths(&subnet.tables, &Pair { from, to, first, last }, || self.distances(subnet, last.0))
    }

    fn distances(&self, subnet: &Arc<Snapshot>, to: u64) -> Arc<Distances> {
        let mut last = self.distances.lock();
        if let Some((of, switch, distances)) = &*last
            && Arc::ptr_eq(of, subnet)
            && *switch == to
        {
            return Arc::clone(distances);
        }
        let distances = Arc::new(distances(&subnet.tables, to));
        *last = Some((Arc::clone(subnet), to, Arc::clone(&distances)));
        distances
    }

    fn port(&self, end: &Endpoint) -> Result<(&Arc<Snapshot>, Port), PathError> {
        let attached = |subnet: &Snapshot| {
            let (switch, port) = end.attached.as_ref()?;
            subnet.index.at(&subnet.tables, switch, port.parse().ok()?)
        };
        let by_cable = self.subnets.iter().find_map(|subnet| Some((subnet, attached(subnet)?)));
        let by_name =
            || self.subnets.iter().find_map(|subnet| Some((subnet, subnet.index.named(&end.host, &end.port)?)));
        let unknown = || PathError::UnknownPort(end.host.clone(), end.port.clone());
        by_cable.or_else(by_name).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests;
