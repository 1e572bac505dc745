//! Sections and sources as JSON, for scripts.

use super::families;
use crate::schedule::{Outcome, SourceStatus};
use fabriclens_catalog::MetricKind;
use fabriclens_wire::{Section, Value};
use serde_json::{Map, json};

/// `{"series":[…],"sources":[…]}`; see [`source`]. Integers are exact; NaN and infinities are text; a histogram is
/// `{"buckets":[[upper bound, observations not above it],…],"sum":…,"count":…}`.
pub fn json(sections: &[Section], sources: &[SourceStatus]) -> serde_json::Value {
    let mut series = Vec::new();
    for family in families(sections) {
        let kind = match family.metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Info => "info",
            MetricKind::Histogram => "histogram",
        };
        for s in &family.samples {
            let mut labels = Map::new();
            labels.insert("host".into(), (*s.resource.host).into());
            if let Some(device) = &s.resource.device {
                labels.insert("device".into(), (**device).into());
            }
            if let Some(port) = s.resource.port {
                labels.insert("port".into(), port.to_string().into());
            }
            labels.extend(s.labels.iter().map(|(k, v)| (k.to_string(), (**v).into())));
            series.push(json!({
                "name": family.name, "type": kind, "unit": family.metric.unit.ucum(), "labels": labels,
                "value": number(s.value), "time_ns": s.time_ns,
            }));
        }
    }
    json!({ "series": series, "sources": sources.iter().map(source).collect::<Vec<_>>() })
}

/// One source: `sampler`, `target`, `outcome` (`data`, `absent`, `error`, `stalled`), `detail`, `counters`, `reads`,
/// `errors`, `read_seconds`.
pub fn source(s: &SourceStatus) -> serde_json::Value {
    let (outcome, detail, counters) = match &s.outcome {
        Outcome::Data { counters } => ("data", Some(s.note.clone()).filter(|note| !note.is_empty()), Some(*counters)),
        Outcome::Absent(why) => ("absent", Some(why.clone()), None),
        Outcome::Error(why) => ("error", Some(why.clone()), None),
        Outcome::Stalled(time) => ("stalled", Some(format!("for {:.1} s", time.as_secs_f64())), None),
    };
    json!({
        "sampler": s.sampler, "target": s.target, "outcome": outcome, "detail": detail, "counters": counters,
        "reads": s.reads, "errors": s.errors, "read_seconds": s.last_read.map(|d| d.as_secs_f64()),
    })
}

fn number(value: &Value) -> serde_json::Value {
    match value {
        Value::Int(v) => (*v).into(),
        Value::Float(v) if v.is_finite() => (*v).into(),
        Value::Float(v) => v.to_string().into(),
        Value::Histogram(h) => {
            let buckets: Vec<_> = h.cumulative().map(|(bound, count)| json!([bound, count])).collect();
            json!({ "buckets": buckets, "sum": h.sum, "count": h.count() })
        }
        Value::Absent | Value::Stale => serde_json::Value::Null,
    }
}
