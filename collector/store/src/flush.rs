//! Flushes the head: rotates its generation, writes older generations to blocks and removes their logs.

use crate::block::build::Plan;
use crate::block::read::Block;
use crate::block::source::Source;
use crate::error::StoreError;
use crate::head::generation::Generation;
use crate::head::rows::Rows;
use crate::options::millis;
use crate::shared::{FLUSH, Shared};
use crate::wal::writer::parse_name;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time windows that one flush may write; if there are more, the windows are widened.
const MAX_WINDOWS: usize = 32;
/// When memory is short, the fraction of a full head (1/n) that is worth a block.
const SMALL_HEAD: u64 = 8;
/// When memory is short, the age at which any head is flushed: few samples of many series take little log but much
/// memory.
const SMALL_HEAD_AGE: Duration = Duration::from_secs(20);

impl Shared {
    /// Flushes everything in memory.
    pub fn flush_all(&self) -> Result<(), StoreError> {
        let mut began = self.maintenance.flush.lock();
        let result =
            self.flush_older().and_then(|()| self.rotate_head(&mut began, false)).and_then(|()| self.flush_older());
        self.note(FLUSH, result)
    }

    /// Flushes the head if it is full, old, or memory is short.
    pub fn flush_due(&self) -> Result<(), StoreError> {
        let mut began = self.maintenance.flush.lock();
        let (bytes, full) = (self.log.lock().bytes, self.full_head());
        self.maintenance.full_head.store(full, Ordering::Relaxed);
        let old = began.elapsed() >= self.options.head_age && bytes > 0;
        let short = self.maintenance.relieve_memory.swap(false, Ordering::Relaxed)
            && (bytes >= full / SMALL_HEAD || began.elapsed() >= SMALL_HEAD_AGE);
        let due = bytes > full || old || short;
        // While blocks cannot be written no further generation is started: appends are eventually refused, and memory
        // stays bounded.
        let result = self
            .flush_older()
            .and_then(|()| if due { self.rotate_head(&mut began, short) } else { Ok(()) })
            .and_then(|()| self.flush_older());
        self.note(FLUSH, result)
    }

    /// Bytes of log after which the head is flushed.
    fn full_head(&self) -> u64 {
        let series = self.head.read().current.series_without_components() as u128;
        let full = u128::from(self.options.head_bytes) * series / self.options.head_series.max(1) as u128;
        u64::try_from(full).unwrap_or(u64::MAX).max(self.options.head_bytes)
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
        let next = if short { head.current.empty_successor(number) } else { head.current.successor(number) };
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
            layout.unsealed().flat_map(Rows::times).for_each(|t| note(*t));
        }
        let clamp = |t: i128| t.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        occupied.into_iter().map(|w| (clamp(w * span), clamp((w + 1) * span - 1))).collect()
    }
}
