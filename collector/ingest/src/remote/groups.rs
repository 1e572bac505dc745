//! The row groups of one request.

use super::lists::NumberedLists;
use crate::report::Report;
use fabriclens_model::{Labels, LayoutInterner, RowGroup};
use foldhash::HashMap;

/// A row group being built.
pub(super) struct Pending {
    source: u64,
    times: Vec<i64>,
    /// Numbers of its series.
    series: Vec<u32>,
    values: Vec<f64>,
}

/// The row groups of one request.
#[derive(Default)]
pub(super) struct Groups {
    pub(super) list: Vec<Pending>,
    by_times: HashMap<(u64, Vec<i64>), usize>,
    last: usize,
    /// Samples of the series that is read.
    pub(super) samples: Vec<(i64, f64)>,
    /// One group for each histogram.
    pub(super) histograms: Vec<RowGroup>,
    /// Samples of the request so far.
    pub(super) count: usize,
}

impl Groups {
    /// Sorts the samples of one series and drops duplicates.
    pub(super) fn settle(&mut self, report: &mut Report) {
        if self.samples.len() < 2 {
            return;
        }
        if !self.samples.is_sorted_by_key(|s| s.0) {
            self.samples.sort_by_key(|s| s.0);
        }
        let mut conflicts = 0;
        self.samples.dedup_by(|later, earlier| {
            let same_time = later.0 == earlier.0;
            conflicts += u64::from(same_time && later.1.to_bits() != earlier.1.to_bits());
            same_time
        });
        report.reject(
            "conflict",
            conflicts,
            "a series has two values at the same time in one request; the first is kept",
        );
    }

    /// Adds a series; `taken` is the group that contains it already and must not contain it twice.
    pub(super) fn add(&mut self, source: u64, number: u32, taken: Option<usize>) -> usize {
        let fits = |g: &Pending| g.source == source && g.times.iter().eq(self.samples.iter().map(|s| &s.0));
        if taken == Some(self.last) || !self.list.get(self.last).is_some_and(fits) {
            let times: Vec<i64> = self.samples.iter().map(|s| s.0).collect();
            let fresh = self.list.len();
            let entry = self.by_times.entry((source, times.clone())).or_insert(fresh);
            if taken == Some(*entry) {
                *entry = fresh;
            }
            self.last = *entry;
            if self.last == fresh {
                self.list.push(Pending { source, times, series: Vec::new(), values: Vec::new() });
            }
        }
        let group = &mut self.list[self.last];
        group.series.push(number);
        group.values.extend(self.samples.iter().map(|s| s.1));
        self.last
    }
}

impl Pending {
    /// The group with the labels of its series.
    pub(super) fn finish(
        self,
        lists: &mut NumberedLists,
        layouts: &mut LayoutInterner,
        labels: impl Fn(u32) -> Labels,
    ) -> RowGroup {
        let series = lists.find(&self.series).unwrap_or_else(|| {
            let layout = layouts.intern(self.series.iter().map(|number| labels(*number)).collect());
            lists.insert(self.series, layout.clone());
            layout
        });
        RowGroup { series, times: self.times, values: self.values }
    }
}
