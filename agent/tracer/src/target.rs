//! What is traced, and what is found: ports of this host, targets of the plan, paths.

use fabriclens_probe_plan::{ReportedPair, Target, TracedPath};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Shortest interval between two traces of a source port, whatever the plan says.
const SHORTEST: Duration = Duration::from_secs(5);

/// A port of this host from which paths are traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPort {
    /// Name as in the plan, for instance `mlx5_0/1`.
    pub name: String,
    /// Address of its flows.
    pub address: IpAddr,
    /// Interface of that address; `None`: packets go as the routing table says.
    pub device: Option<String>,
}

/// A target of the plan, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceTarget {
    /// The pair of ports, as it is reported; its `from` is the name of the [`LocalPort`].
    pub pair: Arc<ReportedPair>,
    /// Address of the target.
    pub address: IpAddr,
    /// Traffic class of its flows.
    pub traffic_class: u8,
    /// Source ports of its flows.
    pub source_ports: Vec<u16>,
    /// Interval between two traces of a source port.
    pub every: Duration,
}

impl TraceTarget {
    /// What a checked plan says of tracing; `None` if the target is not traced. `reachable` tells the address from its bytes.
    ///
    /// # Errors
    /// Why nothing may be sent to it.
    pub fn of(
        target: &Target,
        reachable: impl FnOnce(&[u8]) -> Result<IpAddr, String>,
    ) -> Result<Option<Self>, String> {
        let (Some(to), true) = (&target.to, target.trace_every_ms > 0 && !target.source_ports.is_empty()) else {
            return Ok(None);
        };
        // Privileged source ports belong to no flow.
        let flows =
            target.source_ports.iter().filter_map(|port| u16::try_from(*port).ok()).filter(|port| *port >= 1024);
        let pair = ReportedPair { from: target.from.clone(), host: target.host.clone(), port: to.name.clone() };
        Ok(Some(Self {
            pair: Arc::new(pair),
            address: reachable(&to.address)?,
            traffic_class: u8::try_from(target.traffic_class).unwrap_or(0),
            source_ports: flows.collect(),
            every: Duration::from_millis(target.trace_every_ms.into()).max(SHORTEST),
        }))
    }
}

/// A path to report: new, changed, or not reported for minutes.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The pair of ports.
    pub pair: Arc<ReportedPair>,
    /// The path, without the pair's position.
    pub path: TracedPath,
}
