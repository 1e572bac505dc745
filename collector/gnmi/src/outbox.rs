//! Samples on their way from the streams to the store. Streams never wait for the disk: beyond a bound samples are dropped
//! and counted.

use std::sync::Arc;
use std::time::Duration;

use fabriclens_core::periodic::{Trigger, periodic};
use fabriclens_core::telemetry::Telemetry;
use fabriclens_forward::Sink;
use fabriclens_model::{Labels, LayoutInterner, RowGroup};
use fabriclens_store::Appended;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Interval of writes; each is one sync of the disk for all switches.
const INTERVAL: Duration = Duration::from_millis(200);
/// Most samples that wait: 500 switches with 4,000 values each for a second.
const WAITING: usize = 2_000_000;
/// Memory of a waiting sample, whose labels are those of its path, and of a column of a list that is remembered, bytes.
const SAMPLE: usize = 32;
/// Writes after which unused column lists are forgotten.
const FORGET: u32 = 1500;

/// Samples of one time.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// Unix ms.
    pub(crate) time_ms: i64,
    /// Series, no two equal.
    pub(crate) series: Vec<Labels>,
    /// One for each series.
    pub(crate) values: Vec<f64>,
}

impl Row {
    /// The row as the store takes it.
    pub(crate) fn into_group(self, layouts: &mut LayoutInterner) -> RowGroup {
        RowGroup { series: layouts.intern(self.series), times: vec![self.time_ms], values: self.values }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Rows and the number of their samples.
    waiting: Mutex<(Vec<Row>, usize)>,
    /// Most samples that wait, and most columns of lists that are remembered.
    most: usize,
}

impl Default for Outbox {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Outbox {
    /// Half of these bytes for samples that wait, half for lists of columns.
    pub(crate) fn new(memory: usize) -> Self {
        Self { waiting: Mutex::default(), most: WAITING.min(memory / 2 / SAMPLE) }
    }

    /// Queues a row; false if it was dropped.
    pub(crate) fn push(&self, row: Row) -> bool {
        let (rows, waiting) = &mut *self.waiting.lock();
        let fits = *waiting + row.values.len() <= self.most;
        if fits {
            *waiting += row.values.len();
            rows.push(row);
        }
        fits
    }

    /// Takes all rows.
    pub(crate) fn take(&self) -> Vec<Row> {
        let (rows, waiting) = &mut *self.waiting.lock();
        *waiting = 0;
        std::mem::take(rows)
    }

    /// Writes rows to the store until `stop` becomes true, and the rest then.
    pub(crate) async fn write(self: Arc<Self>, sink: Arc<Sink>, telemetry: Telemetry, stop: watch::Receiver<bool>) {
        let (mut layouts, mut writes) = (LayoutInterner::with_columns(self.most), 0u32);
        let work = move |_: Trigger| {
            let rows = self.take();
            if rows.is_empty() {
                return;
            }
            let groups = rows.into_iter().map(|row| row.into_group(&mut layouts)).collect();
            match sink.append(groups) {
                Ok(appended) => count(&telemetry, &appended),
                Err(error) => tracing::warn!(%error, "cannot store samples of switches (gNMI)"),
            }
            writes = (writes + 1) % FORGET;
            if writes == 0 {
                layouts.forget_unused();
            }
        };
        periodic(INTERVAL, Arc::default(), stop, "samples of switches (gNMI) are no longer stored", work).await;
    }
}

/// Counts stored and rejected samples beside those of other protocols.
fn count(telemetry: &Telemetry, appended: &Appended) {
    telemetry.samples.with_label_values(&["gnmi"]).inc_by(appended.accepted + appended.duplicates);
    for (reason, samples) in appended.refused().into_iter().filter(|(_, samples)| *samples > 0) {
        telemetry.rejected.with_label_values(&["gnmi", reason.name()]).inc_by(samples);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_dropped() {
        let outbox = Outbox::default();
        let row = || Row { time_ms: 1, series: Vec::new(), values: vec![0.0; WAITING / 2] };
        assert!(outbox.push(row()) && outbox.push(row()));
        assert!(!outbox.push(row()));
        assert_eq!(outbox.take().len(), 2);
        assert!(outbox.push(row()));
    }
}
