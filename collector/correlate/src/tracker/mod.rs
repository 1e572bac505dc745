//! Open incidents and their life cycle: opened by a detector, evaluated again at each tick, closed when nothing is found.

mod baseline_freeze;
mod evaluation;
mod eviction;
pub mod incident_tracker;
mod open_incident;
mod opening;
#[cfg(test)]
mod tests;
mod timing;
