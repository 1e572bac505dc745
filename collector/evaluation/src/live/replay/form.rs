//! A form in which the counters of switches arrive: which canonical series it carries, under which names, and how its
//! messages are made.

use fabriclens_config::GnmiKind;
use fabriclens_correlate::recording::PortSample;
use fabriclens_model::{Labels, absent, is_absent};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;

/// A form: one row for each source.
pub struct Form {
    /// Name of the source.
    pub name: &'static str,
    /// Time between two readings of a switch, ms. Each switch has its own phase.
    pub period_ms: i64,
    /// Time from a reading to the arrival of its message, ms.
    pub delay_ms: i64,
    /// The series that it carries; the first row that fits counts.
    pub counters: &'static [Counter],
    /// Messages of one reading.
    pub messages: fn(&Reading) -> Vec<Message>,
}

/// A canonical series under its foreign name.
pub struct Counter {
    /// Canonical metric.
    pub metric: &'static str,
    /// Labels that the series must have.
    pub labels: &'static [(&'static str, &'static str)],
    /// Foreign name; `{}` stands for the priority.
    pub name: &'static str,
    /// Further attributes under the foreign name.
    pub attributes: &'static [(&'static str, &'static str)],
    /// Factor to the foreign unit.
    pub factor: f64,
}

/// A row without further attributes, in the same unit.
pub const fn counter(
    metric: &'static str,
    labels: &'static [(&'static str, &'static str)],
    name: &'static str,
) -> Counter {
    Counter { metric, labels, name, attributes: &[], factor: 1.0 }
}

impl Counter {
    /// The same in another unit.
    pub const fn times(self, factor: f64) -> Self {
        Self { factor, ..self }
    }

    /// The same with attributes.
    pub const fn with(self, attributes: &'static [(&'static str, &'static str)]) -> Self {
        Self { attributes, ..self }
    }
}

/// Label of sent traffic and pause.
pub const TX: (&str, &str) = ("direction", "transmit");
/// Label of received traffic and pause.
pub const RX: (&str, &str) = ("direction", "receive");

/// All values of a switch at one time.
pub struct Reading {
    /// Name of the switch.
    pub switch: String,
    /// Unix ms.
    pub time_ms: i64,
    /// Its values.
    pub points: Vec<Point>,
}

/// A value under its foreign name.
pub struct Point {
    /// Foreign name.
    pub name: String,
    /// Port.
    pub port: String,
    /// Priority; empty if it has none.
    pub priority: String,
    /// Further attributes.
    pub attributes: &'static [(&'static str, &'static str)],
    /// In the foreign unit.
    pub value: f64,
}

/// A message on its way to the collector.
pub enum Message {
    /// OTLP from an address.
    Otlp(IpAddr, Vec<u8>),
    /// Remote write, compressed.
    RemoteWrite(Vec<u8>),
    /// A `SubscribeResponse` of a switch, in the stream of its kind that has this name.
    Gnmi(String, GnmiKind, &'static str, Vec<u8>),
}

/// Address of a node: nodes of the recordings are numbers.
pub fn address(node: &str) -> IpAddr {
    let number: u16 = node.parse().expect("nodes of the simulations are numbers");
    let [high, low] = number.to_be_bytes();
    [10, 1, high, low].into()
}

impl Form {
    /// The row of a series; `None` if the form does not carry it.
    pub fn counter(&self, series: &Labels) -> Option<&'static Counter> {
        let has = |counter: &&Counter| counter.labels.iter().all(|(name, value)| series.get(name) == *value);
        self.counters.iter().filter(|counter| counter.metric == series.metric()).find(has)
    }

    /// A sample with the series that the form carries; `None` if the switch is not read at this time.
    pub fn carried(&self, mut sample: PortSample) -> Option<PortSample> {
        let mut hasher = DefaultHasher::new();
        sample.series[0].get("host").hash(&mut hasher);
        let phase = (hasher.finish() % 1000) as i64 * 1000;
        if (sample.time_ms + phase) % self.period_ms != 0 {
            return None;
        }
        for (at, series) in sample.series.iter().enumerate() {
            if self.counter(series).is_none() {
                sample.values[at] = absent();
            }
        }
        Some(sample)
    }

    /// Values of a sample in the form. Foreign counters and gauges are integers.
    pub fn points(&self, sample: &PortSample) -> Vec<Point> {
        let point = |(series, value): (&Labels, &f64)| {
            let counter = self.counter(series).filter(|_| !is_absent(*value))?;
            let priority = series.get("priority");
            Some(Point {
                name: counter.name.replace("{}", priority),
                port: series.get("port").to_owned(),
                priority: priority.to_owned(),
                attributes: counter.attributes,
                value: (value * counter.factor).round(),
            })
        };
        sample.series.iter().zip(&sample.values).filter_map(point).collect()
    }
}
