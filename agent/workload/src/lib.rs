//! Which jobs run on this host, as the kernel shows it: by their control groups, and by the environment of a process
//! where these do not tell. Used by the samplers `workload`, `queue_pairs` and `tcp_peers`, and by `capture`.
//!
//! Observation is truth and needs nobody's cooperation: no hook, no request to a scheduler. What it costs is bounded at
//! each sample, see [`tree`] and [`scan`].

pub mod cgroup;
pub mod details;
pub mod environ;
pub mod jobs;
pub mod mounts;
pub mod rules;
pub mod scan;
pub mod tree;
pub mod users;

pub use jobs::{Details, Jobs, Key};
