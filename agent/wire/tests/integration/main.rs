//! Integration tests of the wire format: round trips, foreign senders, metric names.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod catalog;
mod foreign;
mod round_trip;
