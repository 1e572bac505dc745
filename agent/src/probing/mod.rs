//! `[probes]`: traces paths and probes pairs of ports, as the collector plans.

mod counts;
mod doctor;
mod port_classes;
mod ports;
mod prober_doctor;
mod settings;
mod targets;

pub use counts::{ProbingCounts, TraceCounts};
pub use doctor::state;
pub use port_classes::PortClasses;
pub use ports::{RoutedPorts, routed_ports};
pub use prober_doctor::prober_state;
pub use settings::Probing;
pub use targets::{ProbePlan, TracePlan, probe_plan, trace_plan};
