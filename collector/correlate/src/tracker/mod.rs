//! Open incidents and their life cycle: opened by a detector, evaluated again at each tick, closed when nothing is found.

mod baseline_freeze;
mod considered_causes;
mod evaluation;
mod eviction;
pub mod incident_tracker;
mod open_incident;
mod open_summary;
mod opening;
mod past_incidents;
mod path_suspects;
pub mod probe_suspects;
mod reevaluation;
#[cfg(test)]
mod tests;
mod timing;
