//! Integration tests of the collector: one program, so that its dependencies are linked once.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod alertmanager;
mod api;
mod audit;
mod auth;
mod collectives;
mod config;
mod console;
mod crash;
mod dashboards;
mod engines;
mod export;
mod forward;
mod gnmi;
mod hostile_clients;
mod hostile_queries;
mod incidents;
mod ingest;
mod job_notifications;
mod job_sources;
mod jobs;
mod kept_results;
mod kernel_log;
mod late;
mod live;
mod names;
mod native_histograms;
mod peers;
mod probes;
mod process;
mod prometheus;
mod queries;
mod report;
mod restart;
mod restore;
mod roles;
mod switches;
mod tls;
mod topology;
