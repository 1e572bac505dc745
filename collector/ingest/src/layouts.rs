//! Returns the same allocation for equal column lists, by which the store recognizes them without hashing labels.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hash as _, Hasher as _};
use std::sync::Arc;

use fabriclens_model::Labels;
use fabriclens_wire::decode;
use foldhash::fast::RandomState;

/// Most column lists that are remembered; beyond it all are forgotten, because senders whose lists never repeat must
/// not fill memory.
const LISTS: usize = 200_000;

/// A hasher for keys that are hashes already.
#[derive(Default)]
struct Ready(u64);

impl std::hash::Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b));
    }
}

/// A decoder's list and its canonical list.
type Twins = (Arc<[decode::Labels]>, Arc<[Labels]>);

/// Canonical lists by the addresses of their label sets. A list keeps its label sets alive, so no address is reused.
#[derive(Default)]
pub(super) struct Layouts {
    known: HashMap<u64, Vec<Arc<[Labels]>>, BuildHasherDefault<Ready>>,
    /// By the address of a decoder's list, which is kept alive, too.
    lists: foldhash::HashMap<usize, Twins>,
    hash: RandomState,
}

impl Layouts {
    /// Returns the canonical list for a decoder's list.
    pub(super) fn of_decoded(&mut self, series: Arc<[decode::Labels]>) -> Arc<[Labels]> {
        let address = series.as_ptr() as usize;
        if let Some((_, list)) = self.lists.get(&address) {
            return list.clone();
        }
        let labels: Vec<Labels> = series.iter().cloned().map(Labels::from_sorted).collect();
        let list = self.intern(&labels);
        // Only lists that the decoder keeps will come again.
        if Arc::strong_count(&series) > 1 {
            if self.lists.len() > LISTS {
                self.lists.clear();
            }
            self.lists.insert(address, (series, list.clone()));
        }
        list
    }

    /// Forgets lists that neither a decoder nor the store uses.
    pub(super) fn forget_unused(&mut self) {
        self.lists.retain(|_, (series, _)| Arc::strong_count(series) > 1);
        self.lists.shrink_to(2 * self.lists.len());
        self.known.retain(|_, lists| {
            lists.retain(|list| Arc::strong_count(list) > 1);
            !lists.is_empty()
        });
        self.known.shrink_to(2 * self.known.len());
    }

    /// Returns the canonical list of these label sets, in this order.
    pub(super) fn intern(&mut self, series: &[Labels]) -> Arc<[Labels]> {
        if self.known.len() > LISTS {
            self.known.clear();
        }
        let address = |l: &Labels| l.pairs().as_ptr() as usize;
        let mut hasher = self.hash.build_hasher();
        series.iter().for_each(|l| address(l).hash(&mut hasher));
        let bucket = self.known.entry(hasher.finish()).or_default();
        let same = |known: &&Arc<[Labels]>| {
            known.len() == series.len() && known.iter().zip(series).all(|(a, b)| address(a) == address(b))
        };
        if let Some(list) = bucket.iter().find(same) {
            return list.clone();
        }
        let list: Arc<[Labels]> = series.into();
        bucket.push(list.clone());
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_label_sets_share_a_list() {
        let (a, b) = (Labels::new([("__name__", "a")]), Labels::new([("__name__", "b")]));
        let mut layouts = Layouts::default();
        let first = layouts.intern(&[a.clone(), b.clone()]);
        assert!(Arc::ptr_eq(&first, &layouts.intern(&[a.clone(), b.clone()])));
        assert!(!Arc::ptr_eq(&first, &layouts.intern(&[b.clone(), a.clone()])));
        assert!(!Arc::ptr_eq(&first, &layouts.intern(&[a])));
    }

    #[test]
    fn unused_lists_are_forgotten() {
        let mut layouts = Layouts::default();
        let mut of = |name: &str| {
            let labels: decode::Labels = [("__name__".into(), name.into())].into();
            let decoded: Arc<[decode::Labels]> = [labels].into();
            (decoded.clone(), layouts.of_decoded(decoded))
        };
        let (by_decoder, by_store, by_none) = (of("a"), of("b"), of("c"));
        let lists = [&by_decoder.1, &by_store.1, &by_none.1].map(Arc::downgrade);
        let (_decoder, _store) = (by_decoder.0, by_store.1);
        drop((by_decoder.1, by_store.0, by_none));
        layouts.forget_unused();
        assert_eq!(lists.map(|list| list.strong_count() > 0), [true, true, false]);
        assert_eq!((layouts.lists.len(), layouts.known.len()), (1, 2));
    }
}
