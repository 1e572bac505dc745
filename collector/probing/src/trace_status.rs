//! What the API says of a trace: its switches by distance, with the ports by which the packet came and left, and what named them.

use serde::Serialize;

use fabriclens_correlate::PortName;

use crate::hops::{FabricIndex, Trace, address_of};

/// The last trace of a source port.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceStatus {
    /// Own port.
    pub from: String,
    /// The other host.
    pub host: String,
    /// Its port.
    pub port: String,
    /// UDP source port.
    pub source_port: Option<u16>,
    /// When the trace ended, Unix ms.
    pub traced_ms: i64,
    /// Time since then, seconds.
    pub age_seconds: f64,
    /// Whether all switches up to the receiver are among the hops.
    pub complete: bool,
    /// Whether the path is known.
    pub is_path: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
    /// Switches by distance.
    pub hops: Vec<HopStatus>,
}

/// A switch of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HopStatus {
    /// Addresses that answered; none if it is silent.
    pub addresses: Vec<String>,
    /// Its name, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
    /// Port by which the packet came, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<String>,
    /// Port by which the packet left, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<String>,
    /// What named the switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched: Option<Match>,
}

/// What named a switch of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Match {
    /// The cable of the host port at this end.
    Cable,
    /// Its address is that of one of its interfaces.
    Interface,
    /// Its address is one of the switch (loopback, management, configured).
    Address,
    /// No source but traces: it is named by its address.
    Trace,
}

/// A trace in words of a topology, at an instant (Unix nanoseconds).
pub(crate) fn status(trace: &Trace, index: &FabricIndex, now_ns: i64) -> TraceStatus {
    let resolved = index.resolve(trace);
    let path = resolved.as_deref().unwrap_or_default();
    let end = trace.hops.len().saturating_sub(1);
    let hop = |(at, addresses): (usize, &Vec<_>)| {
        let cabled = |port| index.leaf(port).map(|(node, ..)| node);
        let by_cable = if at == 0 { cabled(&trace.flow.from) } else { None };
        let by_cable = by_cable.or_else(|| (at == end && trace.complete).then(|| cabled(&trace.flow.to))?);
        let owners: Vec<_> = addresses.iter().filter_map(|ip| index.owner(*ip)).collect();
        let is_one = owners.len() == addresses.len() && owners.windows(2).all(|two| two[0].0 == two[1].0);
        let owner = owners.first().filter(|_| is_one);
        let node = by_cable.or_else(|| owner.map(|(node, _)| *node));
        let name = node.map(|node| index.topology().nodes[node].name.as_str());
        let interface = owner.filter(|(of, _)| Some(*of) == node).and_then(|(_, port)| *port);
        let matched = match (by_cable, name) {
            (Some(_), _) => Some(Match::Cable),
            (None, None) => None,
            (None, Some(name)) if address_of(name).is_some() => Some(Match::Trace),
            (None, Some(_)) if interface.is_some() => Some(Match::Interface),
            (None, Some(_)) => Some(Match::Address),
        };
        let far = path.get(at).and_then(|before| index.far(before));
        HopStatus {
            addresses: addresses.iter().map(ToString::to_string).collect(),
            switch: name.map(str::to_owned),
            ingress: interface.map(str::to_owned).or_else(|| far.map(|end: PortName| end.port)),
            egress: path.get(at + 1).map(|hop| hop.port.clone()),
            matched,
        }
    };
    TraceStatus {
        from: trace.flow.from.port.clone(),
        host: trace.flow.to.node.clone(),
        port: trace.flow.to.port.clone(),
        source_port: trace.flow.source_port,
        traced_ms: trace.at_ns / 1_000_000,
        age_seconds: (now_ns.saturating_sub(trace.at_ns).max(0) / 1_000_000) as f64 / 1e3,
        complete: trace.complete,
        is_path: resolved.is_ok(),
        why: resolved.as_ref().err().map(|why| why.words()),
        hops: trace.hops.iter().enumerate().map(hop).collect(),
    }
}
