//! OpenTelemetry to Prometheus names.

use crate::{Metric, MetricKind};

/// Dots become underscores, the unit follows unless the name has it, counters end in `_total`.
pub(crate) fn prometheus(metric: &Metric) -> String {
    let mut name = metric.name.replace(['.', '-'], "_");
    if let Some(suffix) = metric.unit.suffix()
        && !(suffix == "ratio" && metric.kind == MetricKind::Counter)
        && !name.split('_').any(|part| part == suffix)
    {
        name.push('_');
        name.push_str(suffix);
    }
    if metric.kind == MetricKind::Counter && !name.ends_with("_total") {
        name.push_str("_total");
    }
    name
}
