//! From counters to verdicts: detectors look for faults in the signals of every port, and an [`IncidentTracker`] turns what
//! they find into incidents with a location, culprits and victims.
//!
//! The layers, each of which knows only those before it: `model` (topology, ports, frames, findings), `signals` (how each
//! signal is measured), `baseline` (windows and what was before), [`detectors`], `tracker` (open incidents) and `engine`
//! (back-tests). The collector writes live samples through [`StreamingEval`], and reads slow signals by [`query_at`].
//!
//! ```
//! use fabriclens_correlate::{Fabric, Frame, IncidentKind, IncidentTracker, Ports, Signal, Thresholds, Topology};
//!
//! let fabric = Fabric::new(Topology::default(), Ports::default(), Vec::new());
//! let mut tracker = IncidentTracker::new(fabric, Thresholds::default());
//! let port = tracker.measured_port("node1", "mlx5_0/1").ok_or("no name")?;
//! for second in 0..90 {
//!     let mut frame = Frame::new(second * 1_000_000_000);
//!     // From second 80 on the NIC pauses its switch half of the time, because its host does not drain the full receive buffer.
//!     let pauses = second >= 80;
//!     frame.set(Signal::Rate, port, 12.5e9);
//!     frame.set(Signal::Rx, port, 4e9);
//!     frame.set(Signal::PauseTx, port, if pauses { 0.5 } else { 0.0 });
//!     frame.set(Signal::PauseFrames, port, if pauses { 200_000.0 } else { 0.0 });
//!     frame.set(Signal::QueueMax, port, if pauses { 3e5 } else { 0.0 });
//!     tracker.tick(frame);
//! }
//! let open = tracker.open();
//! assert_eq!(open[0].kind, IncidentKind::SlowReceiver);
//! assert!(open[0].explanation.starts_with("node1 port mlx5_0/1 pauses its switch 50 % of the time"));
//! # Ok::<(), &str>(())
//! ```

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
pub use engine::backtest::{BacktestError, backtest};
pub use engine::recording;
pub use model::fabric::{Fabric, Job};
pub use model::finding::{Evidence, Finding};
pub use model::frame::{FULL_PACKET_BYTES, Frame};
pub use model::incident::{Considered, Incident, IncidentPath, Sender};
pub use model::kind::{IncidentKind, KindSpec, ObservedBy, Scope, Severity, SeverityRule};
pub use model::location::{Location, LocationId};
pub use model::ports::{Port, Ports};
pub use model::priority::Priorities;
pub use model::routes::path::PathSource;
pub use model::routes::update::{FlowName, PortName, ProbeTransport, RouteUpdate};
pub use model::signal::Signal;
pub use model::topology;
pub use model::topology::{AddressOwner, Link, LinkEnd, Node, Provenance, Role, Topology};
pub use signals::expression::{Alternatives, Divisor, Measure, Selector, Spread, Term};
pub use signals::frame_sink::FrameSink;
pub use signals::late_samples::TimeSpans;
pub use signals::query_eval::{QueriedSignal, query_at, query_frames};
pub use signals::queue_pair_flows::{QueuePairFlows, known_queue_pair_flows, queue_pair_flows};
pub use signals::queue_pairs::{HostPort, QueuePairIndex, connected_ports};
pub use signals::streaming_eval::StreamingEval;
pub use signals::table::{ALL, Join, SignalSpec};
pub use tracker::incident_tracker::IncidentTracker;
pub use tracker::probe_suspects::SuspectFlows;
