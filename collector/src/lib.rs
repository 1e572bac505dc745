//! The collector process: command line, start and stop of all services, back-test of recordings, tokens.
#![forbid(unsafe_code)]

pub mod backtest;
pub mod cli;
pub mod serve;
pub mod token;
