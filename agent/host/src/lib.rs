//! The host as the agent sees it: files below a root, the clock, RDMA devices and netdevs, and the process' capabilities.
//!
//! The bottom crate of the agent. Samplers, workload and probes read through it; it knows no metric source.

pub mod batch;
pub mod capabilities;
pub mod clock;
pub mod discover;
pub mod inventory;
pub mod no_calls;
pub mod rails;
pub mod roots;
pub mod sysfile;
