//! Vendor counters.
