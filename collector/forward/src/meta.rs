//! Metric metadata (type, unit, help) for a receiver. Remote write 1.0 has a field for it besides the samples, and gets it every
//! minute; 2.0 has it in each series. Receivers may ignore it. It is not queued, because it is repeated anyway.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use fabriclens_model::Matcher;
use fabriclens_model::names::check_name;
use fabriclens_store::Store;
use prost::Message as _;

use fabriclens_core::prompb::{MetricMetadata, WriteRequest};

/// Interval, as in Prometheus.
const INTERVAL: Duration = Duration::from_secs(60);
/// Metrics per request.
const BATCH: usize = 1000;

/// Metadata for one receiver.
pub(super) struct MetadataSender {
    /// Weak, because the sender thread may wait for a receiver while the collector stops, and the store must be free
    /// for the next process.
    store: Weak<Store>,
    select: Vec<Vec<Matcher>>,
    last: Option<Instant>,
}

impl MetadataSender {
    pub(super) fn new(store: &Arc<Store>, select: Vec<Vec<Matcher>>) -> Self {
        Self { store: Arc::downgrade(store), select, last: None }
    }

    /// Returns the metadata if it is due; usually it is not.
    pub(super) fn due(&mut self) -> Option<Vec<MetricMetadata>> {
        if self.last.is_some_and(|at| at.elapsed() < INTERVAL) {
            return None;
        }
        self.last = Some(Instant::now());
        let all = self.store.upgrade()?.metadata();
        let wanted = all.iter().filter(|(name, _)| check_name(name).is_ok() && self.wants(name)).map(|(name, m)| {
            MetricMetadata {
                kind: MetricMetadata::kind_number(&m.kind),
                name: name.clone(),
                help: m.help.clone(),
                unit: m.unit.clone(),
            }
        });
        Some(wanted.collect())
    }

    /// Whether series of this metric may be selected.
    fn wants(&self, metric: &str) -> bool {
        let fits = |m: &Matcher| m.name != "__name__" || m.matches_value(metric);
        self.select.is_empty() || self.select.iter().any(|list| list.iter().all(fits))
    }
}

/// Requests of version 1.0 with this metadata, as protobuf.
pub(super) fn requests(metadata: &[MetricMetadata]) -> Vec<Vec<u8>> {
    let request = |part: &[MetricMetadata]| WriteRequest { timeseries: vec![], metadata: part.to_vec() };
    metadata.chunks(BATCH).map(|part| request(part).encode_to_vec()).collect()
}
