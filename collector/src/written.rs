//! Series that the collector writes again and again. Those that are no longer among them are ended by a staleness marker.

use std::sync::Arc;

use fabriclens_model::{Labels, stale};
use fabriclens_store::RowGroup;

use crate::forward::Sink;

/// Knows what was written last; the store knows lists of series by address, so only a changed one is a new allocation.
#[derive(Default)]
pub(crate) struct Written {
    list: Arc<[Labels]>,
}

impl Written {
    /// Whether nothing is to be ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Writes one sample (Unix ms) of each of these, which are sorted and no two equal, and ends what is none of them; `what`
    /// names them where they cannot be stored. True if they are others than before.
    pub(crate) fn write(
        &mut self,
        sink: &Sink,
        what: &'static str,
        series: Vec<Labels>,
        values: Vec<f64>,
        now: i64,
    ) -> bool {
        let changed = *series != *self.list;
        let mut rows = Vec::new();
        if changed {
            let gone: Arc<[Labels]> =
                self.list.iter().filter(|old| series.binary_search(old).is_err()).cloned().collect();
            let ends = vec![stale(); gone.len()];
            rows.push((gone, ends));
            self.list = series.into();
        }
        rows.push((self.list.clone(), values));
        append(sink, what, rows, now);
        changed
    }

    /// Writes the same series once more, all with one value.
    pub(crate) fn repeat(&self, sink: &Sink, what: &'static str, value: f64, now: i64) {
        append(sink, what, vec![(self.list.clone(), vec![value; self.list.len()])], now);
    }
}

fn append(sink: &Sink, what: &'static str, rows: Vec<(Arc<[Labels]>, Vec<f64>)>, now: i64) {
    let some = rows.into_iter().filter(|(series, _)| !series.is_empty());
    let groups: Vec<RowGroup> = some.map(|(series, values)| RowGroup { series, times: vec![now], values }).collect();
    if !groups.is_empty()
        && let Err(error) = sink.append(groups)
    {
        tracing::warn!(%error, "cannot store {what}");
    }
}
