//! Group keys for aggregations and vector matching. A label set is looked up by its grouping labels, which are copied
//! only for a new group.

use super::relabel;
use crate::plan::Grouping;
use fabriclens_model::Labels;
use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt as _};
use std::hash::{BuildHasher, Hash as _, Hasher as _};
use std::sync::Arc;

impl Grouping {
    fn counts(&self, name: &str) -> bool {
        let named = self.labels.iter().any(|l| l == name);
        if self.keep { named } else { !named && name != "__name__" }
    }

    /// The labels of the group that a series belongs to.
    pub(super) fn labels_of(&self, labels: &Labels) -> Labels {
        relabel(labels, |n| self.counts(n))
    }
}

/// Numbers groups in order of appearance.
pub(super) struct GroupKeys<'a> {
    grouping: &'a Grouping,
    hasher: RandomState,
    by_hash: HashMap<u64, Vec<usize>>,
    labels: Vec<Labels>,
}

impl<'a> GroupKeys<'a> {
    /// An empty set of groups.
    pub fn new(grouping: &'a Grouping) -> Self {
        Self { grouping, hasher: RandomState::default(), by_hash: HashMap::new(), labels: vec![] }
    }

    /// The number of the group of a series; a new group gets the next number.
    pub fn number(&mut self, labels: &Labels) -> usize {
        if self.grouping.keep && self.grouping.labels.is_empty() {
            self.labels.resize_with(1, Labels::default);
            return 0;
        }
        let counting = || labels.pairs().filter(|(name, _)| self.grouping.counts(name));
        let mut hasher = self.hasher.build_hasher();
        counting().for_each(|pair| pair.hash(&mut hasher));
        let same = |of: &Labels| {
            let mut pairs = of.pairs();
            let equal = |a: &Arc<str>, b: &Arc<str>| Arc::ptr_eq(a, b) || a == b;
            counting().all(|p| pairs.next().is_some_and(|q| equal(p.0, q.0) && equal(p.1, q.1)))
                && pairs.next().is_none()
        };
        let alike = self.by_hash.entry(hasher.finish()).or_default();
        if let Some(found) = alike.iter().find(|at| same(&self.labels[**at])) {
            return *found;
        }
        alike.push(self.labels.len());
        self.labels.push(self.grouping.labels_of(labels));
        self.labels.len() - 1
    }

    /// Labels of the groups, by number.
    pub fn into_labels(self) -> Vec<Labels> {
        self.labels
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
            let labels = keys.into_labels();
            for (s, n) in series.iter().zip(want) {
                assert_eq!(labels[n], grouping.labels_of(s));
            }
        }
    }
}
