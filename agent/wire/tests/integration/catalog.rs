//! The catalog's Prometheus names are what OpenTelemetry's translation makes of its OpenTelemetry names.

use fabriclens_catalog::{MetricKind, metrics};
use fabriclens_wire::decode::names::{self, Shape};

/// A row of the catalog has the same name through a stock OpenTelemetry Collector as through ours.
#[test]
fn catalog_names_are_the_translated_ones() {
    let wrong: Vec<String> = metrics::all()
        .filter_map(|m| {
            let shape = match m.kind {
                MetricKind::Counter => Shape::Counter,
                MetricKind::Histogram => Shape::Other,
                MetricKind::Gauge | MetricKind::Info => Shape::Gauge,
            };
            let translated = names::metric(m.name, m.unit.ucum(), shape);
            (translated != m.prometheus_name()).then(|| format!("{} → {translated}", m.prometheus_name()))
        })
        .collect();
    assert!(metrics::all().count() > 100);
    assert!(wrong.is_empty(), "{wrong:#?}");
}
