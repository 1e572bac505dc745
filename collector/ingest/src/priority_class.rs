//! Priority class of a request under overload, read from its undecoded bytes only when it has to wait.

use fabriclens_wire::proto::{Field, Reader};

use fabriclens_core::protocol::Protocol;

/// Samples older than this are late: they were spooled while no collector was reachable, and detection no longer needs
/// them.
const LATE_MS: i64 = 60_000;
/// Largest request that is inspected, bytes; larger ones are live. Agents send at most 3 MiB.
pub(super) const INSPECT_BYTES: usize = 4 << 20;
/// Metrics of congestion and links, as the part of the name after `fabric`: with dots in OTLP, with underscores in
/// Prometheus names.
const SIGNALS: [&str; 9] = ["cnp", "congestion", "ecn", "link", "pause", "pfc", "port.up", "port.xmit_wait", "rdma"];

/// Priority class, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PriorityClass {
    /// Current samples of congestion and links.
    Signals,
    /// Other current samples.
    Live,
    /// Samples that were spooled while no collector was reachable.
    Late,
}

impl PriorityClass {
    /// All classes.
    pub const ALL: [Self; 3] = [Self::Signals, Self::Live, Self::Late];

    /// Value of the `rank` label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Signals => "signals",
            Self::Live => "live",
            Self::Late => "late",
        }
    }
}

/// Classifies an uncompressed request. Unreadable requests are live; the decoder will report the error.
pub(super) fn of(protocol: Protocol, body: &[u8], now_ms: i64) -> PriorityClass {
    let mut seen = Seen::default();
    match protocol {
        Protocol::Import | Protocol::Own => return PriorityClass::Late,
        Protocol::RemoteWrite => messages(body, 1).for_each(|series| seen.series(series)),
        Protocol::OtlpGrpc | Protocol::OtlpHttp => messages(body, 1).for_each(|resource| seen.resource(resource)),
    }
    match seen {
        Seen { time_ms: Some(time), .. } if time < now_ms - LATE_MS => PriorityClass::Late,
        Seen { signals: true, .. } => PriorityClass::Signals,
        Seen { .. } => PriorityClass::Live,
    }
}

#[derive(Default)]
struct Seen {
    /// Time of the first point. Requests hold one instant, or spans that begin together.
    time_ms: Option<i64>,
    signals: bool,
}

impl Seen {
    /// Inspects a `ResourceMetrics`: metric names and the first point.
    fn resource(&mut self, resource: &[u8]) {
        for metric in messages(resource, 2).flat_map(|scope| messages(scope, 2)) {
            for (number, field) in fields(metric) {
                match (number, field) {
                    (1, Field::Bytes(name)) => self.name(name),
                    // Points are field 1 of gauges, sums, histograms and the other types alike.
                    (5 | 7 | 9 | 10 | 11, Field::Bytes(data)) if self.time_ms.is_none() => {
                        let point = messages(data, 1).next().unwrap_or_default();
                        self.time_ms = fields(point).find_map(|(number, field)| match field {
                            Field::Fixed64(ns) if number == 3 => i64::try_from(ns / 1_000_000).ok(),
                            _ => None,
                        });
                    }
                    _ => {}
                }
            }
            if self.done() {
                return;
            }
        }
    }

    /// Inspects a `TimeSeries`: labels and the first sample.
    fn series(&mut self, series: &[u8]) {
        if self.done() {
            return;
        }
        for label in messages(series, 1) {
            let mut label = fields(label);
            if let (Some((1, Field::Bytes(b"__name__"))), Some((2, Field::Bytes(name)))) = (label.next(), label.next())
            {
                self.name(name);
            }
        }
        if self.time_ms.is_none() {
            let sample = messages(series, 2).next().unwrap_or_default();
            self.time_ms = fields(sample).find_map(|(number, field)| match field {
                Field::Varint(ms) if number == 2 => Some(ms as i64),
                _ => None,
            });
        }
    }

    fn name(&mut self, name: &[u8]) {
        let same = |a: &u8, b: u8| *a == b || *a == b'_' && b == b'.';
        let begins = |with: &str, name: &[u8]| {
            let whole = name.get(with.len()).is_none_or(|next| !next.is_ascii_lowercase());
            whole && name.len() >= with.len() && with.bytes().zip(name).all(|(b, a)| same(a, b))
        };
        if let Some(rest) = name.strip_prefix(b"fabric").and_then(|n| n.split_first()).map(|(_, rest)| rest) {
            self.signals |= SIGNALS.iter().any(|s| begins(s, rest));
        }
    }

    fn done(&self) -> bool {
        self.signals && self.time_ms.is_some()
    }
}

pub(super) fn fields(message: &[u8]) -> impl Iterator<Item = (u32, Field<'_>)> {
    Reader::new(message).map_while(Result::ok)
}

/// Length-delimited values of one field.
pub(super) fn messages(message: &[u8], wanted: u32) -> impl Iterator<Item = &[u8]> {
    fields(message).filter_map(move |(number, field)| match field {
        Field::Bytes(bytes) if number == wanted => Some(bytes),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use prost::Message as _;
    use serde_json::json;

    const NOW: i64 = 1_700_000_000_000;

    fn otlp(metric: &str, data: &str, ago_ms: i64) -> PriorityClass {
        let time = ((NOW - ago_ms) * 1_000_000).to_string();
        let point = json!({"timeUnixNano": time, "startTimeUnixNano": "1", "asInt": "1"});
        let metrics =
            json!([{"name": "other", "gauge": {"dataPoints": []}}, {"name": metric, data: {"dataPoints": [point]}}]);
        let request = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]});
        let request: ExportMetricsServiceRequest = serde_json::from_value(request).unwrap();
        of(Protocol::OtlpGrpc, &request.encode_to_vec(), NOW)
    }

    fn remote(metric: &str, ago_ms: i64) -> PriorityClass {
        use fabriclens_core::prompb::{Label, Sample, TimeSeries, WriteRequest};
        let labels = [("__name__", metric), ("host", "h")].map(|(n, v)| Label { name: n.into(), value: v.into() });
        let samples = vec![Sample { value: 1.0, timestamp: NOW - ago_ms }];
        let series = TimeSeries { labels: labels.into(), samples, histograms: vec![] };
        of(Protocol::RemoteWrite, &WriteRequest { timeseries: vec![series], metadata: vec![] }.encode_to_vec(), NOW)
    }

    #[test]
    fn age_outranks_content() {
        assert_eq!(otlp("fabric.pfc.pause.duration", "sum", 1000), PriorityClass::Signals);
        assert_eq!(otlp("fabric.port.up", "gauge", 1000), PriorityClass::Signals);
        assert_eq!(otlp("fabric.port.io", "sum", 1000), PriorityClass::Live);
        assert_eq!(otlp("fabric.linked", "sum", 1000), PriorityClass::Live, "only whole words match");
        assert_eq!(otlp("fabric.pfc.pause.duration", "sum", 61_000), PriorityClass::Late);
        assert_eq!(remote("fabric_pfc_pause_duration_seconds_total", 0), PriorityClass::Signals);
        assert_eq!(remote("node_load1", -1000), PriorityClass::Live);
        assert_eq!(remote("node_load1", 3_600_000), PriorityClass::Late);
        assert_eq!(of(Protocol::OtlpHttp, b"\xff\xff nothing that can be read", NOW), PriorityClass::Live);
    }

    #[test]
    fn signals_match_the_catalog() {
        let names: Vec<&str> = fabriclens_catalog::metrics::all().map(|m| m.name).collect();
        for signal in SIGNALS {
            assert!(names.iter().any(|n| n.strip_prefix("fabric.").is_some_and(|n| n.starts_with(signal))), "{signal}");
        }
    }
}
