//! The collector: ingest, store, query, serve; and the client that asks it. `main` is only the command line.

pub mod config;
pub mod duration;
