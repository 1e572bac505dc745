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
    /// In a box of its own, so that references of caches to lists that are gone keep no columns.
    columns: Arc<Box<[Labels]>>,
}

impl Layout {
    /// A column list with a new identity.
    pub fn new(columns: impl Into<Box<[Labels]>>) -> Self {
        Self { id: LayoutId::next(), columns: Arc::new(columns.into()) }
    }

    /// Identity of the list.
    pub fn id(&self) -> LayoutId {
        self.id
    }

    /// A reference that does not keep the list alive, for dropping cache entries of lists that are gone.
    pub fn downgrade(&self) -> WeakLayout {
        WeakLayout(Arc::downgrade(&self.columns))
    }

    /// Whether another clone of the list exists.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.columns) > 1
    }
}

/// Tells whether a [`Layout`] is still in use.
pub struct WeakLayout(Weak<Box<[Labels]>>);

impl WeakLayout {
    /// Whether the layout is still in use: false once its last holder has dropped it.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl Deref for Layout {
    type Target = [Labels];

    fn deref(&self) -> &[Labels] {
        &self.columns
    }
}

impl<T: Into<Box<[Labels]>>> From<T> for Layout {
    fn from(columns: T) -> Self {
        Self::new(columns)
    }
}

impl FromIterator<Labels> for Layout {
    fn from_iter<T: IntoIterator<Item = Labels>>(columns: T) -> Self {
        Self::new(Box::from_iter(columns))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{size_of, size_of_val};

    #[test]
    fn a_weak_reference_keeps_no_columns() {
        let list = Layout::new([Labels::new([("__name__", "m")])]);
        let weak = list.downgrade();
        assert_eq!(size_of_val(&*list.columns), size_of::<Box<[Labels]>>(), "what a weak reference keeps");
        assert!(weak.is_alive());
        drop(list);
        assert!(!weak.is_alive());
    }
}
