//! The collector watches itself through its own path: its metrics become rows like anybody's.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fabriclens_model::{Labels, Layout, RowGroup, stale};
use fabriclens_store::{Metadata, Store};
use tokio::sync::watch;

use fabriclens_core::periodic::{Trigger, periodic};
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ms;
use fabriclens_forward::Sink;

/// Stores all metrics each `interval` until `stop` becomes true, then ends their series.
pub async fn run(
    store: Arc<Store>,
    sink: Arc<Sink>,
    telemetry: Telemetry,
    instance: String,
    interval: Duration,
    stop: watch::Receiver<bool>,
) {
    if interval.is_zero() {
        return;
    }
    let mut writer = Writer { store, sink, telemetry, instance, known: HashMap::new(), list: Layout::default() };
    let work = move |why| writer.write(why == Trigger::Stop);
    periodic(interval, Arc::default(), stop, "the collector's own metrics are no longer stored", work).await;
}

struct Writer {
    store: Arc<Store>,
    sink: Arc<Sink>,
    telemetry: Telemetry,
    instance: String,
    known: HashMap<(String, Vec<(String, String)>), Labels>,
    list: Layout,
}

impl Writer {
    fn write(&mut self, last: bool) {
        self.telemetry.observe_store(&self.store.stats());
        let (series, mut values): (Vec<Labels>, Vec<f64>) =
            self.telemetry.samples().into_iter().map(|(name, labels, v)| (self.labels(name, labels), v)).unzip();
        if last {
            values.fill(stale());
        }
        if *series != *self.list {
            // Unchanged columns keep their layout, so that the store does not look at the labels again.
            self.list = series.into();
            self.describe();
        }
        let samples = values.len() as u64;
        match self.sink.append(vec![RowGroup { series: self.list.clone(), times: vec![now_ms()], values }]) {
            Ok(_) => self.telemetry.samples.with_label_values(&["self"]).inc_by(samples),
            Err(error) => tracing::warn!(%error, "cannot store the collector's own metrics"),
        }
    }

    fn labels(&mut self, name: String, labels: Vec<(String, String)>) -> Labels {
        let instance = &self.instance;
        self.known
            .entry((name, labels))
            .or_insert_with_key(|(name, labels)| {
                let fixed = [("__name__", name.as_str()), ("job", "fabriclens"), ("instance", instance.as_str())];
                Labels::new(labels.iter().map(|(n, v)| (n.as_str(), v.as_str())).chain(fixed))
            })
            .clone()
    }

    fn describe(&self) {
        let metadata = self.telemetry.metadata();
        let entries = metadata.iter().map(|(name, kind, help)| {
            (name.as_str(), Metadata { kind: kind.clone(), unit: String::new(), help: help.clone() })
        });
        if let Err(error) = self.store.put_metadata(entries) {
            tracing::warn!(%error, "cannot store metadata of the collector's own metrics");
        }
    }
}
