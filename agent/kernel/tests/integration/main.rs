//! Integration tests of the kernel interface: the live kernel, recorded hosts.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixtures;
mod flow_socket;
mod live;
mod lldp;
mod nvml;
mod recorded;
