//! Integration tests of job reports.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod collectives;
mod common;
mod cost;
mod inside;
mod links;
mod report;
