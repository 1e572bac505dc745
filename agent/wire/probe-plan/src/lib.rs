//! Probe plans: messages and bounds of the two gRPC methods between agents that trace and probe, and the collector.
//!
//! An agent asks for its plan every [`ASK_EVERY`] and tells with it how its ports answer probes. The collector knows which
//! hosts exchange much, so it chooses the targets. The agent reports traced paths and raw results of probes every
//! [`REPORT_EVERY`]. An agent without an answer goes on for as long as its plan lasts, then sends nothing.
//!
//! ```
//! use fabriclens_probe_plan::{PlanRequest, ProbedPort};
//!
//! let port = ProbedPort { name: "mlx5_0/1".to_owned(), address: vec![10, 0, 0, 1], ..ProbedPort::default() };
//! let request = PlanRequest { host: "gpu-01".to_owned(), agent: 1, ports: vec![port] };
//! assert!(request.check().is_ok());
//! ```

#![forbid(unsafe_code)]

mod address;
mod bounds;
mod plan;
mod report;

pub use address::{address, octets};
pub use bounds::{Malformed, PORTS, RESULTS, SOURCE_PORTS, TARGETS};
pub use plan::{ClassSource, PairClass, PlanReply, PlanRequest, ProbedPort, Target};
pub use report::{Hop, ProbeResult, ProbeTransport, ReportReply, ReportRequest, ReportedPair, TracedPath};

use std::time::Duration;

/// Path of the gRPC method by which an agent asks for its plan.
pub const PLAN: &str = "/fabriclens.v1.Probes/Plan";
/// Path of the gRPC method by which an agent reports.
pub const REPORT: &str = "/fabriclens.v1.Probes/Report";
/// Interval at which an agent asks for its plan.
pub const ASK_EVERY: Duration = Duration::from_secs(10);
/// Time that a plan lasts after the request that it answers.
pub const LASTS: Duration = Duration::from_secs(60);
/// Interval at which an agent reports. Windows of results are judged some seconds after their end.
pub const REPORT_EVERY: Duration = Duration::from_secs(2);
