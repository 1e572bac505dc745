//! Canonical series: their labels and values.

use crate::conversion::{Conversion, Value};
use fabriclens_catalog::{Metric, MetricKind};
use fabriclens_model::Labels;
use std::sync::Arc;

/// Labels of a series of a switch; `port` is `None` if it describes the whole switch.
pub fn labels(switch: &Arc<str>, metric: &Metric, port: Option<&str>, more: &[(&str, String)]) -> Labels {
    let text = |text: &str| Arc::<str>::from(text);
    let name = (text("__name__"), text(&metric.prometheus_name()));
    let port = port.map(|port| (text("port"), text(port)));
    let more = more.iter().map(|(name, value)| (text(name), text(value)));
    Labels::new([name, (text("host"), switch.clone())].into_iter().chain(port).chain(more)).with_hash()
}

/// A value of a canonical metric; `None`, a gap, if there is none, or a counter is below 0.
pub fn value(metric: &Metric, conversion: Conversion, value: Value<'_>) -> Option<f64> {
    conversion.of(value).filter(|value| metric.kind != MetricKind::Counter || *value >= 0.0)
}
