//! Writes one block file durably, and slows background builds down in favor of appends. Flush, merge and rollups use
//! both.

use crate::block::build::{Plan, build};
use crate::block::file::Footer;
use crate::block::read::{Block, OpenFailure, name};
use crate::block::source::Source;
use crate::block_set::BlockSet;
use crate::error::StoreError;
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Shared {
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

    /// Limits work behind appends to half a core, in slices short enough that an append never waits for a core. Call
    /// the result between slices; it returns false when the store is being closed.
    pub fn yield_to_ingest(&self) -> impl FnMut() -> bool {
        let mut last = Instant::now();
        move || {
            let worked = last.elapsed();
            if worked >= Duration::from_millis(5) {
                std::thread::sleep(worked.min(Duration::from_millis(50)));
                last = Instant::now();
            }
            !self.closed.load(Ordering::Acquire)
        }
    }
}
