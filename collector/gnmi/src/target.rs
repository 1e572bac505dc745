//! A target, and what is told of it.

use std::sync::Arc;

use fabriclens_config::GnmiTarget;

use crate::subscriptions::Stream;

/// A clock, Unix ms.
pub trait Clock: Send + Sync {
    /// Now.
    fn now_ms(&self) -> i64;
}

/// Counts what happens to a target.
pub trait Observer: Send + Sync {
    /// A message arrived: its bytes, its values, and its updates that could not be read.
    fn message(&self, stream: &Stream, bytes: usize, values: usize, unread: usize);
    /// A stream ended, for a reason that is a word.
    fn failed(&self, stream: &Stream, reason: &'static str);
}

/// A target and what is told of it.
#[derive(Clone)]
pub struct Target {
    /// Its configuration.
    pub config: Arc<GnmiTarget>,
    /// Its counters.
    pub observer: Arc<dyn Observer>,
    /// The clock of this host.
    pub clock: Arc<dyn Clock>,
}
