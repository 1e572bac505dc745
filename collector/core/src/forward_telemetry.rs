//! Metrics of the queues to other servers.

use prometheus::{Gauge, GaugeVec, IntCounterVec, IntGaugeVec, Opts, Registry};

/// Metrics of all forward queues; the label `queue` holds the queue's name.
#[derive(Clone)]
pub(crate) struct ForwardQueues {
    samples: IntCounterVec,
    bytes: IntCounterVec,
    failed: IntCounterVec,
    dropped: IntCounterVec,
    pending_samples: IntGaugeVec,
    pending_bytes: IntGaugeVec,
    queued_timestamp: GaugeVec,
    sent_timestamp: GaugeVec,
}

impl ForwardQueues {
    /// Declares the metrics.
    ///
    /// # Errors
    /// If a name is taken.
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let all = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(all.clone()))?;
            Ok::<_, prometheus::Error>(all)
        };
        let pending = |name: &str, help: &str| {
            let all = IntGaugeVec::new(Opts::new(name, help), &["queue"])?;
            registry.register(Box::new(all.clone()))?;
            Ok::<_, prometheus::Error>(all)
        };
        let times = |name: &str, help: &str| {
            let all = GaugeVec::new(Opts::new(name, format!("{help} Unix time.")), &["queue"])?;
            registry.register(Box::new(all.clone()))?;
            Ok::<_, prometheus::Error>(all)
        };
        Ok(Self {
            samples: counters("fabriclens_forward_samples_total", "Samples that the receiver accepted.", &["queue"])?,
            bytes: counters("fabriclens_forward_bytes_total", "Bytes that the receiver accepted.", &["queue"])?,
            failed: counters("fabriclens_forward_failed_total", "Requests that failed and are retried.", &["queue"])?,
            dropped: counters(
                "fabriclens_forward_dropped_total",
                "Queued samples that will never be sent.",
                &["queue", "reason"],
            )?,
            pending_samples: pending("fabriclens_forward_pending_samples", "Samples that wait to be sent.")?,
            pending_bytes: pending("fabriclens_forward_pending_bytes", "Bytes on disk that wait to be sent.")?,
            queued_timestamp: times("fabriclens_forward_queued_timestamp_seconds", "Newest queued sample.")?,
            sent_timestamp: times(
                "fabriclens_forward_sent_timestamp_seconds",
                "Newest sample that the receiver accepted.",
            )?,
        })
    }

    /// The metrics of one queue; their series exist from now on.
    pub(crate) fn of(&self, queue: &str) -> ForwardTelemetry {
        let forward = ForwardTelemetry { queue: queue.to_owned(), all: self.clone() };
        forward.pending(0, 0);
        DROPS.iter().for_each(|reason| forward.dropped(reason, 0));
        [&self.samples, &self.bytes, &self.failed].iter().for_each(|c| c.with_label_values(&[queue]).inc_by(0));
        forward
    }
}

/// Metrics of one forward queue.
#[derive(Clone)]
pub struct ForwardTelemetry {
    queue: String,
    all: ForwardQueues,
}

impl ForwardTelemetry {
    /// Counts a request that the receiver accepted: samples, compressed bytes, time of the newest sample (Unix ms).
    pub fn sent(&self, samples: u64, bytes: u64, newest_ms: i64) {
        self.all.samples.with_label_values(&[&self.queue]).inc_by(samples);
        self.all.bytes.with_label_values(&[&self.queue]).inc_by(bytes);
        raise(&self.all.sent_timestamp.with_label_values(&[&self.queue]), newest_ms);
    }

    /// Counts a request that failed and will be retried.
    pub fn failed(&self) {
        self.all.failed.with_label_values(&[&self.queue]).inc();
    }

    /// Counts samples that will never be sent, by reason (`size`, `age`, `rejected`, `damaged`, `name`).
    pub fn dropped(&self, reason: &str, samples: u64) {
        self.all.dropped.with_label_values(&[self.queue.as_str(), reason]).inc_by(samples);
    }

    /// Sets the samples and bytes that wait.
    pub fn pending(&self, samples: u64, bytes: u64) {
        let whole = |n| i64::try_from(n).unwrap_or(i64::MAX);
        self.all.pending_samples.with_label_values(&[&self.queue]).set(whole(samples));
        self.all.pending_bytes.with_label_values(&[&self.queue]).set(whole(bytes));
    }

    /// Records the time (Unix ms) of the newest queued sample.
    pub fn queued(&self, newest_ms: Option<i64>) {
        if let Some(ms) = newest_ms {
            raise(&self.all.queued_timestamp.with_label_values(&[&self.queue]), ms);
        }
    }
}

fn raise(gauge: &Gauge, ms: i64) {
    let seconds = ms as f64 / 1000.0;
    if seconds > gauge.get() {
        gauge.set(seconds);
    }
}

/// Reasons for dropping samples of a forward queue.
const DROPS: [&str; 5] = ["size", "age", "rejected", "damaged", "name"];
