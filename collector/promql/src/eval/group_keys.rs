//! Group keys for aggregations and vector matching. A label set is looked up by its grouping labels, of which no copy is
//! made.

use super::relabel;
use crate::plan::Grouping;
use fabriclens_model::Labels;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use smallvec::SmallVec;
use std::hash::{BuildHasher, Hash as _, Hasher as _};
use std::sync::Arc;

impl Grouping {
    /// Whether series with different values of this label are in different groups.
    pub(super) fn counts(&self, name: &str) -> bool {
        let named = self.labels.iter().any(|l| l == name);
        if self.keep { named } else { !named && name != "__name__" }
    }

    /// The labels of the group that a series belongs to.
    pub(super) fn labels_of(&self, labels: &Labels) -> Labels {
        relabel(labels, |n| self.counts(n))
    }
}

/// Which labels count, by position: the series of a metric share the texts of their names.
#[derive(Default)]
struct Names(Vec<(Arc<str>, bool)>);

impl Names {
    /// The labels of a series that count.
    fn counting<'l>(&mut self, grouping: &Grouping, labels: &'l Labels) -> SmallVec<[SharedPair<'l>; 16]> {
        let mut counting = SmallVec::new();
        for (at, pair) in labels.pairs().enumerate() {
            let counts = match self.0.get(at) {
                Some((known, counts)) if Arc::ptr_eq(known, pair.0) => *counts,
                _ => {
                    self.0.truncate(at);
                    self.0.push((pair.0.clone(), grouping.counts(pair.0)));
                    self.0[at].1
                }
            };
            if counts {
                counting.push(pair);
            }
        }
        counting
    }
}

type SharedPair<'l> = (&'l Arc<str>, &'l Arc<str>);

/// Whether two texts are equal; label sets share most of theirs, so that addresses tell.
pub(super) fn same_text(a: &Arc<str>, b: &Arc<str>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

fn equal(a: &[SharedPair<'_>], b: &[SharedPair<'_>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_text(a.0, b.0) && same_text(a.1, b.1))
}

/// Numbers groups in order of appearance.
pub(super) struct GroupKeys<'a> {
    grouping: &'a Grouping,
    /// Those of the series, and of the examples: they may be of two metrics.
    names: [Names; 2],
    hasher: RandomState,
    /// Hash and number of each group.
    known: HashTable<(u64, usize)>,
    /// A series of each group.
    examples: Vec<&'a Labels>,
}

impl<'a> GroupKeys<'a> {
    /// An empty set of groups.
    pub fn new(grouping: &'a Grouping) -> Self {
        let (names, hasher) = (Default::default(), RandomState::default());
        Self { grouping, names, hasher, known: HashTable::new(), examples: Vec::new() }
    }

    /// The number of the group of a series; a new group gets the next number.
    pub fn number(&mut self, labels: &'a Labels) -> usize {
        if self.grouping.keep && self.grouping.labels.is_empty() {
            self.examples.resize(1, labels);
            return 0;
        }
        let Self { grouping, names: [names, of_examples], known, examples, .. } = self;
        let counting = names.counting(grouping, labels);
        let mut hasher = self.hasher.build_hasher();
        counting.iter().for_each(|pair| pair.hash(&mut hasher));
        let (hash, next) = (hasher.finish(), examples.len());
        let is_group = |known: &(u64, usize)| {
            known.0 == hash && equal(&of_examples.counting(grouping, examples[known.1]), &counting)
        };
        match known.entry(hash, is_group, |known| known.0) {
            Entry::Occupied(found) => found.get().1,
            Entry::Vacant(place) => {
                place.insert((hash, next));
                examples.push(labels);
                next
            }
        }
    }

    /// A series of each group, by number.
    pub fn into_examples(self) -> Vec<&'a Labels> {
        self.examples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_depend_on_grouping_labels_only() {
        let series: Vec<Labels> = ["a", "b", "a", ""]
            .into_iter()
            .enumerate()
            .map(|(i, host)| {
                Labels::new([("__name__", format!("m{i}")), ("host", host.to_owned()), ("port", (i % 2).to_string())])
            })
            .collect();
        for (keep, names, want) in [
            (true, vec!["host"], vec![0, 1, 0, 2]),
            (true, vec![], vec![0; 4]),
            (true, vec!["port", "__name__"], vec![0, 1, 2, 3]),
            (false, vec!["host"], vec![0, 1, 0, 1]),
            (false, vec![], vec![0, 1, 0, 2]),
        ] {
            let grouping = Grouping { keep, labels: names.iter().map(|n| (*n).to_owned()).collect() };
            let mut keys = GroupKeys::new(&grouping);
            assert_eq!(series.iter().map(|s| keys.number(s)).collect::<Vec<_>>(), want, "{keep} {names:?}");
            let examples = keys.into_examples();
            for (s, n) in series.iter().zip(want) {
                assert_eq!(grouping.labels_of(examples[n]), grouping.labels_of(s));
            }
        }
    }
}
