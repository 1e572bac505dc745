//! From counters to verdicts.

mod baseline;
pub mod detectors;
mod engine;
mod model;
mod signals;
mod tracker;

pub use baseline::history::History;
pub use baseline::job_load::JobLoad;
pub use baseline::reference::Baseline;
pub use baseline::window::Window;
pub use detectors::context::{DetectorContext, JobSlowdown};
pub use detectors::counter_sanity::ImplausibleReason;
pub use detectors::thresholds::{OverrideError, Threshold, Thresholds};
pub use engine::backtest::backtest;
pub use engine::recording;
pub use model::fabric::{Fabric, Job};
pub use model::finding::{Evidence, Finding};
pub use model::frame::{FULL_PACKET_BYTES, Frame};
pub use model::incident::{Incident, Sender};
pub use model::kind::{IncidentKind, KindSpec, ObservedBy, Severity, SeverityRule};
pub use model::location::{Location, LocationId};
pub use model::ports::{Port, Ports};
pub use model::priority::Priorities;
pub use model::signal::Signal;
pub use model::topology;
pub use model::topology::{Link, LinkEnd, Node, Provenance, Role, Topology};
pub use signals::expression::{Alternatives, Divisor, Measure, Selector, Spread, Term};
pub use signals::frame_sink::FrameSink;
pub use signals::late_samples::TimeSpans;
pub use signals::query_eval::{ask, frames};
pub use signals::queue_pairs::{HostPort, QueuePairIndex, connected};
pub use signals::streaming_eval::StreamingEval;
pub use signals::table::{ALL, Join, SignalSpec};
pub use tracker::incident_tracker::IncidentTracker;
