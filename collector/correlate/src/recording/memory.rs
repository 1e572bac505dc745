//! Samples in memory, read as a store is.

use fabriclens_model::{Budget, Matcher, Read, ReadError, Series, settle};

/// See the module.
pub struct Memory(Vec<Series>);

impl Memory {
    /// Of series whose samples may come in any order.
    pub fn new(mut series: Vec<Series>) -> Self {
        for one in &mut series {
            let (times, values) = settle(std::mem::take(&mut one.times), std::mem::take(&mut one.values));
            (one.times, one.values) = (times, values);
        }
        series.sort_by(|a, b| a.labels.cmp(&b.labels));
        Self(series)
    }
}

impl Read for Memory {
    fn select_within(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        _: &dyn Budget,
    ) -> Result<Vec<Series>, ReadError> {
        let inside = |series: &Series| {
            let from = series.times.partition_point(|t| *t < start_ms);
            let to = series.times.partition_point(|t| *t <= end_ms);
            let cut = || Series {
                labels: series.labels.clone(),
                times: series.times[from..to].to_vec(),
                values: series.values[from..to].to_vec(),
            };
            (from < to).then(cut)
        };
        Ok(self.0.iter().filter(|s| matchers.iter().all(|m| m.matches(&s.labels))).filter_map(inside).collect())
    }
}
