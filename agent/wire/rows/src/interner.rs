//! Gives equal column lists the same [`Layout`], so that consumers can key on its id.

use crate::{Labels, Layout};
use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt as _};
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};

/// Lists, and columns of all together, after which all are forgotten, so that a sender whose lists never repeat cannot
/// fill memory.
const MAX_LAYOUTS: usize = 200_000;
const MAX_COLUMNS: usize = 8 << 20;

/// Known column lists by a hash of their label sets; equality is verified.
pub struct LayoutInterner {
    by_hash: HashMap<u64, Vec<Layout>>,
    hasher: RandomState,
    /// Columns of all lists, and the most that may be.
    columns: usize,
    max_columns: usize,
}

impl Default for LayoutInterner {
    fn default() -> Self {
        Self::with_columns(MAX_COLUMNS)
    }
}

impl LayoutInterner {
    /// Forgets its lists beyond so many columns of all together.
    pub fn with_columns(max_columns: usize) -> Self {
        Self { by_hash: HashMap::new(), hasher: RandomState::default(), columns: 0, max_columns }
    }

    /// The layout of these columns, in this order. Label sets that are clones of known ones compare fast; see
    /// [`Labels::with_hash`].
    pub fn intern(&mut self, columns: Vec<Labels>) -> Layout {
        if self.by_hash.len() > MAX_LAYOUTS || self.columns > self.max_columns {
            self.by_hash = HashMap::new();
            self.columns = 0;
        }
        let mut hasher = self.hasher.build_hasher();
        columns.iter().for_each(|labels| labels.hash(&mut hasher));
        let bucket = self.by_hash.entry(hasher.finish()).or_default();
        if let Some(layout) = bucket.iter().find(|layout| ***layout == columns[..]) {
            return layout.clone();
        }
        let layout = Layout::new(columns);
        bucket.push(layout.clone());
        self.columns += layout.len();
        layout
    }

    /// Forgets the layouts that nothing else uses.
    pub fn forget_unused(&mut self) {
        self.by_hash.retain(|_, bucket| {
            bucket.retain(Layout::is_shared);
            !bucket.is_empty()
        });
        self.by_hash.shrink_to(2 * self.by_hash.len());
        self.columns = self.by_hash.values().flatten().map(|layout| layout.len()).sum();
    }

    /// Number of known layouts.
    pub fn len(&self) -> usize {
        self.by_hash.values().map(Vec::len).sum()
    }

    /// Whether no layout is known.
    pub fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(name: &str) -> Labels {
        Labels::new([("__name__", name)])
    }

    #[test]
    fn equal_columns_share_an_id() {
        let mut layouts = LayoutInterner::default();
        let mut id = |names: &[&str]| layouts.intern(names.iter().map(|n| labels(n)).collect()).id();
        let first = id(&["a", "b"]);
        assert_eq!(first, id(&["a", "b"]), "equal texts, other allocations");
        assert!(first != id(&["b", "a"]) && first != id(&["a"]));
    }

    #[test]
    fn ids_are_never_reused() {
        let old = Layout::new([labels("a")]).id();
        assert_ne!(old, Layout::new([labels("a")]).id());
    }

    #[test]
    fn lists_that_never_repeat_are_forgotten() {
        let mut layouts = LayoutInterner::with_columns(100);
        let mut most = 0;
        for n in 0..100 {
            layouts.intern((0..10).map(|column| labels(&format!("m{}", n + column))).collect());
            most = most.max(layouts.len());
        }
        assert_eq!(most, 11, "their columns count");
        layouts.forget_unused();
        assert_eq!((layouts.len(), layouts.columns), (0, 0));
    }

    #[test]
    fn unused_layouts_are_forgotten() {
        let mut layouts = LayoutInterner::default();
        let kept = layouts.intern(vec![labels("a")]);
        drop(layouts.intern(vec![labels("b")]));
        layouts.forget_unused();
        assert_eq!(layouts.len(), 1);
        assert_eq!(layouts.intern(vec![labels("a")]).id(), kept.id());
    }
}
