//! Series that a back-test keeps for signals that look back further than frames do, by metric: a query of one metric does not
//! look through all others.

use fabriclens_model::{Budget, Labels, Matcher, Memory, Read, ReadError, Series};

/// Metric and number of a series.
#[derive(Clone, Copy)]
pub(super) struct SeriesId {
    metric: usize,
    at: usize,
}

/// Series by metric.
#[derive(Default)]
pub(super) struct KeptSeries(Vec<(String, Memory)>);

impl KeptSeries {
    /// Adds a series without samples.
    pub fn add(&mut self, labels: &Labels) -> SeriesId {
        let known = self.0.iter().position(|(name, _)| name == labels.metric());
        let metric = known.unwrap_or_else(|| {
            self.0.push((labels.metric().to_owned(), Memory::default()));
            self.0.len() - 1
        });
        let Memory(series) = &mut self.0[metric].1;
        series.push(Series { labels: labels.clone(), ..Series::default() });
        SeriesId { metric, at: series.len() - 1 }
    }

    /// A series.
    pub fn get(&self, id: SeriesId) -> &Series {
        &self.0[id.metric].1.0[id.at]
    }

    /// A series to change.
    pub fn get_mut(&mut self, id: SeriesId) -> &mut Series {
        &mut self.0[id.metric].1.0[id.at]
    }
}

impl Read for KeptSeries {
    fn select_within(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<Series>, ReadError> {
        let names = matchers.iter().filter(|matcher| matcher.name == "__name__");
        let mut found = Vec::new();
        for (_, memory) in self.0.iter().filter(|(name, _)| names.clone().all(|matcher| matcher.matches_value(name))) {
            found.extend(memory.select_within(matchers, start_ms, end_ms, budget)?);
        }
        Ok(found)
    }
}
