//! Label sets as text indexes. Texts are sorted and unique, so index pairs compare like their labels: a million series
//! are sorted, merged and written without comparing strings.

use fabriclens_model::Labels;
use foldhash::{HashMap, HashMapExt as _};
use std::sync::Arc;

/// Label name and value as text indexes.
pub type LabelPair = (u32, u32);

/// Label sets over a table of sorted texts.
pub struct LabelTable {
    /// By index, sorted.
    pub texts: Vec<Arc<str>>,
    pairs: Vec<LabelPair>,
    /// End of each set in `pairs`.
    ends: Vec<u32>,
}

impl LabelTable {
    /// Builds the table of these label sets, in their order.
    pub fn of<'a>(all: impl Iterator<Item = &'a Labels> + Clone) -> Self {
        let (sets, pairs) = all.clone().fold((0, 0), |(sets, pairs), labels| (sets + 1, pairs + labels.len()));
        let mut names = Self { texts: Vec::new(), pairs: Vec::with_capacity(pairs), ends: Vec::with_capacity(sets) };
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
            names.ends.push(names.pairs.len() as u32);
        }
        let mut sorted: Vec<u32> = (0..names.texts.len() as u32).collect();
        sorted.sort_unstable_by_key(|t| &names.texts[*t as usize]);
        let mut rank = vec![0; sorted.len()];
        sorted.iter().enumerate().for_each(|(r, t)| rank[*t as usize] = r as u32);
        names.pairs.iter_mut().for_each(|p| *p = (rank[p.0 as usize], rank[p.1 as usize]));
        names.texts = sorted.iter().map(|t| names.texts[*t as usize].clone()).collect();
        names
    }

    /// The n-th set.
    pub fn get(&self, n: usize) -> &[LabelPair] {
        let start = n.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.pairs[start as usize..self.ends[n] as usize]
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
    }
}
