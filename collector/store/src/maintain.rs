//! What goes on behind appends: the head becomes blocks, old blocks go. Two threads, or whoever calls `flush`.

use crate::block::build::{Plan, build};
use crate::block::file::Facts;
use crate::block::read::{Block, OpenFailure, name};
use crate::block::source::Source;
use crate::blocks::Shelf;
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

/// Windows that one flush may write; more and the windows are made wider.
const MAX_WINDOWS: usize = 32;
/// How often the thread looks.
const ROUND: Duration = Duration::from_secs(1);
/// Of a full head, the part that is worth a block of its own when memory is short.
const LITTLE: u64 = 8;
/// Age at which any head is: few samples of many series take little log and much memory.
const RELIEF: Duration = Duration::from_secs(20);
/// Niceness of the background threads: whoever waits for an answer goes first, and they still get a quarter of what
/// such a thread gets.
const NICE: i32 = 5;
/// Rounds after which an unused index of a block is dropped from memory.
const IDLE_ROUNDS: u32 = 300;
/// The same, in calls, when memory is short.
const IDLE_CALLS: u32 = 20;

/// Who may do what: flushing and merging go on side by side, so that a long merge never holds up the head.
pub struct Maintenance {
    next_block: AtomicU64,
    /// Held while flushing: when the current generation began.
    flush: Mutex<Instant>,
    /// The head is to go before it is full.
    relieve: AtomicBool,
    /// Held while merging, removing or linking blocks.
    pub merge: Mutex<()>,
}

impl Maintenance {
    /// With the first free block number.
    pub fn new(next_block: u64) -> Self {
        Self {
            next_block: AtomicU64::new(next_block),
            flush: Mutex::new(Instant::now()),
            relieve: AtomicBool::new(false),
            merge: Mutex::new(()),
        }
    }
}

/// Wakes the background thread early.
#[derive(Default)]
pub struct Bell {
    rung: Mutex<bool>,
    sound: Condvar,
}

impl Bell {
    /// Wakes it.
    pub fn ring(&self) {
        *self.rung.lock() = true;
        self.sound.notify_all();
    }

    fn wait(&self, at_most: Duration) {
        let mut rung = self.rung.lock();
        if !*rung {
            self.sound.wait_for(&mut rung, at_most);
        }
        *rung = false;
    }
}

impl Store {
    /// Turns everything in memory into durable blocks.
    ///
    /// # Errors
    /// [`StoreError`]; what could not be written stays in memory and in the log.
    pub fn flush(&self) -> Result<(), StoreError> {
        let shared = &self.shared;
        let mut began = shared.maintenance.flush.lock();
        let result =
            shared.flush_older().and_then(|()| shared.cut(&mut began, false)).and_then(|()| shared.flush_older());
        shared.note(FLUSH, result)
    }

    /// Has the head written to blocks soon, although it is not full, and forgets series that are not heard of and indexes of
    /// blocks that are hardly used: memory is short. To be called a few times a second while it is.
    pub fn relieve(&self) {
        self.shared.forget_idle(IDLE_CALLS);
        self.shared.maintenance.relieve.store(true, Ordering::Relaxed);
        self.shared.flush_bell.ring();
    }

    /// One round of what the background threads do: flush what is due, apply retention, merge.
    ///
    /// # Errors
    /// [`StoreError`] of the first step that failed; it is tried again the next time.
    pub fn maintain(&self) -> Result<(), StoreError> {
        let first = self.shared.tidy();
        self.shared.flush_due().and(first)
    }
}

/// Name and body of a background thread.
type Thread = (&'static str, fn(&Shared));

/// Index of a thread's trouble.
const FLUSH: usize = 0;
const TIDY: usize = 1;

impl Shared {
    /// The background threads, by name.
    pub const THREADS: [Thread; 2] = [
        ("store-flush", |s| s.run(&s.flush_bell, Self::flush_due)),
        ("store-merge", |s| s.run(&s.merge_bell, Self::tidy)),
    ];

    fn run(&self, bell: &Bell, round: fn(&Self) -> Result<(), StoreError>) {
        // Linux has it by thread. Where it is forbidden, appends and queries wait a little more.
        if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE) {
            tracing::debug!(%error, "maintenance of the store runs as everything else does");
        }
        while !self.closed.load(Ordering::Acquire) {
            bell.wait(ROUND);
            if self.closed.load(Ordering::Acquire) {
                return;
            }
            match round(self) {
                Err(e) if !matches!(e, StoreError::Closed) => {
                    tracing::error!(error = %e, "maintenance of the store failed, trying again");
                    bell.wait(ROUND);
                }
                _ => {}
            }
        }
    }

    /// Remembers how maintenance went, for `stats` and for appends that must be refused.
    fn note(&self, who: usize, result: Result<(), StoreError>) -> Result<(), StoreError> {
        self.trouble.lock()[who] = result.as_ref().err().map(ToString::to_string);
        result
    }

    /// Retention, then merges: the first may free the space that the second needs. Rollups are made of merged blocks.
    fn tidy(&self) -> Result<(), StoreError> {
        let merging = self.maintenance.merge.lock();
        let result = self
            .retain()
            .and_then(|()| self.merge(&self.blocks))
            .and_then(|()| self.roll_up())
            .and_then(|()| self.merge(&self.rollups))
            .and(self.witness.tick());
        drop(merging);
        self.forget_idle(IDLE_ROUNDS);
        self.note(TIDY, result)
    }

    /// Drops indexes of blocks that were not used for so many calls.
    fn forget_idle(&self, calls: u32) {
        for block in self.blocks.all().iter().chain(self.rollups.all().iter()) {
            block.forget_idle(calls);
        }
    }

    fn flush_due(&self) -> Result<(), StoreError> {
        let mut began = self.maintenance.flush.lock();
        let bytes = self.log.lock().bytes;
        let old = began.elapsed() >= self.options.head_age && bytes > 0;
        let short = self.maintenance.relieve.swap(false, Ordering::Relaxed)
            && (bytes >= self.options.head_bytes / LITTLE || began.elapsed() >= RELIEF);
        let due = bytes > self.options.head_bytes || old || short;
        // While blocks cannot be written no further generation is begun: appends are refused in the end, and memory
        // stays bounded.
        let result = self
            .flush_older()
            .and_then(|()| if due { self.cut(&mut began, short) } else { Ok(()) })
            .and_then(|()| self.flush_older());
        self.note(FLUSH, result)
    }

    /// Ends the current generation and its log and begins the next; it knows no series when memory is `short`.
    fn cut(&self, began: &mut Instant, short: bool) -> Result<(), StoreError> {
        let mut log = self.log.lock();
        while log.busy {
            self.written.wait(&mut log);
        }
        log.heal(&self.head.read().current)?;
        // The last write of a generation is made with the lock held: appends wait for one sync, else there would always
        // be another one on its way.
        if let Some(mut work) = log.take() {
            let result = work.run();
            log.done(work, result);
        }
        self.written.notify_all();
        if let Some(e) = log.failure() {
            return Err(e.clone().into());
        }
        let mut head = self.head.write();
        if !head.current.layouts.iter().any(|l| l.told) {
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

    /// Writes blocks of all generations but the current and removes their logs.
    fn flush_older(&self) -> Result<(), StoreError> {
        loop {
            let Some(generation) = self.head.read().older.first().cloned() else {
                return Ok(());
            };
            let blocks = self.blocks_of(&generation)?;
            // Readers look at the head first: the blocks must be there before the generation goes.
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
                        tracing::warn!(error = %e, "half a flush stays on disk until the next merge");
                    }
                    return Err(e);
                }
            }
        }
        Ok(blocks)
    }

    /// Builds a block beside the others and gives it its name when it is durable.
    pub fn write_block(
        &self,
        shelf: &Shelf,
        sources: &mut [Source],
        plan: Plan,
        go_on: impl FnMut() -> bool,
    ) -> Result<Option<Arc<Block>>, StoreError> {
        let id = self.maintenance.next_block.fetch_add(1, Ordering::Relaxed);
        let path = shelf.dir.join(name(id));
        let part = path.with_extension("part");
        // A leftover of an attempt that could not even be removed.
        let _ = self.files.remove(&part);
        let built = build(&*self.files, &part, sources, plan, go_on).and_then(|facts: Option<Facts>| {
            if facts.is_none() {
                return Ok(false);
            }
            let dir = &shelf.dir;
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
                // An unfinished file is of no use and takes space; the log still has its samples.
                let _ = self.files.remove(&part);
                let _ = self.files.remove(&path);
                Err(e)
            }
        }
    }

    /// Removes the logs up to a generation; generations become blocks in their order.
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

    /// Aligned windows that hold samples of a generation. Back-filled years become a few wide windows, not thousands.
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
