//! The background threads of a store and their rounds: one flushes the head, one expires, merges and rolls up blocks, one
//! repeats changes of the metadata database in its copy.

use crate::error::StoreError;
use crate::notifier::Notifier;
use crate::shared::{MERGE, Shared};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between maintenance rounds.
const ROUND: Duration = Duration::from_secs(1);
/// Niceness of the background threads: appends and queries go first, and maintenance still gets a quarter of their
/// share.
const NICE: i32 = 5;
/// Rounds after which the unused index of a block is dropped.
const IDLE_ROUNDS: u32 = 300;

/// Name and body of a background thread.
type Thread = (&'static str, fn(&Shared));

const THREADS: [Thread; 3] = [
    ("store-flush", |s| s.run(&s.flush_notifier, Shared::flush_due)),
    ("store-merge", |s| s.run(&s.merge_notifier, Shared::expire_and_merge)),
    ("store-copy", |s| {
        s.run(&s.copy_notifier, |s| {
            s.db.update_copy();
            Ok(())
        });
    }),
];

/// Starts the background threads, one per item.
pub fn spawn(shared: &Arc<Shared>) -> impl Iterator<Item = std::io::Result<JoinHandle<()>>> {
    THREADS.iter().map(|(name, body)| {
        let shared = shared.clone();
        std::thread::Builder::new().name((*name).into()).spawn(move || body(&shared))
    })
}

impl Shared {
    fn run(&self, notifier: &Notifier, round: fn(&Self) -> Result<(), StoreError>) {
        // Niceness is per thread on Linux. If it is forbidden, appends and queries wait slightly longer.
        if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE) {
            tracing::debug!(%error, "cannot lower the priority of store maintenance");
        }
        while !self.closed.load(Ordering::Acquire) {
            notifier.wait(ROUND);
            if self.closed.load(Ordering::Acquire) {
                return;
            }
            match round(self) {
                Err(e) if !matches!(e, StoreError::Closed) => {
                    tracing::error!(error = %e, "store maintenance failed; retrying");
                    notifier.wait(ROUND);
                }
                _ => {}
            }
        }
    }

    /// Retention before merges: it may free the space that merges need. Rollups are computed from merged blocks.
    pub fn expire_and_merge(&self) -> Result<(), StoreError> {
        let merging = self.maintenance.merge.lock();
        let result = self
            .retain()
            .and_then(|()| self.merge(&self.blocks))
            .and_then(|()| self.roll_up())
            .and_then(|()| self.merge(&self.rollups));
        drop(merging);
        self.drop_idle_indexes(IDLE_ROUNDS);
        self.note(MERGE, result)
    }

    /// Drops indexes of blocks that were not used for this many calls.
    pub fn drop_idle_indexes(&self, calls: u32) {
        for block in self.blocks.all().iter().chain(self.rollups.all().iter()) {
            block.drop_idle_indexes(calls);
        }
    }
}
