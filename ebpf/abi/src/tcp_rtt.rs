//! Smoothed round trips of TCP, one histogram for each interface and class of destinations.

pub use crate::histogram::Record;
