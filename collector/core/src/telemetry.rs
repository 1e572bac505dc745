//! The collector's own metrics (`fabriclens_*`): declared and counted here, served at `/metrics`, and stored in its own
//! store.

mod declared;
mod observed;

pub use declared::OwnSample;
use declared::{STORE, STORE_SECONDS, StatsField, StatsTime, register_constants};

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::forward_telemetry::{ForwardQueues, ForwardTelemetry};
use crate::gnmi_telemetry::GnmiTelemetry;
use crate::host_senders::HostSenders;
use crate::judge_telemetry::JudgeTelemetry;
use crate::probe_telemetry::ProbeTelemetry;
use crate::protocol::Protocol;
use crate::reader_leases::ReaderLeases;
use crate::switch_list::SwitchList;
use crate::troubled_jobs::TroubledJobs;
use fabriclens_subnet_paths::SubnetPaths;
use parking_lot::Mutex;
use prometheus::{
    Counter, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

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
    /// Which sender tells the ports of each host.
    pub host_senders: HostSenders,
    /// Running jobs that open incidents touch.
    pub troubled_jobs: TroubledJobs,
    /// Readers of InfiniBand subnets.
    pub reader_leases: ReaderLeases,
    /// Paths and probes.
    pub probes: ProbeTelemetry,
    /// Judges of an ingest collector, and the lease of a judge.
    pub judges: JudgeTelemetry,
    /// Forwarding tables of InfiniBand subnets, as their readers tell them.
    pub subnet_paths: SubnetPaths,
    /// Memory of these tables, bytes, by reader.
    subnet_tables: IntGaugeVec,
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
    /// Time of one audit of settings.
    pub audit_seconds: Histogram,
    /// Queries being evaluated.
    pub queries_in_flight: IntGauge,
    /// Bytes held by queries, their answers included.
    pub query_memory: IntGauge,
    /// Bytes of results that are kept for the next query of the same text.
    pub query_results: IntGauge,
    /// Steps of range queries, by origin: `kept`, `evaluated`.
    pub query_steps: IntCounterVec,
    /// Queries that had to wait for memory.
    pub query_memory_waits: IntCounter,
    /// Messages to Alertmanagers, webhooks and programs, by receiver and outcome (`sent`, `failed`, `refused`; of jobs also
    /// `omitted`, `abandoned`).
    pub notifications: IntCounterVec,
    doubted_counters: IntGaugeVec,
    incidents_open: IntGaugeVec,
    /// Kinds that had an open incident since the start.
    kinds: Arc<Mutex<BTreeSet<String>>>,
    store: Vec<(IntGauge, StatsField)>,
    store_seconds: Vec<(Counter, StatsTime)>,
    /// Offset of this host's clock while a leap is in doubt, seconds.
    clock_off: IntGauge,
    forward: ForwardQueues,
}

impl Telemetry {
    /// Counter of the series that an output leaves out because of their names.
    pub fn skipped_series(&self, output: &str) -> IntCounter {
        self.skipped.with_label_values(&[output])
    }

    /// Returns the metrics of a forward queue and creates its series.
    pub fn forward(&self, queue: &str) -> ForwardTelemetry {
        self.forward.of(queue)
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
        let counter = |name: &str, help: &str| {
            let c = IntCounter::new(name, help)?;
            registry.register(Box::new(c.clone()))?;
            Ok::<_, prometheus::Error>(c)
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
            host_senders: HostSenders::default(),
            troubled_jobs: TroubledJobs::default(),
            reader_leases: ReaderLeases::new(&registry)?,
            probes: ProbeTelemetry::new(&registry)?,
            judges: JudgeTelemetry::new(&registry)?,
            subnet_paths: SubnetPaths::default(),
            subnet_tables: {
                let g = IntGaugeVec::new(
                    Opts::new(
                        "fabriclens_subnet_tables_bytes",
                        "Memory of the forwarding tables of an InfiniBand subnet, as the agent on `host` reads them.",
                    ),
                    &["host"],
                )?;
                registry.register(Box::new(g.clone()))?;
                g
            },
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
            audit_seconds: Histogram::with_opts(
                HistogramOpts::new("fabriclens_audit_seconds", "Time of one audit of settings.")
                    .buckets(vec![0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0]),
            )?,
            query_results: gauge(
                "fabriclens_query_results_bytes",
                "Memory of results that are kept for the next query of the same text.",
            )?,
            query_steps: counters(
                "fabriclens_query_steps_total",
                "Steps of range queries, kept from an earlier one or evaluated.",
                &["origin"],
            )?,
            query_memory_waits: counter("fabriclens_query_memory_waits_total", "Queries that had to wait for memory.")?,
            notifications: counters(
                "fabriclens_notifications_total",
                "Messages about incidents and ended jobs to Alertmanagers, webhooks and programs.",
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
            store_seconds: STORE_SECONDS
                .iter()
                .map(|(name, help, read)| {
                    let c = Counter::new(*name, *help)?;
                    registry.register(Box::new(c.clone()))?;
                    Ok((c, *read))
                })
                .collect::<Result<_, prometheus::Error>>()?,
            forward: ForwardQueues::new(&registry)?,
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
        registry.register(Box::new(telemetry.audit_seconds.clone()))?;
        register_constants(&registry)?;
        Ok(telemetry)
    }
}
