//! An open store: opening, appending with group commit, and the state that its threads share.

use crate::block_set::{self, BlockSet};
use crate::dir::DataDir;
use crate::error::{AppendError, OpenError, StoreError};
use crate::head::generation::Generation;
use crate::io::{Files, OsFiles};
use crate::maintenance::{Maintenance, Notifier};
use crate::metadata::{Metadata, MetadataDb, Table};
use crate::options::{Clock, Options, millis};
use crate::retention_clock::RetentionClock;
use crate::rollback_guard::RollbackGuard;
use crate::rollup::RolledUp;
use crate::rows::{Appended, check};
use crate::wal::replay::{self, Damage};
use crate::wal::writer::{self, Log};
use fabriclens_model::{RowGroup, is_absent};
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Appends are refused once the unflushed log exceeds this multiple of `head_bytes`.
const MAX_BACKLOG: u64 = 4;

/// How long an append waits for a flush that has fallen behind.
const PATIENCE: Duration = Duration::from_secs(5);

/// An open store; share it in an `Arc`. Dropping it stops its threads and releases the directory lock.
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// State shared by the handle and the background threads.
pub(crate) struct Shared {
    pub options: Options,
    pub files: Arc<dyn Files>,
    pub log: Mutex<Log>,
    pub written: Condvar,
    pub head: RwLock<Head>,
    pub metadata: Table,
    /// Detects a metadata database that lost its newest writes.
    pub rollback_guard: RollbackGuard,
    /// Clock that retention measures ages by.
    pub retention_clock: Arc<RetentionClock>,
    /// The metadata database; holds `metadata`, `rolled_up` and the tables of other components.
    pub db: sled::Db,
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
    pub closed: AtomicBool,
    /// Newest sample accepted, Unix ms.
    pub newest: AtomicI64,
    /// Dropped last: releases the directory lock.
    pub dir: DataDir,
}

/// Samples that are readable but not yet durable.
#[must_use = "not durable before it is committed"]
#[derive(Debug)]
pub struct Written {
    appended: Appended,
    /// Sequence number of the append in the log.
    ticket: u64,
}

/// Rows in memory: the generation that takes appends, and full ones waiting to become blocks, oldest first.
pub(crate) struct Head {
    pub current: Generation,
    pub older: Vec<Arc<Generation>>,
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
        let meta = dir.root.join("meta");
        let precious = |e| MetadataDb::error(&dir.root, &meta, e);
        let MetadataDb { db, metadata, rolled_up } = MetadataDb::open(&dir.root, &meta, &mut damage)?;
        let unusable = |e| OpenError::io("open", &dir.root, &meta, std::io::Error::other::<StoreError>(e));
        let rollback_guard = RollbackGuard::open(&db, &dir.root, &mut damage).map_err(unusable)?;
        let (blocks, next_block) = block_set::load(&dir, false, &*files, &mut damage)?;
        let (rollups, next_rollup) = block_set::load(&dir, true, &*files, &mut damage)?;
        let rolled_up = rolled_up.keep(&blocks.all()).map_err(precious)?;
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
            written: Condvar::new(),
            head: RwLock::new(Head { current, older }),
            metadata,
            rollback_guard,
            retention_clock: Arc::new(retention_clock),
            db,
            damage: Mutex::new(damage),
            totals: Mutex::new(Appended::default()),
            blocks,
            rollups,
            rolled_up,
            maintenance: Maintenance::new(next_block.max(next_rollup)),
            last_errors: Mutex::new([None, None]),
            flush_notifier: Notifier::default(),
            merge_notifier: Notifier::default(),
            closed: AtomicBool::new(false),
            newest: AtomicI64::new(newest.unwrap_or(i64::MIN)),
            options,
        });
        let store = Self { shared, threads: Mutex::new(Vec::new()) };
        for (name, body) in Shared::THREADS.iter().filter(|_| store.shared.options.background) {
            let shared = store.shared.clone();
            let spawned = std::thread::Builder::new().name((*name).into()).spawn(move || body(&shared));
            store.threads.lock().push(spawned.map_err(|source| OpenError::Io {
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
        self.commit(self.write(groups)?)
    }

    /// First half of [`Store::append`]: makes samples readable. Do not acknowledge them before [`Store::commit`]. A
    /// caller with several senders writes for all of them and then commits: the first commit syncs for all.
    ///
    /// # Errors
    /// As [`Store::append`].
    pub fn write(&self, groups: &[RowGroup]) -> Result<Written, AppendError> {
        self.shared.write(groups)
    }

    /// Returns when the written samples survive a crash.
    ///
    /// # Errors
    /// As [`Store::append`].
    pub fn commit(&self, written: Written) -> Result<Appended, AppendError> {
        self.shared.commit(&mut self.shared.log.lock(), written.ticket)?;
        *self.shared.totals.lock() += written.appended;
        Ok(written.appended)
    }

    /// Stores metadata by metric name. Unchanged entries cost no write.
    ///
    /// # Errors
    /// [`StoreError::Metadata`]; samples are unaffected.
    pub fn put_metadata<'a>(&self, entries: impl IntoIterator<Item = (&'a str, Metadata)>) -> Result<(), StoreError> {
        self.shared.metadata.put(entries)
    }

    /// A table of the metadata database for small, rarely changed data of other components. Snapshots include it.
    ///
    /// # Errors
    /// [`StoreError::Metadata`].
    pub fn table(&self, name: &str) -> Result<sled::Tree, StoreError> {
        self.shared.db.open_tree(name).map_err(|e| StoreError::Metadata(e.to_string()))
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
        for thread in self.threads.lock().drain(..) {
            // The panic was already reported by the thread.
            let _ = thread.join();
        }
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

impl Shared {
    fn write(&self, groups: &[RowGroup]) -> Result<Written, AppendError> {
        for (i, group) in groups.iter().enumerate() {
            check(group, i)?;
        }
        let (oldest, newest) = self.accepted_times();
        let mut sum = Appended::default();
        let mut log = self.log.lock();
        self.ready(&mut log)?;
        {
            let mut head = self.head.write();
            let Head { current, older } = &mut *head;
            for group in groups {
                if group.times.iter().all(|t| (oldest..=newest).contains(t)) {
                    sum += current.append(group, older, &mut log.pending);
                } else {
                    let kept = filter_times(group, oldest, newest, &mut sum);
                    sum += current.append(&kept, older, &mut log.pending);
                }
            }
        }
        let seen = groups.iter().flat_map(|g| &g.times).filter(|t| **t <= newest).max();
        self.newest.fetch_max(seen.copied().unwrap_or(i64::MIN), Ordering::Relaxed);
        log.appended += 1;
        Ok(Written { appended: sum, ticket: log.appended })
    }

    /// Oldest and newest time that an append may carry now, Unix ms.
    fn accepted_times(&self) -> (i64, i64) {
        let now = self.retention_clock.times((self.options.clock)());
        let ago = |from: i64, d: Option<Duration>| d.map_or(i64::MIN, |d| from.saturating_sub(millis(d)));
        let window = ago(self.newest.load(Ordering::Relaxed), self.options.out_of_order);
        let oldest = ago(now.age, self.options.retention).max(window);
        (oldest, now.latest.saturating_add(millis(self.options.max_future)))
    }

    /// Refuses an append that could not be kept, before any of it is stored.
    fn ready(&self, log: &mut MutexGuard<'_, Log>) -> Result<(), AppendError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(AppendError::Closed);
        }
        if log.failure().is_some() {
            log.recover(&self.head.read().current)?;
            self.written.notify_all();
        }
        if log.bytes > self.options.head_bytes {
            self.flush_notifier.notify();
        }
        let most = self.options.head_bytes.saturating_mul(MAX_BACKLOG);
        let patience = Instant::now() + PATIENCE;
        while log.bytes > most {
            let last_errors = self.last_errors.lock()[0].clone();
            if last_errors.is_some() || self.written.wait_until(log, patience).timed_out() {
                return Err(AppendError::HeadFull {
                    bytes: log.bytes,
                    message: last_errors.unwrap_or_else(|| "the disk is too slow to keep up with appends".into()),
                });
            }
            self.flush_notifier.notify();
        }
        Ok(())
    }

    /// Returns when the append with this sequence number is durable. One caller writes for all that wait.
    pub fn commit(&self, log: &mut MutexGuard<'_, Log>, ticket: u64) -> Result<(), AppendError> {
        loop {
            if log.durable >= ticket {
                return Ok(());
            }
            if let Some(e) = log.failure() {
                return Err(e.clone());
            }
            if log.busy {
                self.written.wait(log);
                continue;
            }
            if let Some(mut work) = log.take() {
                let result = MutexGuard::unlocked(log, || work.run());
                log.done(work, result);
                self.written.notify_all();
            }
        }
    }
}

/// The rows of a group within the accepted times. Counts the others in `sum`.
pub fn filter_times(group: &RowGroup, oldest: i64, newest: i64, sum: &mut Appended) -> RowGroup {
    let n = group.times.len();
    let mut rows = Vec::new();
    for (r, time) in group.times.iter().enumerate() {
        let samples = group.values.iter().skip(r).step_by(n).filter(|v| !is_absent(**v)).count() as u64;
        if *time < oldest {
            sum.too_old += samples;
        } else if *time > newest {
            sum.too_far_in_future += samples;
        } else {
            rows.push(r);
        }
    }
    RowGroup {
        series: group.series.clone(),
        times: rows.iter().map(|r| group.times[*r]).collect(),
        values: (0..group.series.len())
            .flat_map(|c| rows.iter().map(move |r| c * n + r))
            .map(|i| group.values[i])
            .collect(),
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
