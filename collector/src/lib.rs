//! The collector: ingest, store, query, serve; and the client that asks it. `main` is only the command line.
#![forbid(unsafe_code)]

pub mod api;
mod aside;
pub mod auth;
pub mod backtest;
pub mod cli;
pub mod client;
pub mod config;
pub mod data;
pub mod duration;
pub mod endpoint;
mod every;
pub mod forward;
pub mod incidents;
pub mod ingest;
pub mod jobs;
mod lines;
mod parts;
pub mod pressure;
pub mod reload;
mod room;
pub mod serve;
mod tap;
pub mod telemetry;
pub mod thresholds;
pub mod topology;
mod written;
