//! What running jobs send, and where packets are thought to be lost.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use fabriclens_correlate::{HostPort, QueuePairFlows, SuspectFlows};

/// What the live evaluation knows and plans depend on.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// Ports whose losses or slowness the rules of paths must place.
    pub suspects: HashSet<HostPort>,
    /// Flows over links that may lose probes.
    pub suspect_flows: SuspectFlows,
    /// Bytes per second that a host port sends and receives.
    pub bytes: HashMap<HostPort, [f64; 2]>,
    /// Connected queue pairs, as far as they were read.
    pub flows: HashMap<HostPort, Arc<QueuePairFlows>>,
}
