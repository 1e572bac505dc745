//! Integration tests of the agent: one program, so that its dependencies are linked once.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod capture;
mod collection;
mod collectives;
mod config;
mod engine;
mod golden;
mod gpu;
mod help;
mod hosts;
mod http;
mod ib_fabric;
mod kernel_log;
mod mpi;
mod path_tracing;
mod probe_plans;
mod reader_lease;
mod restart;
mod spool;
mod spool_process;
mod status;
mod tcp_twins;
mod uplink;
mod workload;
