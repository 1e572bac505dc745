//! Tables of the metadata database, for all components.

use super::database::{Key, MetadataDb};
use crate::error::StoreError;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

type Entry = (Vec<u8>, Vec<u8>);

/// A table of the store's metadata database: small, rarely changed data of one component. Keys are ordered by their bytes.
/// A change is durable when its call returns.
#[derive(Clone)]
pub struct MetadataTable {
    db: Arc<MetadataDb>,
    name: Arc<str>,
}

/// Changes that become durable together, in any tables of one store; the last change of a key counts.
#[derive(Default)]
pub struct MetadataBatch {
    changes: BTreeMap<Key, Option<Vec<u8>>>,
}

impl MetadataBatch {
    /// Sets the value of a key.
    pub fn put(&mut self, table: &MetadataTable, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>) {
        self.changes.insert((table.name.clone(), key.as_ref().into()), Some(value.into()));
    }

    /// Removes a key.
    pub fn remove(&mut self, table: &MetadataTable, key: impl AsRef<[u8]>) {
        self.changes.insert((table.name.clone(), key.as_ref().into()), None);
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Adds changes from before this batch, which could not be stored then.
    pub fn add_earlier(&mut self, earlier: Self) {
        for (key, value) in earlier.changes {
            self.changes.entry(key).or_insert(value);
        }
    }
}

impl MetadataDb {
    /// A table; one that was never written is empty.
    pub fn table(self: &Arc<Self>, name: &str) -> MetadataTable {
        MetadataTable { db: self.clone(), name: name.into() }
    }
}

impl MetadataTable {
    /// Value of a key.
    ///
    /// # Errors
    /// [`StoreError::Metadata`], as of all methods.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, StoreError> {
        self.db.with(|file| file.get(&self.name, key.as_ref()))
    }

    /// Calls a function with each key and value, in order. It must not use the database.
    ///
    /// # Errors
    /// [`StoreError::Metadata`].
    pub fn each(&self, mut entry: impl FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        self.visit((Bound::Unbounded, Bound::Unbounded), false, |key, value| {
            entry(key, value);
            true
        })
    }

    /// The first entry.
    ///
    /// # Errors
    /// [`StoreError::Metadata`].
    pub fn first(&self) -> Result<Option<Entry>, StoreError> {
        self.one((Bound::Unbounded, Bound::Unbounded), false)
    }

    /// The last entry.
    ///
    /// # Errors
    /// [`StoreError::Metadata`].
    pub fn last(&self) -> Result<Option<Entry>, StoreError> {
        self.one((Bound::Unbounded, Bound::Unbounded), true)
    }

    /// The last entry whose key is not after this one.
    ///
    /// # Errors
    /// [`StoreError::Metadata`].
    pub fn last_until(&self, key: impl AsRef<[u8]>) -> Result<Option<Entry>, StoreError> {
        self.one((Bound::Unbounded, Bound::Included(key.as_ref())), true)
    }

    /// All keys with a prefix.
    ///
    /// # Errors
    /// [`StoreError::Metadata`].
    pub fn keys_with(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>, StoreError> {
        let (prefix, mut keys) = (prefix.as_ref(), Vec::new());
        self.visit((Bound::Included(prefix), Bound::Unbounded), false, |key, _| {
            let fits = key.starts_with(prefix);
            if fits {
                keys.push(key.to_vec());
            }
            fits
        })?;
        Ok(keys)
    }

    /// Durably sets one value.
    ///
    /// # Errors
    /// [`StoreError::Metadata`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), StoreError> {
        self.db.write(&[(&self.name, key.as_ref(), Some(value.as_ref()))])
    }

    /// Durably removes one key.
    ///
    /// # Errors
    /// [`StoreError::Metadata`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<(), StoreError> {
        self.db.write(&[(&self.name, key.as_ref(), None)])
    }

    /// Makes a batch durable, all of it or nothing; an empty one costs nothing. After an error, write it again.
    ///
    /// # Errors
    /// [`StoreError::Metadata`].
    pub fn commit(&self, batch: &MetadataBatch) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        let changes = batch.changes.iter().map(|((table, key), value)| (&**table, &**key, value.as_deref()));
        self.db.write(&changes.collect::<Vec<_>>())
    }

    fn one(&self, range: (Bound<&[u8]>, Bound<&[u8]>), backwards: bool) -> Result<Option<Entry>, StoreError> {
        let mut found = None;
        self.visit(range, backwards, |key, value| {
            found = Some((key.to_vec(), value.to_vec()));
            false
        })?;
        Ok(found)
    }

    fn visit(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        backwards: bool,
        mut entry: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        self.db.with(|file| file.visit(&self.name, range, backwards, &mut entry))
    }
}
