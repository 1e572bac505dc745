//! Ports as agents send them: those of their hosts, and of the switches that they read in band.

use fabriclens_catalog::{Metric, MetricKind, metrics};
use fabriclens_correlate::recording::PortSample;
use fabriclens_model::{Labels, LayoutId, absent, is_absent};
use fabriclens_wire::encode::request_bytes;
use fabriclens_wire::{Column, Resource, Section, Value};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// The metric of the catalog that a series is; `None` if agents do not send it.
pub fn metric(series: &Labels) -> Option<&'static Metric> {
    static ALL: LazyLock<HashMap<String, &'static Metric>> =
        LazyLock::new(|| metrics::all().map(|metric| (metric.prometheus_name(), metric)).collect());
    ALL.get(series.metric()).copied()
}

/// Encodes samples; remembers the column list of each port.
#[derive(Default)]
pub struct Agents {
    ports: HashMap<LayoutId, Port>,
}

struct Port {
    resource: Arc<Resource>,
    columns: Arc<[Column]>,
    starts: Arc<[u64]>,
    /// Column in the sample of each column that is sent.
    sent: Vec<usize>,
}

impl Port {
    fn new(sample: &PortSample, start_ns: u64) -> Self {
        let first = &sample.series[0];
        let port = first.get("port").parse().ok();
        let resource = Arc::new(Resource { host: first.get("host").into(), device: None, port });
        let known = sample.series.iter().enumerate().filter_map(|(at, series)| Some((at, metric(series)?, series)));
        let own = |series: &Labels| -> Vec<(Arc<str>, Arc<str>)> {
            let identity = ["__name__", "host", "port"];
            series.to_pairs().filter(|(name, _)| !identity.contains(&&**name)).collect()
        };
        let (sent, columns): (Vec<usize>, Vec<Column>) =
            known.map(|(at, metric, series)| (at, Column { metric, labels: own(series) })).unzip();
        Self { resource, starts: vec![start_ns; columns.len()].into(), columns: columns.into(), sent }
    }
}

impl Agents {
    /// A sample with the series that agents send.
    pub fn carried(mut sample: PortSample) -> PortSample {
        for (at, series) in sample.series.iter().enumerate() {
            if metric(series).is_none() {
                sample.values[at] = absent();
            }
        }
        sample
    }

    /// The request of one node: its ports at one time, counted since `start_ms` (Unix ms).
    pub fn request(&mut self, ports: &[&PortSample], start_ms: i64, time_ms: i64) -> Vec<u8> {
        let [start_ns, time_ns] = [start_ms, time_ms].map(|ms| ms.cast_unsigned() * 1_000_000);
        let section = |sample: &&PortSample| {
            let port = self.ports.entry(sample.series.id()).or_insert_with(|| Port::new(sample, start_ns));
            let value = |(at, column): (&usize, &Column)| match sample.values[*at] {
                value if is_absent(value) => Value::Absent,
                value if column.metric.kind == MetricKind::Counter && value.fract() == 0.0 => Value::Int(value as u64),
                value => Value::Float(value),
            };
            Section {
                resource: port.resource.clone(),
                columns: port.columns.clone(),
                begin_ns: time_ns,
                end_ns: time_ns,
                starts: port.starts.clone(),
                values: port.sent.iter().zip(&*port.columns).map(value).collect(),
                urgent: false,
            }
        };
        request_bytes(&ports.iter().map(section).collect::<Vec<_>>())
    }
}
