//! Integration tests of the job registry and of scheduler formats.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bounds;
mod claims;
mod common;
mod kubernetes;
mod observed;
mod recorded;
mod registry;
