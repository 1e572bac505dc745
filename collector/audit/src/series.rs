//! Drifts as series, for alerts and dashboards.

use fabriclens_forward::{SeriesWriter, Sink};
use fabriclens_model::Labels;
use fabriclens_store::{Metadata, Store};

use crate::drift::{Drift, Reason};

/// 1 for a setting that is not as expected.
pub(crate) const DRIFT: &str = "fabric_setting_drift";
const HELP: &str = "1 for a setting of a port or device that is not as expected, by the audit.";
/// Most series; the worst drifts come first.
pub(crate) const MOST: usize = 1000;

/// Writes a sample of each drift at `now_ms` (Unix ms), and ends the series of drifts that are no longer found.
pub(crate) fn write(writer: &mut SeriesWriter, sink: &Sink, store: &Store, drifts: &[Drift], now_ms: i64) {
    let mut series: Vec<Labels> = drifts.iter().take(MOST).map(labels).collect();
    series.sort();
    series.dedup();
    let values = vec![1.0; series.len()];
    if writer.write(sink, "drifts of the audit as series", series, values, now_ms) {
        let metadata = Metadata { kind: "gauge".into(), unit: String::new(), help: HELP.into() };
        if let Err(error) = store.put_metadata([(DRIFT, metadata)]) {
            tracing::warn!(%error, "cannot store metadata of the audit");
        }
    }
}

/// Labels of a drift: those of the port's own series, so that they join, and what is wrong.
fn labels(drift: &Drift) -> Labels {
    let (device, port) = drift.port.rsplit_once('/').unwrap_or((&drift.port, ""));
    let reason = match drift.reason {
        Reason::Baseline { .. } => "baseline",
        Reason::FarEnd { .. } => "far_end",
        Reason::Majority { .. } => "majority",
        Reason::Host => "host",
    };
    Labels::new([
        ("__name__", DRIFT),
        ("host", &drift.host),
        ("device", device),
        ("port", port),
        ("rail", &drift.rail),
        ("setting", &drift.key),
        ("severity", drift.severity.name()),
        ("reason", reason),
    ])
}
