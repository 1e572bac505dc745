//! What the API says of probing.

use fabriclens_config::Probes;
use fabriclens_probe_plan::{ClassSource, PairClass, PlanReply, ProbedPort};
use prost::Message as _;
use serde::Serialize;

use crate::coverage::Coverage;
use crate::plan_table::Totals;
use crate::planner::{class_name, traffic_class};
use crate::registry::Offer;
use crate::targets::address;
use crate::trace_status::TraceStatus;

/// All of it, with one page of hosts.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Sums.
    pub summary: Summary,
    /// Hosts in order of their names, from an offset on.
    pub hosts: Vec<HostStatus>,
    /// Offset of the next page; none after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<usize>,
}

/// Sums over all hosts.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Hosts whose agents ask for plans.
    pub hosts: usize,
    /// Ports that plans use.
    pub ports: usize,
    /// Ports that plans do not use.
    pub unused_ports: usize,
    /// Pairs of ports by class.
    pub pairs: std::collections::BTreeMap<&'static str, usize>,
    /// Pairs that did not fit into the plan of their host.
    pub left_out: usize,
    /// Probes per second, with TCP twins.
    pub probes_per_s: f64,
    /// Traces per second.
    pub traces_per_s: f64,
    /// Links that traced paths cross.
    pub coverage: Coverage,
}

/// A host.
#[derive(Clone, Debug, Serialize)]
pub struct HostStatus {
    /// Name.
    pub host: String,
    /// Its ports.
    pub ports: Vec<PortStatus>,
    /// Pairs of its plan, the most important first; only where one host is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<Vec<PairStatus>>,
    /// The last trace of each source port; only where one host is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces: Option<Vec<TraceStatus>>,
}

/// A port.
#[derive(Clone, Debug, Serialize)]
pub struct PortStatus {
    /// Name.
    pub port: String,
    /// RoCE v2 address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// InfiniBand LID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lid: Option<u32>,
    /// RoCE: traffic class of traces and probes from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_class: Option<u32>,
    /// Where the traffic class comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_source: Option<&'static str>,
    /// InfiniBand: service level of probes from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_level: Option<u32>,
    /// Where the service level comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level_source: Option<&'static str>,
    /// Whether it answers RDMA probes.
    pub answers: bool,
    /// Whether its agent traces from it.
    pub traces: bool,
    /// Why plans do not use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unused: Option<&'static str>,
}

/// A pair of ports in a plan.
#[derive(Clone, Debug, Serialize)]
pub struct PairStatus {
    /// Own port.
    pub from: String,
    /// The other host.
    pub host: String,
    /// Its port.
    pub port: String,
    /// Class.
    pub class: &'static str,
    /// UDP source ports.
    pub source_ports: Vec<u32>,
    /// Interval between two probes, ms; 0: none.
    pub probe_every_ms: u32,
    /// Interval of tracing each source port, ms; 0: none.
    pub trace_every_ms: u32,
    /// Whether each probe has a TCP twin.
    pub tcp_twin: bool,
}

pub(crate) fn summary(totals: &Totals, coverage: Coverage) -> Summary {
    Summary {
        hosts: totals.hosts,
        ports: totals.ports,
        unused_ports: totals.unused.len(),
        pairs: totals.pairs.iter().map(|(class, count)| (*class, *count)).collect(),
        left_out: totals.left_out,
        probes_per_s: totals.probes_per_s,
        traces_per_s: totals.traces_per_s,
        coverage,
    }
}

pub(crate) fn host(offer: &Offer, totals: &Totals, settings: &Probes, plan: Option<bytes::Bytes>) -> HostStatus {
    let unused = |name: &str| {
        let of_host = totals.unused.iter().find(|(host, port, _)| *host == offer.host && port == name);
        of_host.map(|(_, _, why)| why.words())
    };
    let ports = offer.ports.iter().map(|port| PortStatus {
        port: port.name.clone(),
        address: address(&port.address).map(|ip| ip.to_string()),
        lid: Some(port.lid).filter(|lid| *lid != 0),
        traffic_class: Some(traffic_class(port, settings)).filter(|_| port.lid == 0),
        class_source: Some(class_source(port, settings)).filter(|_| port.lid == 0),
        service_level: Some(settings.service_level.map_or(0, u32::from)).filter(|_| port.lid != 0),
        level_source: Some(level_source(settings)).filter(|_| port.lid != 0),
        answers: port.queue_pair != 0,
        traces: port.traces,
        unused: unused(&port.name),
    });
    HostStatus { host: offer.host.to_string(), ports: ports.collect(), pairs: plan.map(pairs), traces: None }
}

/// Where the traffic class of a port comes from.
fn class_source(port: &ProbedPort, settings: &Probes) -> &'static str {
    match (settings.traffic_class, port.traffic_class, port.class_source()) {
        (Some(_), ..) => "probes.traffic_class",
        (None, Some(_), ClassSource::Driver) => "forced by the driver of the host",
        (None, Some(_), ClassSource::RdmaCm) => "default of the host's RDMA-CM",
        (None, Some(_), ClassSource::Unknown) => "the host's settings",
        (None, None, _) => "unknown, so 0",
    }
}

/// Where the service level of InfiniBand ports comes from.
fn level_source(settings: &Probes) -> &'static str {
    if settings.service_level.is_some() { "probes.service_level" } else { "unknown, so 0" }
}

fn pairs(plan: bytes::Bytes) -> Vec<PairStatus> {
    let targets = PlanReply::decode(plan).unwrap_or_default().targets;
    let pair = |target: fabriclens_probe_plan::Target| PairStatus {
        class: class_name(PairClass::try_from(target.class).unwrap_or(PairClass::Unknown)),
        from: target.from,
        host: target.host,
        port: target.to.map(|to| to.name).unwrap_or_default(),
        source_ports: target.source_ports,
        probe_every_ms: target.probe_every_ms,
        trace_every_ms: target.trace_every_ms,
        tcp_twin: target.tcp_twin,
    };
    targets.into_iter().map(pair).collect()
}
