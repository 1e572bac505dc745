//! Background maintenance: flushes the head to blocks, expires and merges blocks. Runs on two threads, or in whoever
//! calls `flush` and `maintain`.

use crate::block::build::{Plan, build};
use crate::block::file::Footer;
use crate::block::read::{Block, OpenFailure, name};
use crate::block::source::Source;
use crate::block_set::BlockSet;
use crate::error::StoreError;
use crate::head::generation::Generation;
use crate::options::millis;
use crate::store::{Shared, Store};
use crate::wal::writer::parse_name;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time windows that one flush may write; if there are more, the windows are widened.
const MAX_WINDOWS: usize = 32;
/// Interval between maintenance rounds.
const ROUND: Duration = Duration::from_secs(1);
/// When memory is short, the fraction of a full head (1/n) that is worth a block.
const SMALL_HEAD: u64 = 8;
/// When memory is short, the age at which any head is flushed: few samples of many series take little log but much
/// memory.
const SMALL_HEAD_AGE: Duration = Duration::from_secs(20);
/// Niceness of the background threads: appends and queries go first, and maintenance still gets a quarter of their
/// share.
const NICE: i32 = 5;
/// Rounds after which the unused index of a block is dropped.
const IDLE_ROUNDS: u32 = 300;
/// The same, in calls of [`Store::relieve_memory`].
const IDLE_CALLS: u32 = 20;

/// Serializes maintenance. Flushing and merging have separate locks, so that a long merge never delays a flush.
pub struct Maintenance {
    next_block: AtomicU64,
    /// Held while flushing; the time when the current generation began.
    flush: Mutex<Instant>,
    /// Flush the head before it is full.
    relieve_memory: AtomicBool,
    /// Held while merging, removing or linking blocks.
    pub merge: Mutex<()>,
}

impl Maintenance {
    /// Starts with the first free block number.
    pub fn new(next_block: u64) -> Self {
        Self {
            next_block: AtomicU64::new(next_block),
            flush: Mutex::new(Instant::now()),
            relieve_memory: AtomicBool::new(false),
            merge: Mutex::new(()),
        }
    }
}

/// Wakes a background thread early.
#[derive(Default)]
pub struct Notifier {
    notified: Mutex<bool>,
    condvar: Condvar,
}

impl Notifier {
    /// Wakes the thread.
    pub fn notify(&self) {
        *self.notified.lock() = true;
        self.condvar.notify_all();
    }

    fn wait(&self, at_most: Duration) {
        let mut notified = self.notified.lock();
        if !*notified {
            self.condvar.wait_for(&mut notified, at_most);
        }
        *notified = false;
    }
}

impl Store {
    /// Flushes everything in memory to durable blocks.
    ///
    /// # Errors
    /// [`StoreError`]; samples that could not be written stay in memory and in the log.
    pub fn flush(&self) -> Result<(), StoreError> {
        let shared = &self.shared;
        let mut began = shared.maintenance.flush.lock();
        let result = shared
            .flush_older()
            .and_then(|()| shared.rotate_head(&mut began, false))
            .and_then(|()| shared.flush_older());
        shared.note(FLUSH, result)
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
        self.shared.flush_due().and(first)
    }
}

/// Name and body of a background thread.
type Thread = (&'static str, fn(&Shared));

/// Index of each thread's last error.
const FLUSH: usize = 0;
const MERGE: usize = 1;

impl Shared {
    /// The background threads, by name.
    pub const THREADS: [Thread; 2] = [
        ("store-flush", |s| s.run(&s.flush_notifier, Self::flush_due)),
        ("store-merge", |s| s.run(&s.merge_notifier, Self::expire_and_merge)),
    ];

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

    /// Records the result of maintenance, for `stats` and for refusing appends.
    fn note(&self, who: usize, result: Result<(), StoreError>) -> Result<(), StoreError> {
        self.last_errors.lock()[who] = result.as_ref().err().map(ToString::to_string);
        result
    }

    /// Retention before merges: it may free the space that merges need. Rollups are computed from merged blocks.
    fn expire_and_merge(&self) -> Result<(), StoreError> {
        let merging = self.maintenance.merge.lock();
        let result = self
            .retain()
            .and_then(|()| self.merge(&self.blocks))
            .and_then(|()| self.roll_up())
            .and_then(|()| self.merge(&self.rollups))
            .and(self.rollback_guard.tick());
        drop(merging);
        self.drop_idle_indexes(IDLE_ROUNDS);
        self.note(MERGE, result)
    }

    /// Drops indexes of blocks that were not used for this many calls.
    fn drop_idle_indexes(&self, calls: u32) {
        for block in self.blocks.all().iter().chain(self.rollups.all().iter()) {
            block.drop_idle_indexes(calls);
        }
    }

    fn flush_due(&self) -> Result<(), StoreError> {
        let mut began = self.maintenance.flush.lock();
        let bytes = self.log.lock().bytes;
        let old = began.elapsed() >= self.options.head_age && bytes > 0;
        let short = self.maintenance.relieve_memory.swap(false, Ordering::Relaxed)
            && (bytes >= self.options.head_bytes / SMALL_HEAD || began.elapsed() >= SMALL_HEAD_AGE);
        let due = bytes > self.options.head_bytes || old || short;
        // While blocks cannot be written no further generation is started: appends are eventually refused, and memory
        // stays bounded.
        let result = self
            .flush_older()
            .and_then(|()| if due { self.rotate_head(&mut began, short) } else { Ok(()) })
            .and_then(|()| self.flush_older());
        self.note(FLUSH, result)
    }

    /// Ends the current generation and its log and starts the next, without known series when memory is `short`.
    fn rotate_head(&self, began: &mut Instant, short: bool) -> Result<(), StoreError> {
        let mut log = self.log.lock();
        while log.busy {
            self.written.wait(&mut log);
        }
        log.recover(&self.head.read().current)?;
        // The last write of a generation happens with the lock held: appends wait for one sync, else there would
        // always be another one in progress.
        if let Some(mut work) = log.take() {
            let result = work.run();
            log.done(work, result);
        }
        self.written.notify_all();
        if let Some(e) = log.failure() {
            return Err(e.clone().into());
        }
        let mut head = self.head.write();
        if !head.current.layouts.iter().any(|l| l.logged) {
            return Ok(());
        }
        let number = log.next_generation().map_err(|e| StoreError::io("start a log in", &self.dir.wal, &e))?;
        let next = if short {
            Generation::new(number, self.options.chunk_rows, &self.options.series)
        } else {
            head.current.successor(number)
        };
        let full = std::mem::replace(&mut head.current, next);
        head.older.push(Arc::new(full));
        *began = Instant::now();
        self.written.notify_all();
        Ok(())
    }

    /// Writes blocks of all generations but the current one and removes their logs.
    fn flush_older(&self) -> Result<(), StoreError> {
        loop {
            let Some(generation) = self.head.read().older.first().cloned() else {
                return Ok(());
            };
            let blocks = self.blocks_of(&generation)?;
            // Readers look at the head first: the blocks must be visible before the generation goes.
            self.blocks.exchange(blocks, &[]);
            self.head.write().older.remove(0);
            self.remove_log(generation.number)?;
        }
    }

    fn blocks_of(&self, generation: &Arc<Generation>) -> Result<Vec<Arc<Block>>, StoreError> {
        let mut blocks = Vec::new();
        for (start, end) in self.windows(generation) {
            let plan = Plan { start, end, generations: (generation.first, generation.number), parents: Vec::new() };
            match self.write_block(&self.blocks, &mut [Source::head(generation.clone())], plan, || true) {
                Ok(block) => blocks.extend(block),
                Err(e) => {
                    // All windows or none: the generation is written again as a whole.
                    if let Err(e) = self.blocks.remove_files(&*self.files, &blocks) {
                        tracing::warn!(error = %e, "cannot remove blocks of a failed flush; they stay until merged");
                    }
                    return Err(e);
                }
            }
        }
        Ok(blocks)
    }

    /// Builds a block under a temporary name and renames it when it is durable.
    pub fn write_block(
        &self,
        set: &BlockSet,
        sources: &mut [Source],
        plan: Plan,
        keep_going: impl FnMut() -> bool,
    ) -> Result<Option<Arc<Block>>, StoreError> {
        let id = self.maintenance.next_block.fetch_add(1, Ordering::Relaxed);
        let path = set.dir.join(name(id));
        let part = path.with_extension("part");
        // May remain from an attempt that could not be removed.
        let _ = self.files.remove(&part);
        let built = build(&*self.files, &part, sources, plan, keep_going).and_then(|footer: Option<Footer>| {
            if footer.is_none() {
                return Ok(false);
            }
            let dir = &set.dir;
            let io = |what| move |e: std::io::Error| StoreError::io(what, dir, &e);
            self.files.rename(&part, &path).map_err(io("rename in"))?;
            self.files.sync_dir(dir).map_err(io("sync"))?;
            Ok(true)
        });
        match built {
            Ok(false) => Ok(None),
            Ok(true) => match Block::open(&*self.files, &path, id) {
                Ok(block) => Ok(Some(Arc::new(block))),
                Err(OpenFailure::Bad(e)) => Err(e),
                Err(OpenFailure::Newer(v)) => Err(StoreError::damaged(&path, format!("version {v}"))),
            },
            Err(e) => {
                // An unfinished file is useless and takes space; the log still has its samples.
                let _ = self.files.remove(&part);
                let _ = self.files.remove(&path);
                Err(e)
            }
        }
    }

    /// Removes the logs up to a generation; generations become blocks in order.
    fn remove_log(&self, generation: u64) -> Result<(), StoreError> {
        let dir = &self.dir.wal;
        let fail = |what, e: &std::io::Error| StoreError::io(what, dir, e);
        for (file, _) in self.files.list(dir).map_err(|e| fail("list", &e))? {
            if parse_name(&file).is_some_and(|(g, _)| g <= generation) {
                self.files.remove(&dir.join(file)).map_err(|e| fail("remove a log from", &e))?;
            }
        }
        self.files.sync_dir(dir).map_err(|e| fail("sync", &e))
    }

    /// Aligned time windows that contain samples of a generation. Back-filled years become a few wide windows, not
    /// thousands.
    fn windows(&self, generation: &Generation) -> Vec<(i64, i64)> {
        let mut span = i128::from(millis(self.options.block_span).max(1));
        let mut occupied: BTreeSet<i128> = BTreeSet::new();
        let mut note = |t: i64| {
            occupied.insert(i128::from(t).div_euclid(span));
            while occupied.len() > MAX_WINDOWS {
                span *= 2;
                occupied = occupied.iter().map(|w| w.div_euclid(2)).collect();
            }
        };
        for layout in &generation.layouts {
            for chunk in &layout.sealed {
                for t in chunk.times().unwrap_or_default() {
                    note(t);
                }
            }
            for rows in [&layout.open, &layout.late] {
                rows.times().iter().for_each(|t| note(*t));
            }
        }
        let clamp = |t: i128| t.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        occupied.into_iter().map(|w| (clamp(w * span), clamp((w + 1) * span - 1))).collect()
    }
}
