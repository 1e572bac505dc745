//! The collector's own metrics (`fabriclens_*`): declared and counted here, served at `/metrics`, and stored in its own
//! store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::gnmi_telemetry::GnmiTelemetry;
use crate::protocol::Protocol;
use crate::reader_leases::ReaderLeases;
use crate::switch_list::SwitchList;
use fabriclens_store::Stats;
use parking_lot::Mutex;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
};

/// Selects one number of the store's statistics.
type StatsField = fn(&Stats) -> u64;

/// Metric name, labels and value of a series.
pub type OwnSample = (String, Vec<(String, String)>, f64);

/// Gauges read from the statistics of the store: name, help, value.
const STORE: &[(&str, &str, StatsField)] = &[
    ("fabriclens_store_head_series", "Series in memory.", |s| s.head_series as u64),
    ("fabriclens_store_head_samples", "Samples in memory, not yet in blocks.", |s| s.head_samples),
    ("fabriclens_store_head_layouts", "Sets of series that share time stamps, in memory.", |s| s.head_layouts as u64),
    ("fabriclens_store_head_bytes", "Bytes of compressed rows in memory.", |s| s.head_bytes),
    ("fabriclens_store_wal_bytes", "Bytes of write-ahead log that are not yet in blocks.", |s| s.wal_bytes),
    ("fabriclens_store_blocks", "Block files.", |s| s.blocks as u64),
    ("fabriclens_store_block_bytes", "Bytes of block files.", |s| s.block_bytes),
    ("fabriclens_store_index_bytes", "Memory that the indexes of blocks in use take.", |s| s.index_bytes),
    ("fabriclens_store_block_samples", "Samples in block files.", |s| s.block_samples),
    ("fabriclens_store_damage", "Damaged files or records found since the start.", |s| s.damage.len() as u64),
    ("fabriclens_store_log_failing", "1 while samples cannot be made durable.", |s| u64::from(s.log_failure.is_some())),
    ("fabriclens_store_maintenance_failing", "1 while blocks cannot be written, merged or removed.", |s| {
        u64::from(s.maintenance_failure.is_some())
    }),
];

/// All metrics of the collector; clones share them.
#[derive(Clone)]
pub struct Telemetry {
    registry: Registry,
    /// Samples made durable, by protocol (`otlp_grpc`, `otlp_http`, `remote_write`, `import`, `gnmi`, `self`).
    pub samples: IntCounterVec,
    /// Write requests, by protocol and result (`ok`, `partial`, or the reason of a refusal).
    pub requests: IntCounterVec,
    /// Rejected points, by protocol and reason.
    pub rejected: IntCounterVec,
    /// Points under foreign names, by source and outcome (`translated`, `left_out`, `unknown`, `gap`, `duplicate`).
    pub foreign: IntCounterVec,
    /// Request bytes after decompression, by protocol.
    pub bytes: IntCounterVec,
    /// Seconds to make one request durable.
    pub append_seconds: Histogram,
    /// Write requests being handled.
    pub in_flight: IntGauge,
    /// Write requests waiting for a permit.
    pub waiting: IntGauge,
    /// Write requests rejected because of overload, by protocol, priority class and reason.
    pub shed: IntCounterVec,
    /// Senders that are served, and senders that are rejected.
    pub senders: [IntGauge; 2],
    /// Memory of the process and its limit, bytes.
    pub memory: [IntGauge; 2],
    /// Signs that two agents use one host name, by host.
    pub host_conflicts: IntCounterVec,
    /// Switches read by gNMI.
    pub gnmi: GnmiTelemetry,
    /// Switches that push or are read by gNMI.
    pub switches: SwitchList,
    /// Readers of InfiniBand subnets.
    pub reader_leases: ReaderLeases,
    /// Connections closed because their address had too many.
    pub connections_refused: IntCounter,
    /// Connections closed because their reader was slow.
    pub slow_readers: IntCounter,
    /// Requests refused by authentication, authorization or rate limit, by reason.
    pub denied: IntCounterVec,
    skipped: IntCounterVec,
    /// Expiry of the server's certificate, Unix seconds.
    pub certificate_expiry: IntGauge,
    /// Reloads of changed files, by value and result (`ok`, `failed`).
    pub reloads: IntCounterVec,
    /// 1 while the present files of a value cannot be used, by value.
    pub reload_failing: IntGaugeVec,
    /// Queries, by endpoint and result.
    pub queries: IntCounterVec,
    /// Seconds per query, by endpoint.
    pub query_seconds: HistogramVec,
    /// Seconds per evaluation of the detectors, by part: `take` (samples into frames), `judge`, `late`.
    pub verdict_seconds: HistogramVec,
    /// Queries being evaluated.
    pub queries_in_flight: IntGauge,
    /// Bytes held by queries, their answers included.
    pub query_memory: IntGauge,
    /// Queries that had to wait for memory.
    pub query_memory_waits: IntCounter,
    /// Messages to Alertmanagers and webhooks, by receiver and outcome (`sent`, `failed`, `refused`).
    pub notifications: IntCounterVec,
    doubted_counters: IntGaugeVec,
    incidents_open: IntGaugeVec,
    /// Kinds that had an open incident since the start.
    kinds: Arc<Mutex<BTreeSet<String>>>,
    store: Vec<(IntGauge, StatsField)>,
    /// Offset of this host's clock while a leap is in doubt, seconds.
    clock_off: IntGauge,
    forward: Forward,
}

/// Metrics of all forward queues; the label `queue` holds the queue's name.
#[derive(Clone)]
struct Forward {
    samples: IntCounterVec,
    bytes: IntCounterVec,
    failed: IntCounterVec,
    dropped: IntCounterVec,
    pending_samples: IntGaugeVec,
    pending_bytes: IntGaugeVec,
    queued_timestamp: GaugeVec,
    sent_timestamp: GaugeVec,
}

/// Metrics of one forward queue.
#[derive(Clone)]
pub struct ForwardTelemetry {
    queue: String,
    all: Forward,
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

impl Telemetry {
    /// Counter of the series that an output leaves out because of their names.
    pub fn skipped_series(&self, output: &str) -> IntCounter {
        self.skipped.with_label_values(&[output])
    }

    /// Returns the metrics of a forward queue and creates its series.
    pub fn forward(&self, queue: &str) -> ForwardTelemetry {
        let forward = ForwardTelemetry { queue: queue.to_owned(), all: self.forward.clone() };
        forward.pending(0, 0);
        DROPS.iter().for_each(|reason| forward.dropped(reason, 0));
        let f = &forward.all;
        [&f.samples, &f.bytes, &f.failed].iter().for_each(|c| c.with_label_values(&[queue]).inc_by(0));
        forward
    }

    /// Declares all metrics, at zero.
    ///
    /// # Errors
    /// If a metric is declared wrongly or twice; a test rules that out.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let c = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(c.clone()))?;
            Ok::<_, prometheus::Error>(c)
        };
        let gauge = |name: &str, help: &str| {
            let g = IntGauge::new(name, help)?;
            registry.register(Box::new(g.clone()))?;
            Ok::<_, prometheus::Error>(g)
        };
        let queues = |name: &str, help: &str| {
            let g = IntGaugeVec::new(Opts::new(name, help), &["queue"])?;
            registry.register(Box::new(g.clone()))?;
            Ok::<_, prometheus::Error>(g)
        };
        let counter = |name: &str, help: &str| {
            let c = IntCounter::new(name, help)?;
            registry.register(Box::new(c.clone()))?;
            Ok::<_, prometheus::Error>(c)
        };
        let times = |name: &str, help: &str| {
            let g = GaugeVec::new(Opts::new(name, format!("{help} Unix time.")), &["queue"])?;
            registry.register(Box::new(g.clone()))?;
            Ok::<_, prometheus::Error>(g)
        };
        let telemetry = Self {
            samples: counters("fabriclens_ingest_samples_total", "Samples made durable.", &["source"])?,
            requests: counters("fabriclens_ingest_requests_total", "Write requests answered.", &["source", "result"])?,
            foreign: counters(
                "fabriclens_ingest_foreign_points_total",
                "Points under names of switches and exporters: translated, left out on purpose, not understood, without a usable value, or sent twice.",
                &["source", "outcome"],
            )?,
            rejected: counters("fabriclens_ingest_rejected_total", "Rejected points.", &["source", "reason"])?,
            bytes: counters("fabriclens_ingest_bytes_total", "Request bytes, decompressed.", &["source"])?,
            append_seconds: Histogram::with_opts(
                HistogramOpts::new("fabriclens_ingest_append_seconds", "Time until a request is durable.")
                    .buckets(vec![0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0]),
            )?,
            in_flight: gauge("fabriclens_ingest_in_flight", "Write requests being handled.")?,
            waiting: gauge("fabriclens_ingest_waiting", "Write requests that wait for a permit.")?,
            shed: counters(
                "fabriclens_ingest_shed_total",
                "Write requests rejected because of overload; their senders retry later.",
                &["source", "rank", "reason"],
            )?,
            senders: [
                gauge(
                    "fabriclens_ingest_senders",
                    "Senders (a host, or an address that sends for several) whose samples are accepted.",
                )?,
                gauge(
                    "fabriclens_ingest_senders_away",
                    "Senders (a host, or an address that sends for several) rejected because memory is short; they retry later.",
                )?,
            ],
            memory: [
                gauge("fabriclens_memory_bytes", "Memory of the process without mapped files.")?,
                gauge("fabriclens_memory_limit_bytes", "Memory that the process may use.")?,
            ],
            host_conflicts: counters(
                "fabriclens_ingest_host_conflicts_total",
                "Signs that two agents send under one host name.",
                &["host"],
            )?,
            gnmi: GnmiTelemetry::new(&registry)?,
            switches: SwitchList::new(&registry)?,
            reader_leases: ReaderLeases::new(&registry)?,
            connections_refused: counter(
                "fabriclens_connections_refused_total",
                "Connections closed because their address, or all addresses together, had too many.",
            )?,
            slow_readers: counter(
                "fabriclens_slow_readers_total",
                "Connections closed because their client read answers too slowly.",
            )?,
            skipped: counters(
                "fabriclens_skipped_series_total",
                "Series that an output leaves out because their names cannot be written there.",
                &["output"],
            )?,
            denied: counters(
                "fabriclens_requests_denied_total",
                "Requests refused by authentication, authorization or rate limit.",
                &["reason"],
            )?,
            certificate_expiry: gauge(
                "fabriclens_tls_certificate_expiry_timestamp_seconds",
                "Expiry of the server's certificate, or of one in its chain if that is earlier. Unix time; 0 without TLS.",
            )?,
            reloads: counters(
                "fabriclens_reloads_total",
                "Reloads of changed files (certificates, tokens, authorities of other servers).",
                &["what", "result"],
            )?,
            reload_failing: {
                let g = IntGaugeVec::new(
                    Opts::new(
                        "fabriclens_reload_failing",
                        "1 while changed files cannot be used and the previous ones stay in force.",
                    ),
                    &["what"],
                )?;
                registry.register(Box::new(g.clone()))?;
                g
            },
            queries: counters("fabriclens_queries_total", "Queries answered.", &["endpoint", "result"])?,
            query_seconds: HistogramVec::new(
                HistogramOpts::new("fabriclens_query_seconds", "Time of queries.")
                    .buckets(vec![0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0]),
                &["endpoint"],
            )?,
            queries_in_flight: gauge("fabriclens_queries_in_flight", "Queries being evaluated.")?,
            query_memory: gauge("fabriclens_query_memory_bytes", "Memory held by queries, their answers included.")?,
            verdict_seconds: HistogramVec::new(
                HistogramOpts::new("fabriclens_verdict_seconds", "Time of one evaluation of the detectors, by part.")
                    .buckets(vec![0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]),
                &["part"],
            )?,
            query_memory_waits: counter("fabriclens_query_memory_waits_total", "Queries that had to wait for memory.")?,
            notifications: counters(
                "fabriclens_notifications_total",
                "Messages about incidents to Alertmanagers and webhooks.",
                &["receiver", "outcome"],
            )?,
            doubted_counters: {
                let g = IntGaugeVec::new(
                    Opts::new("fabriclens_doubted_counters", "1 for a port with implausible counters, and the reason."),
                    &["node", "port", "reason"],
                )?;
                registry.register(Box::new(g.clone()))?;
                g
            },
            incidents_open: {
                let g =
                    IntGaugeVec::new(Opts::new("fabriclens_incidents_open", "Incidents that are open."), &["kind"])?;
                registry.register(Box::new(g.clone()))?;
                g
            },
            kinds: Arc::default(),
            clock_off: gauge(
                "fabriclens_clock_off_seconds",
                "Leap of this host's clock, ahead (positive) or back (negative), while it is in doubt; otherwise 0.",
            )?,
            store: STORE
                .iter()
                .map(|(name, help, read)| Ok((gauge(name, help)?, *read)))
                .collect::<Result<_, prometheus::Error>>()?,
            forward: Forward {
                samples: counters(
                    "fabriclens_forward_samples_total",
                    "Samples that the receiver accepted.",
                    &["queue"],
                )?,
                bytes: counters("fabriclens_forward_bytes_total", "Bytes that the receiver accepted.", &["queue"])?,
                failed: counters(
                    "fabriclens_forward_failed_total",
                    "Requests that failed and are retried.",
                    &["queue"],
                )?,
                dropped: counters(
                    "fabriclens_forward_dropped_total",
                    "Queued samples that will never be sent.",
                    &["queue", "reason"],
                )?,
                pending_samples: queues("fabriclens_forward_pending_samples", "Samples that wait to be sent.")?,
                pending_bytes: queues("fabriclens_forward_pending_bytes", "Bytes on disk that wait to be sent.")?,
                queued_timestamp: times("fabriclens_forward_queued_timestamp_seconds", "Newest queued sample.")?,
                sent_timestamp: times(
                    "fabriclens_forward_sent_timestamp_seconds",
                    "Newest sample that the receiver accepted.",
                )?,
            },
            registry: registry.clone(),
        };
        // Series that exist from the start have a rate from the start.
        for protocol in Protocol::ALL {
            telemetry.samples.with_label_values(&[protocol.name()]);
            telemetry.bytes.with_label_values(&[protocol.name()]);
        }
        registry.register(Box::new(telemetry.append_seconds.clone()))?;
        registry.register(Box::new(telemetry.query_seconds.clone()))?;
        registry.register(Box::new(telemetry.verdict_seconds.clone()))?;
        let start = IntGauge::new("fabriclens_start_time_seconds", "Start of the process, Unix time.")?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        start.set(i64::try_from(now).unwrap_or(i64::MAX));
        registry.register(Box::new(start))?;
        let build = IntGauge::with_opts(
            Opts::new("fabriclens_build_info", "1; the version is in the label.")
                .const_label("version", env!("CARGO_PKG_VERSION")),
        )?;
        build.set(1);
        registry.register(Box::new(build))?;
        Ok(telemetry)
    }

    /// Replaces the ports with implausible counters: node, port, reason.
    pub fn doubted_counters<'a>(&self, all: impl Iterator<Item = [&'a str; 3]>) {
        self.doubted_counters.reset();
        all.for_each(|labels| self.doubted_counters.with_label_values(&labels).set(1));
    }

    /// Sets the number of open incidents by kind; kinds that had some stay, at zero.
    pub fn incidents_open(&self, kinds: &BTreeMap<String, i64>) {
        let mut all: BTreeMap<&str, i64> = kinds.iter().map(|(kind, n)| (kind.as_str(), *n)).collect();
        let known = self.kinds.lock().iter().cloned().collect::<Vec<_>>();
        known.iter().for_each(|kind| _ = all.entry(kind).or_insert(0));
        for (kind, n) in all {
            self.incidents_open.with_label_values(&[kind]).set(n);
        }
        self.kinds.lock().extend(kinds.keys().cloned());
    }

    /// Copies the statistics of the store into their gauges; call before reading metrics.
    pub fn observe_store(&self, stats: &Stats) {
        for (gauge, read) in &self.store {
            gauge.set(i64::try_from(read(stats)).unwrap_or(i64::MAX));
        }
        self.clock_off.set(stats.clock_off_ms / 1000);
    }

    fn gather(&self) -> Vec<prometheus::proto::MetricFamily> {
        self.reader_leases.observe(Instant::now());
        self.registry.gather()
    }

    /// Encodes all metrics in the Prometheus text format.
    ///
    /// # Errors
    /// If a metric cannot be encoded.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.gather())
    }

    /// Returns all series; histograms as `_bucket`, `_sum` and `_count`.
    pub fn samples(&self) -> Vec<OwnSample> {
        let mut out = Vec::new();
        for family in self.gather() {
            for metric in family.get_metric() {
                let labels: Vec<(String, String)> =
                    metric.get_label().iter().map(|l| (l.name().to_owned(), l.value().to_owned())).collect();
                let mut put = |suffix: &str, extra: Option<String>, value: f64| {
                    let mut labels = labels.clone();
                    labels.extend(extra.map(|le| ("le".to_owned(), le)));
                    out.push((format!("{}{suffix}", family.name()), labels, value));
                };
                match family.get_field_type() {
                    prometheus::proto::MetricType::HISTOGRAM => {
                        let h = metric.get_histogram();
                        for b in h.get_bucket() {
                            put("_bucket", Some(b.upper_bound().to_string()), b.cumulative_count() as f64);
                        }
                        put("_bucket", Some("+Inf".to_owned()), h.get_sample_count() as f64);
                        put("_sum", None, h.get_sample_sum());
                        put("_count", None, h.get_sample_count() as f64);
                    }
                    prometheus::proto::MetricType::COUNTER => put("", None, metric.get_counter().get_value()),
                    _ => put("", None, metric.get_gauge().get_value()),
                }
            }
        }
        out
    }

    /// Returns name, type (`counter` …) and help of each metric.
    pub fn metadata(&self) -> Vec<(String, String, String)> {
        let kind = |f: &prometheus::proto::MetricFamily| format!("{:?}", f.get_field_type()).to_lowercase();
        self.registry.gather().iter().map(|f| (f.name().to_owned(), kind(f), f.help().to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_once_and_named_as_prometheus_wants() {
        let t = Telemetry::new().unwrap();
        t.samples.with_label_values(&["self"]).inc_by(3);
        t.append_seconds.observe(0.003);
        let names: Vec<String> = t.samples().into_iter().map(|s| s.0).collect();
        assert!(names.iter().all(|n| fabriclens_model::names::is_reserved(n)), "{names:?}");
        assert!(t.samples().contains(&(
            "fabriclens_ingest_samples_total".to_owned(),
            vec![("source".to_owned(), "self".to_owned())],
            3.0
        )));
        let bucket = |le: &str| {
            let labels = vec![("le".to_owned(), le.to_owned())];
            t.samples()
                .into_iter()
                .find(|s| s.0 == "fabriclens_ingest_append_seconds_bucket" && s.1 == labels)
                .unwrap()
                .2
        };
        assert_eq!((bucket("0.002"), bucket("0.005"), bucket("+Inf")), (0.0, 1.0, 1.0));
        assert!(t.text().unwrap().contains("# TYPE fabriclens_ingest_samples_total counter"));
        t.query_seconds.with_label_values(&["query"]).observe(0.1);
        let of = |name: &str| t.metadata().into_iter().find(|m| m.0 == name).map(|m| m.1);
        assert_eq!(of("fabriclens_query_seconds").as_deref(), Some("histogram"));
        assert_eq!(of("fabriclens_build_info").as_deref(), Some("gauge"));
    }
}
