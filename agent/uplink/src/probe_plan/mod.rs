//! The plan by which the collector chooses what this host traces and probes: the threads that do it offer their ports and
//! take the plan, and tasks beside the uplinks ask for it and report what was found.
//!
//! With several uplinks (samples are duplicated) the plan of the first collector that answers holds: two plans at once would
//! double the packets. Reports go to the active collector of every uplink, because each judges for itself and names in reports
//! are those of hosts and ports, not of a plan.

mod ask;
mod plans;
mod report;

pub use ask::PlanTask;
pub use plans::{Finding, Part, Plan, PlanState, PlanStats, ProbePlans};
pub use report::ReportTask;
