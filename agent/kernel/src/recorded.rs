//! Recorded hosts.
