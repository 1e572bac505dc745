//! Which ports agents trace and probe, and what becomes of their reports. Agents offer their ports; the planner chooses targets
//! from the topology and from the queue pairs of running jobs; traced paths become egress ports of switches, and both paths and
//! results wait in a bounded feed for the live evaluation. Kept in memory only: agents offer and report again.
//!
//! ```
//! use fabriclens_core::telemetry::Telemetry;
//! use fabriclens_correlate::Topology;
//! use fabriclens_base::Sender;
//! use fabriclens_probe_plan::{PlanReply, PlanRequest, ProbedPort};
//! use fabriclens_probing::Probing;
//! use prost::Message;
//! use std::time::Instant;
//!
//! let telemetry = Telemetry::new()?;
//! let probing = Probing::new(fabriclens_config::Probes::default(), Default::default(), telemetry.probes, 32 << 20);
//! let now = Instant::now();
//! for host in 1..=2 {
//!     let port = ProbedPort { name: "mlx5_0/1".into(), address: vec![10, 0, 0, host], queue_pair: 9, ..ProbedPort::default() };
//!     let request = PlanRequest { host: format!("gpu-{host}"), agent: 1, ports: vec![port] };
//!     probing.ask(Sender::Bound, &request, now)?;
//! }
//! probing.replan(&Topology::default(), now, 0);
//! let request = PlanRequest { host: "gpu-1".into(), agent: 1, ports: Vec::new() };
//! let plan = PlanReply::decode(probing.ask(Sender::Bound, &request, now)?)?;
//! assert_eq!(plan.targets.len(), 0, "its ports are gone");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

#[cfg(test)]
mod cost;
mod coverage;
mod demand;
mod feed;
#[cfg(test)]
mod fleet;
mod hops;
mod inferred;
mod kept_traces;
mod labels;
mod plan_table;
mod planner;
mod rates;
mod registry;
mod reports;
mod service;
mod status;
mod targets;
mod trace_status;

pub use coverage::Coverage;
pub use demand::Demand;
pub use registry::OfferRefused;
pub use reports::ReportRefused;
pub use service::{Probing, run};
pub use status::{HostStatus, PairStatus, PortStatus, Status, Summary};
pub use trace_status::{HopStatus, Match, TraceStatus};
