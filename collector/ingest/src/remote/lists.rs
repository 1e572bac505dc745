//! Column lists by the numbers of their series. Senders repeat their series in the same order, and a list that is known by its
//! numbers need not be looked up by its labels.

use fabriclens_model::Layout;
use foldhash::HashMap;

/// For each first series, the last list that began with it.
pub(super) struct NumberedLists {
    by_first: HashMap<u32, (Vec<u32>, Layout)>,
    /// Columns of all lists; beyond the most, all are forgotten.
    columns: usize,
    most: usize,
}

impl NumberedLists {
    /// Forgets its lists beyond so many columns of all together.
    pub(super) fn with_columns(most: usize) -> Self {
        Self { by_first: HashMap::default(), columns: 0, most }
    }

    /// The list of exactly these series.
    pub(super) fn find(&self, numbers: &[u32]) -> Option<Layout> {
        let (known, layout) = self.by_first.get(numbers.first()?)?;
        (known == numbers).then(|| layout.clone())
    }

    /// Remembers a list.
    pub(super) fn insert(&mut self, numbers: Vec<u32>, layout: Layout) {
        let Some(first) = numbers.first() else { return };
        if self.columns + numbers.len() > self.most {
            self.clear();
        }
        self.columns += numbers.len();
        let before = self.by_first.insert(*first, (numbers, layout));
        self.columns -= before.map_or(0, |(numbers, _)| numbers.len());
    }

    /// Forgets all: the numbers are about to change, or unused layouts to be forgotten.
    pub(super) fn clear(&mut self) {
        self.by_first = HashMap::default();
        self.columns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::Labels;

    #[test]
    fn lists_are_found_by_all_their_numbers_and_bounded() {
        let mut lists = NumberedLists::with_columns(6);
        let layout = |name: &str| Layout::new([Labels::new([("__name__", name)])]);
        let (a, b) = (layout("a"), layout("b"));
        lists.insert(vec![1, 2], a.clone());
        lists.insert(vec![2, 3], b.clone());
        let found = |lists: &NumberedLists, numbers: &[u32]| lists.find(numbers).map(|layout| layout.id());
        assert_eq!(found(&lists, &[1, 2]), Some(a.id()));
        assert_eq!(found(&lists, &[2, 3]), Some(b.id()));
        for other in [&[1][..], &[1, 3], &[1, 2, 3], &[3], &[]] {
            assert_eq!(found(&lists, other), None, "{other:?}");
        }
        lists.insert(vec![1, 3], b.clone());
        assert_eq!((found(&lists, &[1, 2]), found(&lists, &[1, 3]), lists.columns), (None, Some(b.id()), 4));
        lists.insert(vec![7, 8], a.clone());
        lists.insert(vec![9], a.clone());
        assert_eq!((found(&lists, &[1, 3]), found(&lists, &[9]), lists.columns), (None, Some(a.id()), 1));
    }
}
