//! Series in memory behind the read trait: for recordings, and for tests of the query engine.

use crate::{Budget, Hint, HistogramSeries, Matcher, Read, ReadError, Selected, Series};

/// Series in memory.
#[derive(Clone, Debug, Default)]
pub struct Memory(pub Vec<Series>);

impl Read for Memory {
    fn select_within(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<Series>, ReadError> {
        let matching = self.0.iter().filter(|s| matchers.iter().all(|m| m.matches(&s.labels)));
        let inside = |s: &Series| {
            let from = s.times.partition_point(|t| *t < start_ms);
            let to = s.times.partition_point(|t| *t <= end_ms);
            let cut = || Series {
                labels: s.labels.clone(),
                times: s.times[from..to].to_vec(),
                values: s.values[from..to].to_vec(),
            };
            (from < to).then(cut)
        };
        let found: Vec<Series> = matching.filter_map(inside).collect();
        let bytes = found.iter().map(|s| 16 * s.times.len()).sum();
        if budget.take(bytes) { Ok(found) } else { Err(ReadError::Memory) }
    }
}

/// Series in memory whose samples are floats or histograms.
#[derive(Clone, Debug, Default)]
pub struct MemoryWithHistograms {
    /// Floats.
    pub floats: Memory,
    /// Histograms; a series may have both.
    pub histograms: Vec<HistogramSeries>,
}

impl Read for MemoryWithHistograms {
    fn select_within(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<Series>, ReadError> {
        self.floats.select_within(matchers, start_ms, end_ms, budget)
    }

    fn select_for(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        hint: Hint,
        budget: &dyn Budget,
    ) -> Result<Selected, ReadError> {
        let mut found = self.floats.select_for(matchers, start_ms, end_ms, hint, budget)?;
        for s in self.histograms.iter().filter(|s| matchers.iter().all(|m| m.matches(&s.labels))) {
            let from = s.times.partition_point(|t| *t < start_ms);
            let to = s.times.partition_point(|t| *t <= end_ms);
            if from >= to {
                continue;
            }
            let (times, values) = (s.times[from..to].to_vec(), s.values[from..to].to_vec());
            let cut = HistogramSeries { labels: s.labels.clone(), times, values };
            budget.request(cut.bytes())?;
            found.histograms.push(cut);
        }
        Ok(found)
    }
}
