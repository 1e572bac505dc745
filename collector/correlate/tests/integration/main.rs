//! Integration tests of the detectors and of incident tracking.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backtest;
mod cables;
mod collectives;
mod common;
mod concurrent;
mod counter_sanity;
mod devices;
mod docs;
mod eviction;
mod fault_domains;
mod harmless;
mod infiniband;
mod infiniband_hosts;
mod infiniband_paths;
mod life_of_jobs;
mod links;
mod ordinary_life;
mod partly_read;
mod paths;
mod probes_alone;
mod rails;
mod scenarios;
mod signals;
mod spraying;
mod streaming_eval;
mod topology;
mod verdicts;
mod wait_graph;
