//! Numbers by which a collector tells this agent process, or what a task of it tells, from others under the same host name.

use std::hash::{BuildHasher as _, RandomState};

/// A random number: differs from those of other agents, also under the same host name.
pub(crate) fn random_number() -> u64 {
    // Its keys are random in each process, and differ from one state to the next.
    RandomState::new().hash_one(std::process::id())
}
