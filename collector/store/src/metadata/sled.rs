//! Takes over the metadata database of releases up to 0.1, a directory written by `sled`. Nothing else uses `sled`, and
//! it goes with this file: [design record 22](../../../../docs/design/0022-redb-for-metadata.md).

use super::damage::{aside, open_error, report};
use super::file::{FileError, guarded};
use super::{MetadataBatch, MetadataDb};
use crate::error::{OpenError, StoreError};
use crate::wal::replay::Damage;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the database may stay locked by a process that ends.
const PATIENCE: Duration = Duration::from_secs(5);
/// Tables that `sled` or its rollback guard kept for themselves.
const INTERNAL: [&[u8]; 2] = [b"__sled__default", b"witness"];
/// Table of the blocks that are rolled up.
const ROLLED: &str = "rolled";
/// File of the rollback guard: the number that table `witness` had at least.
const WITNESS: &str = "meta.witness";

/// Table, key and value.
type Entry = (String, Vec<u8>, Vec<u8>);

/// Writes the entries of the directory to the database in one transaction, compares them, and moves the directory aside.
/// If the process ends in between, the next one does the same again.
pub fn take_over(db: &Arc<MetadataDb>, root: &Path, dir: &Path, damage: &mut Vec<Damage>) -> Result<(), OpenError> {
    if !dir.is_dir() {
        return Ok(());
    }
    let failed = |e: io::Error| open_error(root, dir, e.into());
    let (entries, guarded_number) = match guarded(|| read(dir)) {
        Ok(read) => read,
        Err(FileError::Damaged(message)) => {
            let to = aside(dir, "damaged");
            std::fs::rename(dir, &to).map_err(failed)?;
            let message =
                format!("the metadata database of an earlier release cannot be read and is not taken over: {message}");
            report(damage, to, message);
            return Ok(());
        }
        Err(e) => return Err(open_error(root, dir, e)),
    };
    let to = if dir.with_extension("sled").exists() { aside(dir, "sled") } else { dir.with_extension("sled") };
    let witness = std::fs::read(root.join(WITNESS)).ok();
    if witness.and_then(|bytes| number(bytes.get(..8)?)).is_some_and(|number| number > guarded_number) {
        let message =
            "the metadata database of an earlier release lost its newest writes; compare it with a snapshot".to_owned();
        report(damage, to.clone(), message);
    }
    store(db, &entries).map_err(|e| failed(io::Error::other(e)))?;
    std::fs::rename(dir, &to).map_err(failed)?;
    super::file::sync_dir(dir).map_err(failed)?;
    // The guard belongs to the old directory.
    let _ = std::fs::remove_file(root.join(WITNESS));
    tracing::info!(
        entries = entries.len(), kept = %to.display(),
        "took over the metadata database of an earlier release; remove the old directory when no downgrade is planned"
    );
    Ok(())
}

/// Reads all tables, and the number of the rollback guard.
fn read(dir: &Path) -> Result<(Vec<Entry>, u64), FileError> {
    let patience = Instant::now() + PATIENCE;
    let db = loop {
        match sled::open(dir) {
            Err(sled::Error::Io(e)) if e.to_string().contains("acquire lock") => {
                if Instant::now() > patience {
                    return Err(FileError::Held);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => break opened.map_err(sled_failed)?,
        }
    };
    let mut entries = Vec::new();
    for name in db.tree_names().into_iter().filter(|name| !INTERNAL.contains(&&name[..])) {
        let table = String::from_utf8_lossy(&name).into_owned();
        for entry in &db.open_tree(&name).map_err(sled_failed)? {
            let (key, value) = entry.map_err(sled_failed)?;
            entries.push((table.clone(), key.to_vec(), value.to_vec()));
        }
    }
    let witness = db.open_tree("witness").and_then(|tree| tree.get("number")).map_err(sled_failed)?;
    Ok((entries, witness.and_then(|bytes| number(&bytes)).unwrap_or(0)))
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

fn sled_failed(e: sled::Error) -> FileError {
    match e {
        sled::Error::Io(e) if e.kind() != io::ErrorKind::Other => FileError::Io(e),
        e => FileError::Damaged(e.to_string()),
    }
}

/// Writes the entries, and reads them again. Entries that are there already are from a take-over that was interrupted, or
/// older than the directory, if an earlier release ran in between.
fn store(db: &Arc<MetadataDb>, entries: &[Entry]) -> Result<(), StoreError> {
    let mut batch = MetadataBatch::default();
    // Numbers of rolled-up blocks are used again, so old ones must not stay.
    let rolled = db.table(ROLLED);
    rolled.each(|key, _| batch.remove(&rolled, key))?;
    for (table, key, value) in entries {
        batch.put(&db.table(table), key, value.as_slice());
    }
    rolled.commit(&batch)?;
    for (table, key, value) in entries {
        if db.table(table).get(key)?.as_ref() != Some(value) {
            return Err(StoreError::Metadata(format!("an entry of table {table} was not taken over; try again")));
        }
    }
    Ok(())
}
