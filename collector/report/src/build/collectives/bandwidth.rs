//! Bus bandwidth over time of the operation with the most time, against the line rate of a host's ports.

use super::is_own;
use super::operations::Executions;
use crate::build::ReportContext;
use crate::model::{Bandwidth, Dip, Grade, Line, Plot, Slowed, Unit};
use fabriclens_base::escape::promql_string;
use fabriclens_promql::QueryError;
use std::collections::BTreeMap;
use std::ops::Range;

/// Minimum number of points for a usual value, and for a dip.
const KNOWN: usize = 3;
/// Bus bandwidth, relative to the usual one, below which operations are slower.
pub(super) const SLOWER: f64 = 0.8;

pub(super) fn bandwidth(
    context: &ReportContext<'_>,
    executions: &Executions,
    slowed: &[Slowed],
) -> Result<Option<Bandwidth>, QueryError> {
    let Some([communicator, operation, size]) = executions.main() else { return Ok(None) };
    let labels = [("communicator", communicator), ("operation", operation), ("size", size)];
    let labels = labels.map(|(name, value)| format!("{name}={}", promql_string(value))).join(",");
    let metric = "fabric_collective_bus_bandwidth_bytes_per_second";
    let mut of_hosts = context.source.plot(&context.source.selector(metric, &labels))?;
    of_hosts.retain(|(labels, _)| context.job.hosts.contains_key(labels.get("host")) && is_own(context, labels));
    let steps = of_hosts.iter().map(|(_, points)| points.len()).max().unwrap_or(0);
    let mean = |n: usize| {
        let values: Vec<f64> = of_hosts.iter().filter_map(|(_, points)| points.get(n).copied().flatten()).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let points: Vec<Option<f64>> = (0..steps).map(mean).collect();
    if points.iter().all(Option::is_none) {
        return Ok(None);
    }
    let step_ms = context.source.step_ms;
    // A point has the value at the end of its step.
    let ends_ns =
        |n: usize| (context.source.start_ms + step_ms * (n as i64 + 1)).min(context.source.end_ms) * 1_000_000;
    let is_slow = |n: usize| slowed.iter().any(|s| s.start_ns < ends_ns(n) && ends_ns(n) <= s.end_ns);
    let near_slow =
        |n: usize| slowed.iter().any(|s| s.start_ns < ends_ns(n) && ends_ns(n) <= s.end_ns + step_ms * 1_000_000);
    let values = |so: &dyn Fn(usize) -> bool| -> Vec<f64> {
        points.iter().enumerate().filter(|(n, _)| so(*n)).filter_map(|(_, value)| *value).collect()
    };
    // The value is a mean of the time before, so the first points after a slow period belong to neither.
    let mut undisturbed = values(&|n| !near_slow(n));
    undisturbed.sort_by(f64::total_cmp);
    let disturbed = values(&is_slow);
    let usual = (undisturbed.len() >= KNOWN).then(|| undisturbed[undisturbed.len() / 2]);
    let is_low = |n: usize| !near_slow(n) && points[n].zip(usual).is_some_and(|(value, usual)| value < SLOWER * usual);
    let unexplained = longest(points.len(), is_low).map(|range| Dip {
        start_ns: ends_ns(range.start) - step_ms * 1_000_000,
        seconds: range.len() as f64 * step_ms as f64 / 1000.0,
        mean: range.clone().filter_map(|n| points[n]).sum::<f64>() / range.len() as f64,
    });
    let line_rate = line_rate(context);
    let line = |name: &str, points| Line { name: name.to_owned(), grade: Grade::PerProcess, points };
    let mut lines = vec![line("bus bandwidth, mean over hosts", points.clone())];
    lines.extend(line_rate.map(|rate| line("line rate of the job's ports on a host", vec![Some(rate); points.len()])));
    let plot = Plot {
        title: format!("{operation} from {size}"),
        unit: Unit::BytesPerSecond,
        start_ns: context.source.start_ms * 1_000_000,
        step_seconds: step_ms as f64 / 1000.0,
        lines,
    };
    Ok(Some(Bandwidth {
        operation: operation.clone(),
        size: size.clone(),
        usual,
        unexplained,
        slowed: (!disturbed.is_empty()).then(|| disturbed.iter().sum::<f64>() / disturbed.len() as f64),
        line_rate,
        plot,
    }))
}

/// The longest run of points that are `so`; `None` if it is shorter than [`KNOWN`].
fn longest(points: usize, so: impl Fn(usize) -> bool) -> Option<Range<usize>> {
    let all: Vec<usize> = (0..points).filter(|n| so(*n)).collect();
    let runs = all.chunk_by(|a, b| a + 1 == *b);
    let longest = runs.max_by_key(|run| run.len()).filter(|run| run.len() >= KNOWN)?;
    Some(longest[0]..longest[0] + longest.len())
}

/// Smallest sum of the line rates of a host's ports, bytes per second; `None` if one is unknown.
fn line_rate(context: &ReportContext<'_>) -> Option<f64> {
    let mut by_host: BTreeMap<&str, f64> = BTreeMap::new();
    for port in &context.ports {
        *by_host.entry(&port.host).or_default() += port.rate?;
    }
    by_host.into_values().min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dip_is_a_run_of_points() {
        let low = [1, 2, 5, 6, 7, 8, 11];
        assert_eq!(longest(12, |n| low.contains(&n)), Some(5..9));
        assert_eq!(longest(5, |n| low.contains(&n)), None, "too short");
    }
}
