//! The series of a section of a block, or of all: their labels and the places of their columns.

use super::column_list::ColumnList;
use super::label_table::LabelPair;
use super::tables::Tables;
use crate::codec::Corrupt;
use crate::codec::varint::Cursor;
use crate::matching::{SERIES_PER_CHECK, asks_for_components, is_pattern};
use crate::positions::first_not_before;
use fabriclens_model::names::COMPONENT;
use fabriclens_model::{Budget, Labels, MatchOp, Matcher, ReadError};

/// Series in label order. Texts and layouts are those of [`Tables`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SeriesList {
    pairs: Vec<LabelPair>,
    /// Where the pairs of each series end.
    ends: Vec<u32>,
    columns: ColumnList,
    /// Number of series that do not have `__name__` as their first label. If there are none, the series of a metric are adjacent.
    /// Labels that sort before it (upper case) are legal but rare.
    others: usize,
}

impl SeriesList {
    /// Appends so many encoded series; the place of the first column is relative to `end`.
    pub fn decode(&mut self, c: &mut Cursor<'_>, series: usize, mut end: u64, tables: &Tables) -> Result<(), Corrupt> {
        let (empty, name) = (tables.number(""), tables.number("__name__"));
        let (mut before, mut layout) = (self.pairs.len(), 0i64);
        for _ in 0..series {
            let start = self.pairs.len();
            let shared = c.count(start - before)?;
            self.pairs.extend_from_within(before..before + shared);
            for _ in 0..c.count(c.rest().len())? {
                let most = tables.texts.len().checked_sub(1).ok_or(Corrupt("unknown text"))?;
                let pair = (c.count(most)? as u32, c.count(most)? as u32);
                if self.pairs[start..].last().is_some_and(|before| before.0 >= pair.0) || Some(pair.1) == empty {
                    return Err(Corrupt("labels out of order or empty"));
                }
                self.pairs.push(pair);
            }
            self.ends.push(self.pairs.len() as u32);
            self.others += usize::from(name.is_none() || self.pairs[start..].first().map(|pair| pair.0) != name);
            layout = layout.wrapping_add(c.signed()?);
            let chunks =
                usize::try_from(layout).ok().and_then(|l| tables.layouts.get(l)).ok_or(Corrupt("unknown layout"))?;
            let offset = end.wrapping_add(c.signed()? as u64);
            self.columns.begin(layout as u32, offset);
            end = offset;
            for _ in chunks {
                let len = c.count(u32::MAX as usize)? as u32;
                self.columns.push(len);
                end = end.wrapping_add(u64::from(len));
            }
            before = start;
        }
        Ok(())
    }

    /// Gives back room that is not used.
    #[must_use]
    pub fn shrunk(mut self) -> Self {
        self.pairs.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.columns.shrink_to_fit();
        self
    }

    /// Number of series.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Places of the columns of the series.
    pub fn columns(&self) -> &ColumnList {
        &self.columns
    }

    /// Bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        size_of_val(&self.pairs[..]) + size_of_val(&self.ends[..]) + self.columns.memory()
    }

    /// Labels of a series as indexes into [`Tables::texts`].
    pub fn pairs_of(&self, series: usize) -> &[LabelPair] {
        let start = series.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.pairs[start as usize..self.ends[series] as usize]
    }

    /// Labels of a series.
    pub fn labels(&self, series: usize, tables: &Tables) -> Labels {
        let text = |i: u32| tables.texts[i as usize].clone();
        let pairs = self.pairs_of(series);
        let metric = pairs.iter().position(|(n, _)| *tables.texts[*n as usize] == *"__name__");
        let (before, after) = match metric {
            Some(at) => (&pairs[..at], &pairs[at + 1..]),
            None => (pairs, &[][..]),
        };
        let others = before.iter().chain(after).map(|(n, v)| (text(*n), text(*v))).collect();
        Labels::from_parts(metric.map(|at| text(pairs[at].1)), others)
    }

    /// Series that satisfy all matchers; components of histograms only if a matcher names their label. Each pattern tests each text once; series are then compared by text index.
    ///
    /// # Errors
    /// Those of `budget`.
    pub fn matching(&self, matchers: &[Matcher], tables: &Tables, budget: &dyn Budget) -> Result<Vec<u32>, ReadError> {
        let number = |t: &str| tables.number(t);
        let excluded = match (number(COMPONENT), asks_for_components(matchers)) {
            (None, true) => return Ok(Vec::new()),
            (_, true) => None,
            (component, false) => component,
        };
        let mut range = 0..self.len();
        let mut tests = Vec::new();
        for m in matchers {
            if m.op == MatchOp::Equal && !m.value.is_empty() {
                let Some(value) = number(&m.value) else {
                    return Ok(Vec::new());
                };
                if m.name == "__name__" && self.others == 0 {
                    range = self.of_metric(value);
                    continue;
                }
            }
            let label = number(&m.name);
            budget.check()?;
            let absent_fits = m.matches_value("");
            let seen = if is_pattern(m) && label.is_some() { tables.texts.len() } else { 0 };
            budget.request(seen)?;
            tests.push((m, label, absent_fits, vec![0u8; seen]));
        }
        let mut fits = |series: usize| {
            if excluded.is_some() && self.pairs_of(series).iter().any(|(name, _)| Some(*name) == excluded) {
                return Ok(false);
            }
            for (m, label, absent_fits, seen) in &mut tests {
                let pair = self.pairs_of(series).iter().find(|(n, _)| Some(*n) == *label);
                let test = |value: u32| m.matches_value(&tables.texts[value as usize]);
                let fits = match pair {
                    None => *absent_fits,
                    Some((_, value)) => match seen.get_mut(*value as usize) {
                        None => test(*value),
                        Some(known) => {
                            if *known == 0 {
                                budget.check()?;
                                *known = 1 + u8::from(test(*value));
                            }
                            *known == 2
                        }
                    },
                };
                if !fits {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let mut found = Vec::new();
        for series in range {
            if series % SERIES_PER_CHECK == 0 {
                budget.check()?;
            }
            if fits(series)? {
                found.push(series as u32);
            }
        }
        Ok(found)
    }

    /// Series ranges by metric, or `None` if the series of a metric are not adjacent.
    pub fn metrics(&self) -> Option<Vec<std::ops::Range<usize>>> {
        let mut metrics = Vec::new();
        let mut from = 0;
        while self.others == 0 && from < self.len() {
            let metric = self.of_metric(self.pairs_of(from)[0].1);
            from = metric.end;
            metrics.push(metric);
        }
        (self.others == 0).then_some(metrics)
    }

    /// The series of a metric, or all of them if they are not adjacent.
    fn of_metric(&self, value: u32) -> std::ops::Range<usize> {
        let metric = |s: usize| self.pairs_of(s)[0].1;
        let from = first_not_before(self.len(), |s| metric(s) < value);
        let to = first_not_before(self.len(), |s| metric(s) <= value);
        from..to
    }
}
