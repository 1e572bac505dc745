//! The `fabriclens` program: command line, start and stop of the collector, back-tests, tokens. The services are in the
//! crates next to this one.
#![forbid(unsafe_code)]

pub mod backtest;
pub mod cli;
pub mod serve;
pub mod token;
