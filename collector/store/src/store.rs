//! The store itself: opening, appending with group commit, and the state everything else shares.

use crate::aging::Aging;
use crate::blocks::{self, Shelf};
use crate::dir::DataDir;
use crate::error::{AppendError, OpenError, StoreError};
use crate::head::generation::Generation;
use crate::io::{Files, OsFiles};
use crate::maintain::{Bell, Maintenance};
use crate::metadata::{Metadata, Precious, Table};
use crate::options::{Clock, Options, millis};
use crate::rollup::Rolled;
use crate::rows::{Appended, RowGroup};
use crate::wal::replay::{self, Damage};
use crate::wal::writer::{self, Log};
use crate::witness::Witness;
use fabriclens_model::is_absent;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Appends are refused when the log of unflushed rows reaches this many times `head_bytes`.
const BACKLOG: u64 = 4;

/// How long an append waits for a flush that is behind.
const PATIENCE: Duration = Duration::from_secs(5);

/// An open store; share it in an `Arc`. Dropping it stops its threads and lets go of the directory.
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the store's threads share.
pub(crate) struct Shared {
    pub options: Options,
    pub files: Arc<dyn Files>,
    pub log: Mutex<Log>,
    pub written: Condvar,
    pub head: RwLock<Head>,
    pub metadata: Table,
    /// Whether the database is whole.
    pub witness: Witness,
    /// When samples are too old.
    pub aging: Arc<Aging>,
    /// Where `metadata` and `rolled` are, and whatever else is small and precious.
    pub db: sled::Db,
    pub damage: Mutex<Vec<Damage>>,
    pub totals: Mutex<Appended>,
    /// Samples as they came.
    pub blocks: Shelf,
    /// What stands for them where they are too many or gone.
    pub rollups: Shelf,
    /// Blocks whose samples are in rollups.
    pub rolled: Rolled,
    pub maintenance: Maintenance,
    /// Why the last maintenance failed: flush, and the rest.
    pub trouble: Mutex<[Option<String>; 2]>,
    pub flush_bell: Bell,
    pub merge_bell: Bell,
    pub closed: AtomicBool,
    /// Newest sample accepted, Unix ms.
    pub newest: AtomicI64,
    /// The last to go: it lets the next one in.
    pub dir: DataDir,
}

/// Samples that can be read and are not yet durable.
#[must_use = "not durable before it is committed"]
#[derive(Debug)]
pub struct Written {
    appended: Appended,
    /// Number of the append in the log.
    ticket: u64,
}

/// Rows in memory: the generation that grows and those that wait to become blocks, oldest first.
pub(crate) struct Head {
    pub current: Generation,
    pub older: Vec<Arc<Generation>>,
}

impl Store {
    /// Opens or creates the store in `dir` and replays its log.
    ///
    /// # Errors
    /// [`OpenError`], each with its remedy: held by another process, foreign, read-only, full, of a newer format.
    pub fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        Self::open_with(dir, options, Arc::new(OsFiles))
    }

    /// As [`Store::open`], on another file layer.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(dir: &Path, options: Options, files: Arc<dyn Files>) -> Result<Self, OpenError> {
        let mut damage = Vec::new();
        let dir = DataDir::open(&*files, dir, &mut damage)?;
        let meta = dir.root.join("meta");
        let precious = |e| Precious::error(&dir.root, &meta, e);
        let Precious { db, metadata, rolled } = Precious::open(&dir.root, &meta, &mut damage)?;
        let unusable = |e| OpenError::io("open", &dir.root, &meta, std::io::Error::other::<StoreError>(e));
        let witness = Witness::open(&db, &dir.root, &mut damage).map_err(unusable)?;
        let (blocks, next_block) = blocks::load(&dir, false, &*files, &mut damage)?;
        let (rollups, next_rollup) = blocks::load(&dir, true, &*files, &mut damage)?;
        let rolled = rolled.keep(&blocks.all()).map_err(precious)?;
        let older = replay_all(&dir, &options, &*files, &mut damage)?;
        let in_blocks = blocks.all().iter().map(|b| b.facts.generations.1).max();
        let number = older.last().map(|g| g.number).max(in_blocks).unwrap_or(0) + 1;
        let log = Log::create(files.clone(), &dir.wal, number)
            .map_err(|e| OpenError::io("create", &dir.root, &dir.wal.join(writer::name(number, 0)), e))?;
        let newest =
            older.iter().filter_map(|g| g.range()).map(|r| r.1).chain(blocks.all().iter().map(|b| b.facts.max)).max();
        let aging = Aging::open(&db, newest, options.doubt, (options.clock)()).map_err(unusable)?;
        let current = Generation::new(number, options.chunk_rows, &options.series);
        let shared = Arc::new(Shared {
            dir,
            files,
            log: Mutex::new(log),
            written: Condvar::new(),
            head: RwLock::new(Head { current, older }),
            metadata,
            witness,
            aging: Arc::new(aging),
            db,
            damage: Mutex::new(damage),
            totals: Mutex::new(Appended::default()),
            blocks,
            rollups,
            rolled,
            maintenance: Maintenance::new(next_block.max(next_rollup)),
            trouble: Mutex::new([None, None]),
            flush_bell: Bell::default(),
            merge_bell: Bell::default(),
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

    /// Stores samples; returns when they survive a crash. Appends that run at the same time share one fsync.
    ///
    /// # Errors
    /// [`AppendError`]: nothing of this call is acknowledged; send it again, what was kept will count as duplicates.
    pub fn append(&self, groups: &[RowGroup]) -> Result<Appended, AppendError> {
        self.commit(self.write(groups)?)
    }

    /// The first half of [`Store::append`]: the samples can be read, but must not be acknowledged before
    /// [`Store::commit`]. Who has several senders writes for all of them and then commits: the first commit syncs for
    /// all.
    ///
    /// # Errors
    /// As [`Store::append`].
    pub fn write(&self, groups: &[RowGroup]) -> Result<Written, AppendError> {
        self.shared.write(groups)
    }

    /// Returns when what was written survives a crash.
    ///
    /// # Errors
    /// As [`Store::append`].
    pub fn commit(&self, written: Written) -> Result<Appended, AppendError> {
        self.shared.commit(&mut self.shared.log.lock(), written.ticket)?;
        *self.shared.totals.lock() += written.appended;
        Ok(written.appended)
    }

    /// Stores metric metadata by metric name; unchanged entries cost nothing.
    ///
    /// # Errors
    /// [`StoreError::Metadata`]; samples are not affected.
    pub fn put_metadata<'a>(&self, entries: impl IntoIterator<Item = (&'a str, Metadata)>) -> Result<(), StoreError> {
        self.shared.metadata.put(entries)
    }

    /// A table beside the samples, for what is small and precious: snapshots take it along.
    ///
    /// # Errors
    /// [`StoreError::Metadata`].
    pub fn table(&self, name: &str) -> Result<sled::Tree, StoreError> {
        self.shared.db.open_tree(name).map_err(|e| StoreError::Metadata(e.to_string()))
    }

    /// The time by which what is kept beside the samples is too old, as they are; Unix ms. It holds nothing of the store: once
    /// that is gone, nothing is old.
    pub fn age_clock(&self) -> Clock {
        let (aging, wall) = (Arc::downgrade(&self.shared.aging), self.shared.options.clock.clone());
        Arc::new(move || aging.upgrade().map_or(i64::MIN, |aging| aging.times(wall()).age))
    }

    /// Refuses further appends, waits for running ones and stops the background threads. Nothing is lost: what is not
    /// in blocks is in the log. Reads go on.
    pub fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        drop(self.shared.log.lock());
        self.shared.flush_bell.ring();
        self.shared.merge_bell.ring();
        for thread in self.threads.lock().drain(..) {
            // A panic of that thread was reported when it happened.
            let _ = thread.join();
        }
    }

    /// All metric metadata.
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
            group.check(i)?;
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
                    let kept = keep(group, oldest, newest, &mut sum);
                    sum += current.append(&kept, older, &mut log.pending);
                }
            }
        }
        let seen = groups.iter().flat_map(|g| &g.times).filter(|t| **t <= newest).max();
        self.newest.fetch_max(seen.copied().unwrap_or(i64::MIN), Ordering::Relaxed);
        log.appended += 1;
        Ok(Written { appended: sum, ticket: log.appended })
    }

    /// Oldest and newest time an append may carry now.
    fn accepted_times(&self) -> (i64, i64) {
        let now = self.aging.times((self.options.clock)());
        let ago = |from: i64, d: Option<Duration>| d.map_or(i64::MIN, |d| from.saturating_sub(millis(d)));
        let window = ago(self.newest.load(Ordering::Relaxed), self.options.out_of_order);
        let oldest = ago(now.age, self.options.retention).max(window);
        (oldest, now.latest.saturating_add(millis(self.options.max_future)))
    }

    /// Refuses an append that cannot be kept, before anything of it is stored.
    fn ready(&self, log: &mut MutexGuard<'_, Log>) -> Result<(), AppendError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(AppendError::Closed);
        }
        if log.failure().is_some() {
            log.heal(&self.head.read().current)?;
            self.written.notify_all();
        }
        if log.bytes > self.options.head_bytes {
            self.flush_bell.ring();
        }
        let most = self.options.head_bytes.saturating_mul(BACKLOG);
        let patience = Instant::now() + PATIENCE;
        while log.bytes > most {
            let trouble = self.trouble.lock()[0].clone();
            if trouble.is_some() || self.written.wait_until(log, patience).timed_out() {
                return Err(AppendError::HeadFull {
                    bytes: log.bytes,
                    message: trouble.unwrap_or_else(|| "the disk is too slow".into()),
                });
            }
            self.flush_bell.ring();
        }
        Ok(())
    }

    /// Returns when the append with this number is durable. One caller writes for all that wait.
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

/// The rows of a group within the accepted times; the others are counted.
pub fn keep(group: &RowGroup, oldest: i64, newest: i64, sum: &mut Appended) -> RowGroup {
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

/// What the logs hold, as one generation that waits to become blocks.
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
    // All logs become one generation: a process that dies often leaves many small ones.
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
