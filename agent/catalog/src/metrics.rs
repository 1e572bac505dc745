//! Canonical metrics.
