//! Label sets as text indexes. Texts are sorted and unique, so index pairs compare like their labels: a million series
//! are sorted, merged and written without comparing strings.

use fabriclens_model::{Labels, Pair};
use foldhash::{HashMap, HashMapExt as _};
use std::sync::Arc;

/// Label name and value as text indexes.
pub type LabelPair = (u32, u32);

/// No text.
const NONE: u32 = u32::MAX;

/// Label sets over a table of sorted texts.
pub struct LabelTable {
    /// By index, sorted.
    pub texts: Vec<Arc<str>>,
    /// Text index of `__name__`.
    name: u32,
    /// Labels but the metric's name of all lists: the series of a port share few lists.
    pairs: Vec<LabelPair>,
    /// End of each list in `pairs`.
    ends: Vec<u32>,
    /// By label set: the metric's name, or [`NONE`], and its list.
    sets: Vec<(u32, u32)>,
}

impl LabelTable {
    /// Builds the table of these label sets, in their order.
    pub fn of<'a>(all: impl ExactSizeIterator<Item = &'a Labels>) -> Self {
        let mut texts = Texts::default();
        let name = texts.number(&"__name__".into());
        let sets = Vec::with_capacity(all.len());
        let mut table = Self { texts: Vec::new(), name, pairs: Vec::new(), ends: Vec::new(), sets };
        let mut lists: HashMap<*const [Pair], u32> = HashMap::new();
        for labels in all {
            let (metric, others) = labels.parts();
            let list = *lists.entry(Arc::as_ptr(others)).or_insert_with(|| {
                table.pairs.extend(others.iter().map(|(name, value)| (texts.number(name), texts.number(value))));
                table.ends.push(table.pairs.len() as u32);
                table.ends.len() as u32 - 1
            });
            table.sets.push((metric.map_or(NONE, |metric| texts.number(metric)), list));
        }
        let ranks = texts.sort();
        let rank = |text: &mut u32| *text = ranks[*text as usize];
        rank(&mut table.name);
        table.pairs.iter_mut().for_each(|(name, value)| [name, value].into_iter().for_each(rank));
        table.sets.iter_mut().filter(|set| set.0 != NONE).for_each(|set| rank(&mut set.0));
        table.texts = texts.all;
        table
    }

    /// The labels of the n-th set, sorted by name.
    pub fn labels(&self, n: usize) -> impl Iterator<Item = LabelPair> + Clone {
        let (metric, list) = self.sets[n];
        let others = self.list(list);
        let before = others.iter().take_while(|(name, _)| *name < self.name).count();
        let metric = (metric != NONE).then_some((self.name, metric));
        others[..before].iter().copied().chain(metric).chain(others[before..].iter().copied())
    }

    /// The label sets in their order.
    pub fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.sets.len() as u32).collect();
        if self.begins_with_metric() {
            let ranks = self.list_ranks();
            order.sort_unstable_by_key(|set| {
                let (metric, list) = self.sets[*set as usize];
                (metric, ranks[list as usize])
            });
        } else {
            order.sort_unstable_by(|a, b| self.labels(*a as usize).cmp(self.labels(*b as usize)));
        }
        order
    }

    fn list(&self, list: u32) -> &[LabelPair] {
        let start = list.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.pairs[start as usize..self.ends[list as usize] as usize]
    }

    /// Whether the name of the metric is the first label of each set. Labels that sort before it (upper case) are legal but rare.
    fn begins_with_metric(&self) -> bool {
        let mut lists = 0..self.ends.len() as u32;
        let before = |list: u32| self.list(list).first().is_some_and(|(name, _)| *name < self.name);
        self.sets.iter().all(|(metric, _)| *metric != NONE) && !lists.any(before)
    }

    /// By list: its place in the order of all lists; equal ones have the same.
    fn list_ranks(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.ends.len() as u32).collect();
        order.sort_unstable_by_key(|list| self.list(*list));
        let mut ranks = vec![0; order.len()];
        for (rank, equal) in order.chunk_by(|a, b| self.list(*a) == self.list(*b)).enumerate() {
            equal.iter().for_each(|list| ranks[*list as usize] = rank as u32);
        }
        ranks
    }
}

/// Texts and their numbers.
#[derive(Default)]
struct Texts {
    all: Vec<Arc<str>>,
    /// Most texts are shared between label sets: comparing addresses is a fast path, the content decides.
    by_address: HashMap<*const str, u32>,
    by_content: HashMap<Arc<str>, u32>,
}

impl Texts {
    fn number(&mut self, text: &Arc<str>) -> u32 {
        let Self { all, by_address, by_content } = self;
        *by_address.entry(Arc::as_ptr(text)).or_insert_with(|| {
            *by_content.entry(text.clone()).or_insert_with(|| {
                all.push(text.clone());
                all.len() as u32 - 1
            })
        })
    }

    /// Sorts the texts; returns the new number of each.
    fn sort(&mut self) -> Vec<u32> {
        let mut sorted: Vec<u32> = (0..self.all.len() as u32).collect();
        sorted.sort_unstable_by_key(|text| &self.all[*text as usize]);
        let mut ranks = vec![0; sorted.len()];
        sorted.iter().enumerate().for_each(|(rank, text)| ranks[*text as usize] = rank as u32);
        self.all = sorted.iter().map(|text| self.all[*text as usize].clone()).collect();
        ranks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(names: &LabelTable, n: usize) -> Labels {
        let text = |t: u32| names.texts[t as usize].clone();
        Labels::new(names.labels(n).map(|(n, v)| (text(n), text(v))))
    }

    fn check(all: &[&[(&str, &str)]]) -> LabelTable {
        let all: Vec<Labels> = all.iter().map(|pairs| Labels::new(pairs.iter().copied())).collect();
        let names = LabelTable::of(all.iter());
        for (i, a) in all.iter().enumerate() {
            assert_eq!(labels(&names, i), *a);
            for (j, b) in all.iter().enumerate() {
                assert_eq!(names.labels(i).cmp(names.labels(j)), a.cmp(b), "{a} and {b}");
            }
        }
        let mut sorted = all.clone();
        sorted.sort();
        assert_eq!(names.order().iter().map(|n| all[*n as usize].clone()).collect::<Vec<_>>(), sorted);
        names
    }

    #[test]
    fn index_pairs_compare_like_labels() {
        let names = check(&[
            &[("host", "b"), ("port", "1")],
            &[("host", "b")],
            &[("host", "a"), ("port", "2")],
            &[("Rack", "host"), ("host", "zz")],
            &[],
            &[("Rack", "a"), ("__name__", "zz"), ("host", "b")],
            &[("host", "b"), ("port", "10")],
            &[("__name__", "a"), ("host", "a")],
        ]);
        assert_eq!(
            names.texts.iter().map(|t| &**t).collect::<Vec<_>>(),
            "1 10 2 Rack __name__ a b host port zz".split(' ').collect::<Vec<_>>()
        );
    }

    #[test]
    fn label_sets_that_begin_with_a_metric_are_sorted_by_numbers() {
        let names = check(&[
            &[("__name__", "b"), ("host", "b")],
            &[("__name__", "b")],
            &[("__name__", "a"), ("host", "b"), ("port", "1")],
            &[("__name__", "a"), ("host", "b")],
            &[("__name__", "b"), ("host", "a"), ("port", "1")],
        ]);
        assert!(names.begins_with_metric());
    }
}
