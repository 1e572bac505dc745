//! Forwarding tables of InfiniBand subnets, as the reader of each tells them, and the paths between adapter ports that follow
//! from them. Kept in memory only: a new collector asks the readers to tell all again.
//!
//! A path is computed when it is asked for. [`SubnetPaths::finder`] takes a snapshot, so that many paths can be computed
//! on another thread while the tables change.

#![forbid(unsafe_code)]

#[cfg(test)]
mod fabric;
mod finder;
mod paths;
mod subnet;
mod tables;

pub use finder::{Endpoint, PathFinder};
pub use paths::{Hop, HopLanes, PairPaths, PathError};
pub use subnet::{Refused, SubnetSummary};

use fabriclens_base::Sender;
use fabriclens_forwarding_tables::TellRequest;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use subnet::Subnets;

/// Tables of all subnets; clones share them.
#[derive(Clone, Debug, Default)]
pub struct SubnetPaths {
    subnets: Arc<Mutex<Subnets>>,
    version: Arc<AtomicU64>,
}

impl SubnetPaths {
    /// Bounds the memory of the tables of all subnets, bytes; 1 GiB without it.
    pub fn limit(&self, bytes: usize) {
        self.subnets.lock().limit(bytes);
    }

    /// Takes a request of a reader. True if the reader must begin a new telling. `reads` says whether an agent, by host and
    /// number, has the lease of its subnet.
    ///
    /// # Errors
    /// [`Refused`]; nothing of the request is taken then. Tables that are too large are forgotten.
    pub fn tell(
        &self,
        sender: Sender<'_>,
        request: TellRequest,
        now: Instant,
        reads: impl Fn(&str, u64) -> bool,
    ) -> Result<bool, Refused> {
        let complete = request.complete;
        let taken = self.subnets.lock().tell(sender, request, now, reads)?;
        if taken.changed && complete {
            self.version.fetch_add(1, Ordering::Relaxed);
        }
        Ok(taken.again)
    }

    /// Number that changes with the tables: paths that were computed under another one may have changed.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Snapshot from which paths are computed.
    pub fn finder(&self, now: Instant) -> PathFinder {
        PathFinder::new(self.subnets.lock().usable(now))
    }

    /// Whether paths of any subnet can be computed.
    pub fn is_usable(&self, now: Instant) -> bool {
        !self.subnets.lock().usable(now).is_empty()
    }

    /// What is known of each subnet.
    pub fn summaries(&self, now: Instant) -> Vec<SubnetSummary> {
        self.subnets.lock().summaries(now)
    }
}
