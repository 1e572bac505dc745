//! Online snapshots: a copy of the store that can be opened as a store.

use crate::dir::MARKER;
use crate::error::StoreError;
use crate::io::{read_all, write_whole};
use crate::metadata::Table;
use crate::rollback_guard::TABLE;
use crate::rollup::RolledUp;
use crate::store::Store;
use std::io::ErrorKind;
use std::path::Path;

/// Database trees that are not copied verbatim.
const OWN: [&[u8]; 3] = [b"metadata", b"rolled", TABLE.as_bytes()];

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
        let fail = |e: sled::Error| StoreError::Metadata(e.to_string());
        let db = sled::open(target.join("meta")).map_err(fail)?;
        let table = Table::open(&db).map_err(fail)?;
        RolledUp::open(&db).map_err(fail)?.add(rolled_up)?;
        let all = self.metadata();
        table.put(all.iter().map(|(n, m)| (n.as_str(), m.clone())))?;
        for name in self.shared.db.tree_names().into_iter().filter(|n| !OWN.contains(&&n[..])) {
            let (from, to) = (self.shared.db.open_tree(&name).map_err(fail)?, db.open_tree(&name).map_err(fail)?);
            for entry in &from {
                let (key, value) = entry.map_err(fail)?;
                to.insert(key, value).map_err(fail)?;
            }
        }
        db.flush().map(|_| ()).map_err(fail)
    }
}
