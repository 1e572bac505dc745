//! Metrics of switches that are read by gNMI, by switch.

use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Opts, Registry};

/// See the module.
#[derive(Clone)]
pub struct GnmiTelemetry {
    /// Streams that have sent something and not failed since.
    pub streams: IntGaugeVec,
    /// Values received.
    pub values: IntCounterVec,
    /// Values that were not stored, by reason.
    pub dropped: IntCounterVec,
    /// Bytes received.
    pub bytes: IntCounterVec,
    /// Streams that failed, by stream and reason.
    pub failures: IntCounterVec,
    /// Unix time of the last message.
    pub last_message: GaugeVec,
}

impl GnmiTelemetry {
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
        let streams = IntGaugeVec::new(
            Opts::new(
                "fabriclens_gnmi_streams",
                "gNMI streams of a switch that have sent something and not failed since; 0: the switch is not read.",
            ),
            &["switch"],
        )?;
        registry.register(Box::new(streams.clone()))?;
        let last_message = GaugeVec::new(
            Opts::new(
                "fabriclens_gnmi_last_message_timestamp_seconds",
                "When the last gNMI message of a switch arrived. Unix time.",
            ),
            &["switch"],
        )?;
        registry.register(Box::new(last_message.clone()))?;
        Ok(Self {
            streams,
            values: counters("fabriclens_gnmi_values_total", "Values that a switch sent by gNMI.", &["switch"])?,
            dropped: counters(
                "fabriclens_gnmi_dropped_values_total",
                "Values of a switch that are not stored, by reason: busy (the store is slow), gap (no number), left_out, \
                 paths (too many), unknown (no such name), unreadable.",
                &["switch", "reason"],
            )?,
            bytes: counters("fabriclens_gnmi_bytes_total", "Bytes that a switch sent by gNMI.", &["switch"])?,
            failures: counters(
                "fabriclens_gnmi_failures_total",
                "gNMI streams of a switch that ended, by stream and reason: config, connection, credentials, ended, \
                 malformed, refused, silent.",
                &["switch", "stream", "reason"],
            )?,
            last_message,
        })
    }
}
