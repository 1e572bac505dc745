//! `[probes]`: traces paths and probes pairs of ports, as the collector plans.

mod counts;
mod doctor;
mod ports;
mod settings;
mod targets;

pub use counts::{ProbingCounts, TraceCounts};
pub use doctor::state;
pub use ports::{RoutedPorts, routed_ports};
pub use settings::Probing;
pub use targets::{TracePlan, trace_plan};
