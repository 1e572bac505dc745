//! Writes series that the collector produces again and again; series that are no longer produced end with a staleness
//! marker.

use fabriclens_model::{Labels, Layout, RowGroup, stale};

use crate::Sink;

/// Remembers the series written last and their layout, so that the store does not inspect unchanged labels again.
#[derive(Default)]
pub struct SeriesWriter {
    list: Layout,
    /// Time of the last write, Unix ms.
    at: i64,
}

/// A series keeps the first of two samples with the same millisecond, so the times of fast writes are moved ahead. If
/// the clock was set back by more than this, its time is used.
const CROWDED_MS: i64 = 1_000;

impl SeriesWriter {
    /// Whether no series needs to be ended.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Writes one sample (Unix ms) of each series, which must be sorted and unique, and ends those that are missing.
    /// `what` names them in logs. Returns whether the series changed.
    pub fn write(&mut self, sink: &Sink, what: &'static str, series: Vec<Labels>, values: Vec<f64>, now: i64) -> bool {
        let changed = *series != *self.list;
        let mut rows = Vec::new();
        if changed {
            let gone: Layout = self.list.iter().filter(|old| series.binary_search(old).is_err()).cloned().collect();
            let ends = vec![stale(); gone.len()];
            rows.push((gone, ends));
            self.list = series.into();
        }
        rows.push((self.list.clone(), values));
        append(sink, what, rows, self.next(now));
        changed
    }

    /// Writes the same series again, all with one value.
    pub fn repeat(&mut self, sink: &Sink, what: &'static str, value: f64, now: i64) {
        append(sink, what, vec![(self.list.clone(), vec![value; self.list.len()])], self.next(now));
    }

    fn next(&mut self, now: i64) -> i64 {
        let crowded = (0..CROWDED_MS).contains(&self.at.saturating_sub(now));
        self.at = if crowded { self.at + 1 } else { now };
        self.at
    }
}

fn append(sink: &Sink, what: &'static str, rows: Vec<(Layout, Vec<f64>)>, now: i64) {
    let some = rows.into_iter().filter(|(series, _)| !series.is_empty());
    let groups: Vec<RowGroup> = some.map(|(series, values)| RowGroup { series, times: vec![now], values }).collect();
    if !groups.is_empty()
        && let Err(error) = sink.append(groups)
    {
        tracing::warn!(%error, what, "cannot store series of the collector");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_config::Config;
    use fabriclens_core::telemetry::Telemetry;
    use fabriclens_core::time::now_ms;
    use fabriclens_data::Data;
    use fabriclens_model::Matcher;
    use std::sync::Arc;

    #[test]
    fn writes_within_one_millisecond_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let options = fabriclens_store::Options { background: false, ..Default::default() };
        let store = Arc::new(fabriclens_store::Store::open(&dir.path().join("data"), options).unwrap());
        let config = Config { data: dir.path().join("data"), ..Config::default() };
        let sink = Sink::start(store.clone(), &config, &Telemetry::new().unwrap()).unwrap();
        let series = || vec![Labels::new([("__name__", "up"), ("host", "a")])];
        let (now, mut written) = (now_ms(), SeriesWriter::default());
        assert!(written.write(&sink, "a test", series(), vec![1.0], now));
        written.repeat(&sink, "a test", 2.0, now);
        assert!(written.write(&sink, "a test", Vec::new(), Vec::new(), now), "it ends");
        let found = Data::Local(store).reader().select(&[Matcher::equal("__name__", "up")], now - 5, now + 5).unwrap();
        let times: Vec<i64> = found.into_iter().flat_map(|series| series.times).collect();
        assert_eq!(times, [now, now + 1, now + 2]);
        written.write(&sink, "a test", series(), vec![1.0], now - 5_000);
        assert_eq!(written.at, now - 5_000, "the clock was set back");
    }
}
