//! The vocabulary of every later layer: topology, ports, jobs, frames of measured values, findings and incidents.

pub mod fabric;
mod fabric_paths;
pub mod finding;
pub mod frame;
pub mod incident;
pub mod inferred_cables;
pub mod kind;
pub mod location;
pub mod ports;
pub mod priority;
pub mod routes;
pub mod signal;
pub mod stats;
pub mod topology;
