//! State that the congestion thread shares with the threads of the devices.

use crate::device::Runner;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

/// Sources of one device, shared by its own thread and the congestion thread.
#[derive(Debug)]
pub(super) struct Lane {
    pub name: String,
    pub runners: Mutex<Vec<Runner>>,
    /// The device's own thread takes the congestion samples.
    pub alone: AtomicBool,
}

impl Lane {
    pub fn new(name: &str, runners: Vec<Runner>) -> Arc<Self> {
        Arc::new(Self { name: name.into(), runners: Mutex::new(runners), alone: AtomicBool::new(false) })
    }
}

/// State of the congestion thread.
#[derive(Debug, Default)]
pub(super) struct Congestion {
    pub lanes: Mutex<Arc<[Arc<Lane>]>>,
    /// Start and device of the read in progress.
    pub reading: Mutex<Option<(Instant, Arc<Lane>)>>,
    /// Number of the current thread; threads with lower numbers end.
    pub thread: AtomicU64,
}

impl Congestion {
    /// Replaces the list of devices.
    pub fn tell(&self, lanes: impl Iterator<Item = Arc<Lane>>) {
        *self.lanes.lock() = lanes.collect();
    }
}
