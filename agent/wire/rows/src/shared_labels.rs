//! Makes label sets that share their texts and lists.

use crate::Labels;
use crate::labels::Pair;
use foldhash::HashSet;
use std::sync::Arc;

/// Texts and lists of label sets: the series of a fleet share most of their texts, those of a port their lists.
#[derive(Debug, Default)]
pub struct SharedLabels {
    texts: HashSet<Arc<str>>,
    lists: HashSet<Arc<[Pair]>>,
}

impl SharedLabels {
    /// A label set of pairs that are sorted by name, without duplicates or empty values.
    pub fn of<'a>(&mut self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Labels {
        let mut metric = None;
        let mut others: Vec<Pair> = Vec::new();
        for (name, value) in pairs {
            let value = self.text(value);
            if name == "__name__" {
                metric = Some(value);
            } else {
                others.push((self.text(name), value));
            }
        }
        let list = match self.lists.get(&others[..]) {
            Some(known) => known.clone(),
            None => {
                let new: Arc<[Pair]> = others.into();
                self.lists.insert(new.clone());
                new
            }
        };
        Labels::from_parts(metric, list).with_hash()
    }

    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.texts.insert(new.clone());
        new
    }

    /// Drops what no label set uses.
    pub fn forget_unused(&mut self) {
        self.lists.retain(|list| Arc::strong_count(list) > 1);
        self.lists.shrink_to(2 * self.lists.len());
        self.texts.retain(|text| Arc::strong_count(text) > 1);
        self.texts.shrink_to(2 * self.texts.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_lists_are_shared_until_nobody_uses_them() {
        let mut shared = SharedLabels::default();
        let mut of = |metric, host| shared.of([("A", "b"), ("__name__", metric), ("host", host)]);
        let [first, second, other] = [("m", "1"), ("n", "1"), ("m", "2")].map(|(metric, host)| of(metric, host));
        assert_eq!(first, Labels::new([("host", "1"), ("__name__", "m"), ("A", "b")]));
        assert!(Arc::ptr_eq(first.parts().1, second.parts().1));
        assert!(!Arc::ptr_eq(first.parts().1, other.parts().1));
        assert!(first.pairs().zip(other.pairs()).take(2).all(|(a, b)| Arc::ptr_eq(a.0, b.0) && Arc::ptr_eq(a.1, b.1)));
        drop((first, second));
        shared.forget_unused();
        assert_eq!((shared.lists.len(), shared.texts.len()), (1, 5), "A, b, host, 2, m");
    }
}
