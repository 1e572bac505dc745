//! State that the store handle and its background threads share. The modules that append, flush, merge and read are
//! built on it; it depends on none of them.

use crate::append_times::AppendTimes;
use crate::block::read::Block;
use crate::block_set::BlockSet;
use crate::changed_times::ChangedTimes;
use crate::dir::DataDir;
use crate::error::StoreError;
use crate::head::generation::Generation;
use crate::io::Files;
use crate::metadata::{MetadataDb, Metrics};
use crate::notifier::Notifier;
use crate::options::Options;
use crate::retention_clock::RetentionClock;
use crate::rollup::RolledUp;
use crate::rows::Appended;
use crate::wal::replay::Damage;
use crate::wal::writer::Log;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

/// Damage entries kept in memory, at most.
const MAX_DAMAGE: usize = 1000;

/// State shared by the handle and the background threads.
pub struct Shared {
    pub options: Options,
    pub files: Arc<dyn Files>,
    pub log: Mutex<Log>,
    pub append_times: AppendTimes,
    pub written: Condvar,
    pub head: RwLock<Head>,
    pub metadata: Metrics,
    /// Clock that retention measures ages by.
    pub retention_clock: Arc<RetentionClock>,
    /// The metadata database; holds `metadata`, `rolled_up` and the tables of other components.
    pub db: Arc<MetadataDb>,
    pub damage: Mutex<Vec<Damage>>,
    pub totals: Mutex<Appended>,
    /// Blocks of raw samples.
    pub blocks: BlockSet,
    /// Blocks of rollups, read where raw samples are too many or expired.
    pub rollups: BlockSet,
    /// Blocks whose samples are already in rollups.
    pub rolled_up: RolledUp,
    pub maintenance: Maintenance,
    /// Errors of the last flush and of the last merge, if they failed.
    pub last_errors: Mutex<[Option<String>; 2]>,
    pub flush_notifier: Notifier,
    pub merge_notifier: Notifier,
    /// Notified when the store closes.
    pub copy_notifier: Notifier,
    pub closed: AtomicBool,
    /// Newest sample accepted, Unix ms.
    pub newest: AtomicI64,
    /// Dropped last: releases the directory lock.
    pub dir: DataDir,
}

/// Rows in memory: the generation that takes appends, and full ones waiting to become blocks, oldest first.
pub struct Head {
    pub current: Generation,
    pub older: Vec<Arc<Generation>>,
    /// Recorded before anybody can read the change.
    pub changed: ChangedTimes,
}

/// Serializes maintenance. Flushing and merging have separate locks, so that a long merge never delays a flush.
pub struct Maintenance {
    /// Next free block number.
    pub next_block: AtomicU64,
    /// Held while flushing; the time when the current generation began.
    pub flush: Mutex<Instant>,
    /// Bytes of log of a full head, as of the last look at its series.
    pub full_head: AtomicU64,
    /// Flush the head before it is full.
    pub relieve_memory: AtomicBool,
    /// Held while merging, removing or linking blocks.
    pub merge: Mutex<()>,
}

impl Maintenance {
    /// Starts with the first free block number, and the bytes of log of a full head of few series.
    pub fn new(next_block: u64, head_bytes: u64) -> Self {
        Self {
            next_block: AtomicU64::new(next_block),
            full_head: AtomicU64::new(head_bytes),
            flush: Mutex::new(Instant::now()),
            relieve_memory: AtomicBool::new(false),
            merge: Mutex::new(()),
        }
    }
}

/// Index of the flush thread in [`Shared::last_errors`].
pub const FLUSH: usize = 0;
/// Index of the merge thread in [`Shared::last_errors`].
pub const MERGE: usize = 1;

impl Shared {
    /// The log, for an append.
    pub fn log_for_append(&self) -> MutexGuard<'_, Log> {
        self.append_times.lock(self.log.try_lock(), || self.log.lock())
    }

    /// Records damage in a block, once per message.
    pub fn report(&self, block: &Block, e: &StoreError) {
        block.damaged.store(true, Ordering::Relaxed);
        let message = e.to_string();
        let mut damage = self.damage.lock();
        if damage.len() >= MAX_DAMAGE || damage.iter().any(|d| d.message == message) {
            return;
        }
        tracing::warn!(error = %message, "damaged block");
        damage.push(Damage { path: block.path.clone(), offset: 0, bytes: 0, message });
    }

    /// Records the result of maintenance, for `stats` and for refusing appends.
    pub fn note(&self, thread: usize, result: Result<(), StoreError>) -> Result<(), StoreError> {
        self.last_errors.lock()[thread] = result.as_ref().err().map(ToString::to_string);
        result
    }
}
