//! The handle of an open store: opening, closing, and the entry points of appends and maintenance.

use crate::append::Written;
use crate::append_times::AppendTimes;
use crate::block_set;
use crate::changed_times::ChangedTimes;
use crate::dir::DataDir;
use crate::error::{AppendError, OpenError, StoreError};
use crate::head::generation::Generation;
use crate::io::{Files, OsFiles};
use crate::maintenance;
use crate::metadata::{FILE, Metadata, MetadataDb, MetadataTable, Metrics};
use crate::notifier::Notifier;
use crate::options::{Clock, Options};
use crate::retention_clock::RetentionClock;
use crate::rollup::RolledUp;
use crate::rows::Appended;
use crate::shared::{Head, Maintenance, Shared};
use crate::wal::replay::{self, Damage};
use crate::wal::writer::{self, Log};
use fabriclens_base::Sender;
use fabriclens_model::RowGroup;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;

/// Calls of [`Store::relieve_memory`] after which the unused index of a block is dropped.
const IDLE_CALLS: u32 = 20;

/// An open store; share it in an `Arc`. Dropping it stops its threads and releases the directory lock.
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Store {
    /// Opens or creates the store in `dir` and replays its log.
    ///
    /// # Errors
    /// [`OpenError`], each with its remedy: locked by another process, foreign directory, read-only, disk full, newer
    /// format.
    pub fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        Self::open_with(dir, options, Arc::new(OsFiles))
    }

    /// Like [`Store::open`], on another file layer.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(dir: &Path, options: Options, files: Arc<dyn Files>) -> Result<Self, OpenError> {
        let mut damage = Vec::new();
        let dir = DataDir::open(&*files, dir, &mut damage)?;
        let unusable = |e: StoreError| OpenError::Metadata { path: dir.root.join(FILE), message: e.to_string() };
        let db = MetadataDb::open(&dir.root, &mut damage)?;
        let metadata = Metrics::open(&db).map_err(unusable)?;
        let (blocks, next_block) = block_set::load(&dir, false, &*files, &mut damage)?;
        let (rollups, next_rollup) = block_set::load(&dir, true, &*files, &mut damage)?;
        let rolled_up = RolledUp::open(&db, &blocks.all()).map_err(unusable)?;
        let older = replay_all(&dir, &options, &*files, &mut damage)?;
        let in_blocks = blocks.all().iter().map(|b| b.footer.generations.1).max();
        let number = older.last().map(|g| g.number).max(in_blocks).unwrap_or(0) + 1;
        let log = Log::create(files.clone(), &dir.wal, number)
            .map_err(|e| OpenError::io("create", &dir.root, &dir.wal.join(writer::name(number, 0)), e))?;
        let newest =
            older.iter().filter_map(|g| g.range()).map(|r| r.1).chain(blocks.all().iter().map(|b| b.footer.max)).max();
        let retention_clock =
            RetentionClock::open(&db, newest, options.clock_jump_hold, (options.clock)()).map_err(unusable)?;
        let current = Generation::new(number, options.chunk_rows, &options.series);
        let shared = Arc::new(Shared {
            dir,
            files,
            log: Mutex::new(log),
            append_times: AppendTimes::default(),
            written: Condvar::new(),
            head: RwLock::new(Head { current, older, changed: ChangedTimes::default() }),
            metadata,
            retention_clock: Arc::new(retention_clock),
            db,
            damage: Mutex::new(damage),
            totals: Mutex::new(Appended::default()),
            blocks,
            rollups,
            rolled_up,
            maintenance: Maintenance::new(next_block.max(next_rollup), options.head_bytes),
            last_errors: Mutex::new([None, None]),
            flush_notifier: Notifier::default(),
            merge_notifier: Notifier::default(),
            copy_notifier: Notifier::default(),
            closed: AtomicBool::new(false),
            newest: AtomicI64::new(newest.unwrap_or(i64::MIN)),
            options,
        });
        let store = Self { shared, threads: Mutex::new(Vec::new()) };
        let background = store.shared.options.background;
        for thread in background.then(|| maintenance::spawn(&store.shared)).into_iter().flatten() {
            store.threads.lock().push(thread.map_err(|source| OpenError::Io {
                what: "start a thread for",
                path: store.shared.dir.root.clone(),
                source,
            })?);
        }
        Ok(store)
    }

    /// Stores samples and returns when they survive a crash. Concurrent appends share one fsync.
    ///
    /// # Errors
    /// [`AppendError`]: nothing of this call is acknowledged. Send it again; samples that were kept count as
    /// duplicates.
    pub fn append(&self, groups: &[RowGroup]) -> Result<Appended, AppendError> {
        self.commit(self.write(groups, Sender::Bound)?)
    }

    /// First half of [`Store::append`], for any sender: makes samples readable. Do not acknowledge them before [`Store::commit`]. A
    /// caller with several senders writes for all of them and then commits: the first commit syncs for all.
    ///
    /// # Errors
    /// As [`Store::append`].
    pub fn write(&self, groups: &[RowGroup], sender: Sender<'_>) -> Result<Written, AppendError> {
        self.shared.write(groups, sender)
    }

    /// Returns when the written samples survive a crash.
    ///
    /// # Errors
    /// As [`Store::append`].
    pub fn commit(&self, written: Written) -> Result<Appended, AppendError> {
        self.shared.commit(&mut self.shared.log_for_append(), written.ticket)?;
        *self.shared.totals.lock() += written.appended;
        Ok(written.appended)
    }

    /// Number of the last change of samples: how far an answer that is read from now on is up to date at least.
    pub fn last_change(&self) -> u64 {
        self.shared.head.read().changed.last()
    }

    /// The earliest time, Unix ms, of samples that were added or removed after a change. A result about earlier times that was right
    /// at that change is still right. `i64::MAX` if nothing changed, and `i64::MIN` if it is not known any more.
    pub fn changed_since(&self, change: u64) -> i64 {
        self.shared.head.read().changed.since(change)
    }

    /// Stores metadata by metric name. Unchanged entries cost no write.
    ///
    /// # Errors
    /// [`StoreError::Metadata`]; samples are unaffected.
    pub fn put_metadata<'a>(&self, entries: impl IntoIterator<Item = (&'a str, Metadata)>) -> Result<(), StoreError> {
        self.shared.metadata.put(entries)
    }

    /// Bytes of the metadata of all metrics; senders may fill [`crate::METADATA_BYTES`].
    pub fn metadata_bytes(&self) -> usize {
        self.shared.metadata.bytes()
    }

    /// Durably removes the metadata of a metric, or all; returns how many there were. Senders describe them again.
    ///
    /// # Errors
    /// [`StoreError::Metadata`].
    pub fn remove_metadata(&self, metric: Option<&str>) -> Result<usize, StoreError> {
        self.shared.metadata.remove(metric)
    }

    /// A table of the metadata database for small, rarely changed data of other components. Snapshots include it.
    pub fn table(&self, name: &str) -> MetadataTable {
        self.shared.db.table(name)
    }

    /// A clock for expiring other data by the same rules as samples, Unix ms. It does not keep the store alive: once
    /// the store is dropped it returns `i64::MIN`, so nothing expires.
    pub fn retention_clock(&self) -> Clock {
        let (retention_clock, wall) = (Arc::downgrade(&self.shared.retention_clock), self.shared.options.clock.clone());
        Arc::new(move || {
            retention_clock.upgrade().map_or(i64::MIN, |retention_clock| retention_clock.times(wall()).age)
        })
    }

    /// Refuses further appends, waits for running ones and stops the background threads. Nothing is lost: samples that
    /// are not in blocks are in the log. Reads continue to work.
    pub fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        drop(self.shared.log.lock());
        self.shared.flush_notifier.notify();
        self.shared.merge_notifier.notify();
        self.shared.copy_notifier.notify();
        for thread in self.threads.lock().drain(..) {
            // The panic was already reported by the thread.
            let _ = thread.join();
        }
        self.shared.db.update_copy();
    }

    /// Flushes everything in memory to durable blocks.
    ///
    /// # Errors
    /// [`StoreError`]; samples that could not be written stay in memory and in the log.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.shared.flush_all()
    }

    /// Reduces memory: flushes the head soon although it is not full, and forgets silent series and rarely used block
    /// indexes. Call it a few times per second while memory is short.
    pub fn relieve_memory(&self) {
        self.shared.drop_idle_indexes(IDLE_CALLS);
        self.shared.maintenance.relieve_memory.store(true, Ordering::Relaxed);
        self.shared.flush_notifier.notify();
    }

    /// One maintenance round: flush if due, apply retention, merge.
    ///
    /// # Errors
    /// [`StoreError`] of the first step that failed; the next round tries again.
    pub fn maintain(&self) -> Result<(), StoreError> {
        let first = self.shared.expire_and_merge();
        self.shared.db.update_copy();
        self.shared.flush_due().and(first)
    }

    /// All metric metadata, by metric name.
    pub fn metadata(&self) -> Arc<BTreeMap<String, Metadata>> {
        self.shared.metadata.all()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

/// Replays all logs into one generation that waits to become blocks.
fn replay_all(
    dir: &DataDir,
    options: &Options,
    files: &dyn Files,
    damage: &mut Vec<Damage>,
) -> Result<Vec<Arc<Generation>>, OpenError> {
    let list = files.list(&dir.wal).map_err(|e| OpenError::io("list", &dir.root, &dir.wal, e))?;
    let mut segments: BTreeMap<u64, Vec<(u32, String)>> = BTreeMap::new();
    for (name, _) in list {
        if let Some((generation, segment)) = writer::parse_name(&name) {
            segments.entry(generation).or_default().push((segment, name));
        }
    }
    let (Some(first), Some(last)) = (segments.keys().next().copied(), segments.keys().next_back().copied()) else {
        return Ok(Vec::new());
    };
    // One generation for all logs: a process that restarts often leaves many small ones.
    let mut generation = Generation::new(last, options.chunk_rows, &options.series);
    generation.first = first;
    for parts in segments.values_mut() {
        parts.sort_unstable();
        for (_, name) in &*parts {
            replay::segment(files, &dir.root, &dir.wal.join(name), &mut generation, &[], damage)?;
        }
    }
    let older = vec![Arc::new(generation)];
    Ok(older)
}
