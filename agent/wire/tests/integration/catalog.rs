//! The catalog's Prometheus names equal OpenTelemetry's translation of its OpenTelemetry names.

use fabriclens_catalog::{MetricKind, metrics};
use fabriclens_wire::decode::names::{self, Shape};

/// A catalog metric has the same name through a stock OpenTelemetry Collector.
#[test]
fn catalog_names_match_the_translation() {
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

/// What agents send is not reserved for the collector.
#[test]
fn catalog_names_are_not_reserved() {
    let reserved: Vec<String> =
        metrics::all().map(|m| m.prometheus_name()).filter(|name| fabriclens_rows::names::is_reserved(name)).collect();
    assert!(reserved.is_empty(), "add an exception to RESERVED: {reserved:?}");
    assert!(metrics::all().any(|m| m.prometheus_name().starts_with("fabric_job_")));
}
