//! Integration tests of the query engine: scripts, limits, comparison with Prometheus.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod differential;
mod limits;
mod mixed_kinds;
mod promqltest;
mod scripts;
