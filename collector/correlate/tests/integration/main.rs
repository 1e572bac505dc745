//! Integration tests of the detectors and of incident tracking.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cables;
mod common;
mod devices;
mod districts;
mod docs;
mod doubts;
mod graph;
mod leave;
mod links;
mod rails;
mod recorded;
mod scenarios;
mod several;
mod signals;
mod standing;
mod topology;
mod verdicts;
