//! Series that the collector writes again and again. Those that are no longer among them are ended by a staleness marker.

use fabriclens_model::{Labels, Layout, RowGroup, stale};

use crate::Sink;

/// Knows what was written last and its layout, so that the store does not look at unchanged labels again.
#[derive(Default)]
pub struct SeriesWriter {
    list: Layout,
    /// When, Unix ms.
    at: i64,
}

/// Within one millisecond a series has one sample, and the first stays: what comes as soon waits for the next one.
/// A clock that was set back by more than this is believed.
const CROWDED_MS: i64 = 1_000;

impl SeriesWriter {
    /// Whether nothing is to be ended.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Writes one sample (Unix ms) of each of these, which are sorted and no two equal, and ends what is none of them; `what`
    /// names them where they cannot be stored. True if they are others than before.
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

    /// Writes the same series once more, all with one value.
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
        tracing::warn!(%error, "cannot store {what}");
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
    fn what_is_written_within_one_millisecond_is_written_one_after_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let options = fabriclens_store::Options { background: false, ..Default::default() };
        let store = Arc::new(fabriclens_store::Store::open(&dir.path().join("data"), options).unwrap());
        let config = Config { data: dir.path().join("data"), ..Config::default() };
        let sink = Sink::start(store.clone(), &config, &Telemetry::new().unwrap()).unwrap();
        let series = || vec![Labels::new([("__name__", "told"), ("host", "a")])];
        let (now, mut written) = (now_ms(), SeriesWriter::default());
        assert!(written.write(&sink, "a test", series(), vec![1.0], now));
        written.repeat(&sink, "a test", 2.0, now);
        assert!(written.write(&sink, "a test", Vec::new(), Vec::new(), now), "it ends");
        let found =
            Data::Local(store).reader().select(&[Matcher::equal("__name__", "told")], now - 5, now + 5).unwrap();
        let times: Vec<i64> = found.into_iter().flat_map(|series| series.times).collect();
        assert_eq!(times, [now, now + 1, now + 2]);
        written.write(&sink, "a test", series(), vec![1.0], now - 5_000);
        assert_eq!(written.at, now - 5_000, "the clock was set back");
    }
}
