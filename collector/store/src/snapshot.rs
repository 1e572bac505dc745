//! Online snapshots: a copy of the store that can be opened as a store.

use crate::dir::MARKER;
use crate::error::StoreError;
use crate::io::{read_all, write_whole};
use crate::metadata::{MetadataBatch, MetadataDb};
use crate::rollup::TABLE;
use crate::store::Store;
use std::io::ErrorKind;
use std::path::Path;

impl Store {
    /// Writes everything appended before the call to `target`, a new or empty directory. Blocks are immutable, so on
    /// the same file system they are hard-linked and take no space. To restore, open the directory or a copy of it.
    ///
    /// # Errors
    /// [`StoreError`]; the store itself is unaffected, and `target` is not a valid store until it is complete.
    pub fn snapshot(&self, target: &Path) -> Result<(), StoreError> {
        let files = &*self.shared.files;
        let fail = |what| move |e: std::io::Error| StoreError::io(what, target, &e);
        let sets = [(&self.shared.blocks, target.join("blocks")), (&self.shared.rollups, target.join("rollups"))];
        let wal_dir = target.join("wal");
        let dirs = || sets.iter().map(|(_, dir)| dir).chain([&wal_dir]);
        files.create_dir(target).map_err(fail("create"))?;
        let used = std::fs::read_dir(target).map_err(fail("list"))?.next().is_some();
        if used {
            return Err(fail("write a snapshot to")(ErrorKind::DirectoryNotEmpty.into()));
        }
        for dir in dirs() {
            files.create_dir(dir).map_err(fail("create"))?;
        }
        self.flush()?;
        // Blocks merges, so that no block disappears between listing and linking.
        let merging = self.shared.maintenance.merge.lock();
        for (set, dir) in &sets {
            for block in set.all().iter() {
                let name = block.path.file_name().unwrap_or_default();
                files.link(&block.path, &dir.join(name)).map_err(fail("link a block into"))?;
            }
        }
        let rolled_up = self.shared.rolled_up.all();
        drop(merging);
        for dir in dirs() {
            files.sync_dir(dir).map_err(fail("sync"))?;
        }
        self.copy_metadata(target, &rolled_up)?;
        let marker = read_all(files, &self.shared.dir.root.join(MARKER)).map_err(fail("read the marker for"))?;
        write_whole(files, &target.join(MARKER), &marker).map_err(fail("write the marker of"))
    }

    fn copy_metadata(&self, target: &Path, rolled_up: &[u64]) -> Result<(), StoreError> {
        let to = MetadataDb::create(target)?;
        let mut batch = MetadataBatch::default();
        for name in self.shared.db.tables()?.iter().filter(|name| *name != TABLE) {
            let table = to.table(name);
            self.shared.db.table(name).each(|key, value| batch.put(&table, key, value))?;
        }
        let table = to.table(TABLE);
        rolled_up.iter().for_each(|id| batch.put(&table, id.to_be_bytes(), []));
        table.commit(&batch)
    }
}
