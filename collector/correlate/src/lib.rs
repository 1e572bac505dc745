//! From counters to verdicts: detectors look at signals and say what is wrong where; what belongs together becomes an
//! incident, with its root, who causes it and who suffers. Signals are asked in PromQL, so any engine can answer.

mod backtest;
mod cables;
pub mod detect;
mod district;
mod doubt;
mod fabric;
mod finding;
mod flows;
mod frame;
mod frames;
mod graph;
mod history;
pub mod incident;
mod late;
pub mod limits;
mod priority;
pub mod recording;
mod scene;
mod senders;
mod signal;
mod standing;
pub mod topology;
mod usual;
mod victims;
mod wait;
mod watch;

pub use backtest::backtest;
pub use doubt::Reason as DoubtReason;
pub use fabric::{Fabric, Job, Port, Ports};
pub use finding::{Evidence, Finding, Kind, Root};
pub use flows::{Ends, HostPort, connected};
pub use frame::{FULL as FULL_PACKET, Frame};
pub use frames::{ask, frames};
pub use history::{History, Stretch};
pub use late::Spans;
pub use limits::{Limit, LimitError, Limits};
pub use priority::Priorities;
pub use scene::{Fare, Scene};
pub use signal::{ALL, Join, Row, Signal};
pub use standing::Standing;
pub use topology::{End, Known, Link, Node, Role, Topology};
pub use usual::{Load, Usual};
pub use watch::Watch;
