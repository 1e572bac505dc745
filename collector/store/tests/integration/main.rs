//! Integration tests of the storage engine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocks;
mod damage;
mod faults;
mod formats;
mod histograms;
mod kill;
mod metadata;
mod model;
mod reads;
mod rollups;
