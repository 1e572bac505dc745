//! Column lists and their identity. A sender repeats the same list in every request, so whoever keeps something per
//! list (the store, the forward queues, the detectors) looks it up by an id instead of by its labels.

use crate::Labels;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Identity of a [`Layout`]: unique in the process and never reused. Equal ids mean equal columns; equal columns may
/// have several ids, unless one [`LayoutInterner`](crate::LayoutInterner) made them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LayoutId(u64);

impl LayoutId {
    fn next() -> Self {
        // Only uniqueness matters, so no ordering is needed.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

/// An immutable list of columns, one label set each, with its identity. Clones share both.
#[derive(Clone)]
pub struct Layout {
    id: LayoutId,
    columns: Arc<[Labels]>,
}

impl Layout {
    /// A column list with a new identity.
    pub fn new(columns: impl Into<Arc<[Labels]>>) -> Self {
        Self { id: LayoutId::next(), columns: columns.into() }
    }

    /// Identity of the list.
    pub fn id(&self) -> LayoutId {
        self.id
    }

    /// The label sets, in column order.
    pub fn columns(&self) -> &Arc<[Labels]> {
        &self.columns
    }

    /// A reference that does not keep the list alive, for dropping cache entries of lists that are gone.
    pub fn downgrade(&self) -> Weak<[Labels]> {
        Arc::downgrade(&self.columns)
    }

    /// Whether another clone of the list exists.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.columns) > 1
    }
}

impl Deref for Layout {
    type Target = [Labels];

    fn deref(&self) -> &[Labels] {
        &self.columns
    }
}

impl<T: Into<Arc<[Labels]>>> From<T> for Layout {
    fn from(columns: T) -> Self {
        Self::new(columns)
    }
}

impl FromIterator<Labels> for Layout {
    fn from_iter<T: IntoIterator<Item = Labels>>(columns: T) -> Self {
        Self::new(Arc::from_iter(columns))
    }
}

impl Default for Layout {
    fn default() -> Self {
        Self::new([])
    }
}

/// Compares the columns.
impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id || self.columns == other.columns
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.columns.fmt(f)
    }
}
