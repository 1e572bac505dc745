//! Sections to OTLP, as the bytes of an `ExportMetricsServiceRequest`.
//!
//! Called by the agent's uplink once per flush. The bytes are written directly: the generated types would allocate
//! three times per attribute of each point, and an agent sends the same few attributes for ever.

use crate::proto::Writer;
use crate::{Column, Resource, Section, Value};
use fabriclens_catalog::{Kind, Metric};
use foldhash::{HashMap, HashMapExt as _};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use std::sync::Arc;

/// Scope name of everything an agent sends.
pub const SCOPE: &str = "fabriclens-agent";

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;
/// `DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK`.
const NO_RECORDED_VALUE: u64 = 1;

/// The request as generated types, for receivers and tests that want them.
pub fn request(sections: &[Section]) -> ExportMetricsServiceRequest {
    #[expect(clippy::expect_used, reason = "the bytes come from the writer beside it; a round-trip test covers it")]
    ExportMetricsServiceRequest::decode(request_bytes(sections).as_slice()).expect("own encoding")
}

/// Encodes sections: one `ResourceMetrics` per resource, one `Metric` per catalog row in it, and several ticks of the
/// same columns as several points of the same metric. A metric without any value is left out.
pub fn request_bytes(sections: &[Section]) -> Vec<u8> {
    let mut order: Vec<&Resource> = Vec::new();
    let mut index: HashMap<&Resource, usize> = HashMap::new();
    let mut members: Vec<Vec<u32>> = Vec::new();
    for (n, section) in sections.iter().enumerate() {
        let at = *index.entry(&section.resource).or_insert_with(|| {
            order.push(&section.resource);
            members.push(Vec::new());
            order.len() - 1
        });
        members[at].push(n as u32);
    }
    let mut out = Writer::default();
    let mut scratch = Scratch::default();
    for (resource, members) in order.iter().zip(&members) {
        scratch.resource(resource, members, sections);
        if !scratch.scope.is_empty() {
            out.message(1, &scratch.resource);
        }
    }
    out.into_bytes()
}

/// Number of samples that a receiver makes of a section: its values that are not absent, and of a histogram one for
/// each bucket, the sum and the count.
pub fn points(section: &Section) -> usize {
    let samples = |(column, value): (&Column, &Value)| match value {
        Value::Absent => 0,
        Value::Histogram(h) => h.bounds.len() + 3,
        Value::Stale if column.metric.kind == Kind::Histogram => 3,
        Value::Stale | Value::Int(_) | Value::Float(_) => 1,
    };
    section.columns.iter().zip(&section.values).map(samples).sum()
}

/// One buffer per nesting level, reused: a message's length precedes it, so its body is written first.
#[derive(Default)]
struct Scratch {
    resource: Writer,
    scope: Writer,
    metric: Writer,
    data: Writer,
    point: Writer,
    attributes: Writer,
    pair: Writer,
    any: Writer,
    places: Vec<Place>,
}

/// Where one value is: ordered so that points of one metric, and in it ticks of one column, are neighbours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    metric: u32,
    columns: u32,
    column: u32,
    section: u32,
}

impl Scratch {
    /// Leaves the body of a `ResourceMetrics` in `self.resource`; `self.scope` is empty when there is no point.
    fn resource(&mut self, resource: &Resource, members: &[u32], sections: &[Section]) {
        self.find_places(members, sections);
        self.scope.clear();
        let places = std::mem::take(&mut self.places);
        for metric in places.chunk_by(|a, b| a.metric == b.metric) {
            self.metric(metric, sections);
        }
        self.places = places;
        self.resource.clear();
        if self.scope.is_empty() {
            return;
        }

        self.data.clear();
        let port = resource.port.map(|p| p.to_string());
        let identity =
            [("host", Some(&*resource.host)), ("device", resource.device.as_deref()), ("port", port.as_deref())];
        for (name, value) in identity {
            if let Some(value) = value {
                self.data.attribute(1, name, value, &mut self.pair, &mut self.any);
            }
        }
        self.resource.message(1, &self.data);

        self.data.clear();
        self.point.clear();
        self.point.string(1, SCOPE);
        self.point.string(2, env!("CARGO_PKG_VERSION"));
        self.data.message(1, &self.point);
        self.data.append(&self.scope);
        self.resource.message(2, &self.data);
    }

    fn find_places(&mut self, members: &[u32], sections: &[Section]) {
        self.places.clear();
        let mut metrics: HashMap<&'static str, u32> = HashMap::new();
        let mut lists: Vec<(*const Column, u32)> = Vec::new();
        for &section in members {
            let s = &sections[section as usize];
            let first = Arc::as_ptr(&s.columns).cast::<Column>();
            let columns = match lists.iter().find(|(p, _)| *p == first) {
                Some((_, n)) => *n,
                None => {
                    lists.push((first, lists.len() as u32));
                    lists.len() as u32 - 1
                }
            };
            for (column, (c, v)) in s.columns.iter().zip(&s.values).enumerate() {
                if *v != Value::Absent {
                    let next = metrics.len() as u32;
                    let metric = *metrics.entry(c.metric.name).or_insert(next);
                    self.places.push(Place { metric, columns, column: column as u32, section });
                }
            }
        }
        self.places.sort_unstable();
    }

    /// Appends one `Metric` to `self.scope`.
    fn metric(&mut self, places: &[Place], sections: &[Section]) {
        let Some(metric) = places.first().map(|p| sections[p.section as usize].columns[p.column as usize].metric)
        else {
            return;
        };
        self.data.clear();
        for column in places.chunk_by(|a, b| (a.columns, a.column) == (b.columns, b.column)) {
            let labels = &sections[column[0].section as usize].columns[column[0].column as usize].labels;
            let field = if metric.kind == Kind::Histogram { 9 } else { 7 };
            self.attributes.clear();
            for (name, value) in labels {
                self.attributes.attribute(field, name, value, &mut self.pair, &mut self.any);
            }
            for p in column {
                let s = &sections[p.section as usize];
                let start = s.starts.get(p.column as usize).copied().unwrap_or(0);
                self.point(metric, start, s.end_ns, &s.values[p.column as usize]);
                self.data.message(1, &self.point);
            }
        }
        let cumulative = matches!(metric.kind, Kind::Counter | Kind::Histogram);
        if cumulative {
            self.data.varint_field(2, CUMULATIVE);
        }
        if metric.kind == Kind::Counter {
            self.data.varint_field(3, 1); // monotonic
        }
        self.metric.clear();
        self.metric.string(1, metric.name);
        self.metric.string(2, metric.help);
        self.metric.string(3, metric.unit.ucum());
        let data = match metric.kind {
            Kind::Gauge | Kind::Info => 5,
            Kind::Counter => 7,
            Kind::Histogram => 9,
        };
        self.metric.message(data, &self.data);
        self.scope.message(2, &self.metric);
    }

    /// Leaves a `NumberDataPoint` or `HistogramDataPoint` in `self.point`.
    fn point(&mut self, metric: &Metric, start: u64, time: u64, value: &Value) {
        self.point.clear();
        if matches!(metric.kind, Kind::Counter | Kind::Histogram) && start != 0 {
            self.point.fixed64(2, start);
        }
        self.point.fixed64(3, time);
        match value {
            // `as_int` is signed; above its range a double is the only number that OTLP has.
            Value::Int(v) => match i64::try_from(*v) {
                Ok(v) => self.point.fixed64(6, v.cast_unsigned()),
                Err(_) => self.point.fixed64(4, (*v as f64).to_bits()),
            },
            Value::Float(v) => self.point.fixed64(4, v.to_bits()),
            Value::Histogram(h) => {
                self.point.fixed64(4, h.count());
                self.point.fixed64(5, h.sum.to_bits());
                self.point.packed64(6, h.counts.iter().copied());
                self.point.packed64(7, h.bounds.iter().map(|b| b.to_bits()));
            }
            // The sum is optional: without it, its series would not be known to end.
            Value::Stale if metric.kind == Kind::Histogram => self.point.fixed64(5, 0),
            Value::Stale | Value::Absent => {}
        }
        self.point.append(&self.attributes);
        if *value == Value::Stale {
            self.point.varint_field(if metric.kind == Kind::Histogram { 10 } else { 8 }, NO_RECORDED_VALUE);
        }
    }
}
