//! Label sets as text indexes. Texts are sorted and unique, so index pairs compare like their labels: a million series
//! are sorted, merged and written without comparing strings.

use fabriclens_model::Labels;
use foldhash::{HashMap, HashMapExt as _};
use std::sync::Arc;

/// Label name and value as text indexes.
pub type LabelPair = (u32, u32);

/// Label sets over a table of sorted texts.
#[derive(Default)]
pub struct LabelTable {
    /// By index, sorted.
    pub texts: Vec<Arc<str>>,
    pairs: Vec<LabelPair>,
    /// End of each set in `pairs`.
    ends: Vec<usize>,
}

impl LabelTable {
    /// Builds the table of these label sets, in their order.
    pub fn of<'a>(all: impl Iterator<Item = &'a Labels>) -> Self {
        let mut names = Self::default();
        // Most texts are shared between label sets: comparing addresses is a fast path, the content decides.
        let mut by_address: HashMap<(usize, usize), u32> = HashMap::new();
        let mut by_content: HashMap<Arc<str>, u32> = HashMap::new();
        for labels in all {
            for (name, value) in labels.pairs() {
                let mut number = |text: &Arc<str>| {
                    *by_address.entry((text.as_ptr() as usize, text.len())).or_insert_with(|| {
                        *by_content.entry(text.clone()).or_insert_with(|| {
                            names.texts.push(text.clone());
                            names.texts.len() as u32 - 1
                        })
                    })
                };
                names.pairs.push((number(name), number(value)));
            }
            names.ends.push(names.pairs.len());
        }
        let mut sorted: Vec<u32> = (0..names.texts.len() as u32).collect();
        sorted.sort_unstable_by_key(|t| &names.texts[*t as usize]);
        let mut rank = vec![0; sorted.len()];
        sorted.iter().enumerate().for_each(|(r, t)| rank[*t as usize] = r as u32);
        names.pairs.iter_mut().for_each(|p| *p = (rank[p.0 as usize], rank[p.1 as usize]));
        names.texts = sorted.iter().map(|t| names.texts[*t as usize].clone()).collect();
        names
    }

    /// An empty table over the texts of all sources (each sorted), and for each source the mapping from its text
    /// indexes.
    pub fn union(sources: &[&[Arc<str>]]) -> (Self, Vec<Vec<u32>>) {
        let mut all: Vec<(&Arc<str>, usize, usize)> = Vec::new();
        for (s, source) in sources.iter().enumerate() {
            all.extend(source.iter().enumerate().map(|(t, text)| (text, s, t)));
        }
        // Each source's texts are sorted, which a stable sort exploits.
        all.sort_by_key(|t| t.0);
        let mut names = Self::default();
        let mut numbers: Vec<Vec<u32>> = sources.iter().map(|s| vec![0; s.len()]).collect();
        for (text, source, number) in all {
            if names.texts.last() != Some(text) {
                names.texts.push(text.clone());
            }
            numbers[source][number] = names.texts.len() as u32 - 1;
        }
        (names, numbers)
    }

    /// Appends a label set.
    pub fn push(&mut self, set: &[LabelPair]) {
        self.pairs.extend_from_slice(set);
        self.ends.push(self.pairs.len());
    }

    /// Number of sets.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The n-th set.
    pub fn get(&self, n: usize) -> &[LabelPair] {
        let start = n.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.pairs[start..self.ends[n]]
    }

    /// A table of the `kept` sets (ascending) with only the texts that occur in them.
    pub fn only(&self, kept: impl Iterator<Item = usize> + Clone) -> Self {
        let mut numbers = vec![u32::MAX; self.texts.len()];
        for (name, value) in kept.clone().flat_map(|n| self.get(n)) {
            (numbers[*name as usize], numbers[*value as usize]) = (0, 0);
        }
        let mut some = Self::default();
        for (number, text) in numbers.iter_mut().zip(&self.texts).filter(|(n, _)| **n == 0) {
            *number = some.texts.len() as u32;
            some.texts.push(text.clone());
        }
        for n in kept {
            some.pairs.extend(self.get(n).iter().map(|(n, v)| (numbers[*n as usize], numbers[*v as usize])));
            some.ends.push(some.pairs.len());
        }
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(names: &LabelTable, n: usize) -> Labels {
        let text = |t: u32| names.texts[t as usize].clone();
        Labels::new(names.get(n).iter().map(|(n, v)| (text(*n), text(*v))))
    }

    #[test]
    fn index_pairs_compare_like_labels() {
        let all: Vec<Labels> = [
            &[("host", "b"), ("port", "1")][..],
            &[("host", "b")],
            &[("host", "a"), ("port", "2")],
            &[("Rack", "host"), ("host", "zz")],
            &[],
            &[("host", "b"), ("port", "10")],
        ]
        .map(|pairs| Labels::new(pairs.iter().copied()))
        .to_vec();
        let names = LabelTable::of(all.iter());
        assert_eq!(
            names.texts.iter().map(|t| &**t).collect::<Vec<_>>(),
            "1 10 2 Rack a b host port zz".split(' ').collect::<Vec<_>>()
        );
        for (i, a) in all.iter().enumerate() {
            assert_eq!(labels(&names, i), *a);
            for (j, b) in all.iter().enumerate() {
                assert_eq!(names.get(i).cmp(names.get(j)), a.cmp(b), "{a} and {b}");
            }
        }
        let some = names.only([1, 2].into_iter());
        assert_eq!((labels(&some, 0), labels(&some, 1), some.len()), (all[1].clone(), all[2].clone(), 2));
        assert_eq!(some.texts.iter().map(|t| &**t).collect::<Vec<_>>(), ["2", "a", "b", "host", "port"]);
    }
}
