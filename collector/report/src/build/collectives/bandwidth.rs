//! Bus bandwidth over time of the operation with the most time, against the line rate of a host's ports.

use super::operations::{Counted, Executions, OnHost};
use crate::build::ReportContext;
use crate::model::{Bandwidth, Dip, Grade, Line, Method, Plot, Slowed, Unit};
use std::collections::BTreeMap;
use std::ops::Range;

/// Minimum number of points for a usual value, and for a dip.
const KNOWN: usize = 3;
/// Bus bandwidth, relative to the usual one, below which operations are slower.
pub(in crate::build) const SLOWER: f64 = 0.8;

pub(super) fn bandwidth(context: &ReportContext<'_>, executions: &Executions, slowed: &[Slowed]) -> Option<Bandwidth> {
    let key = executions.main()?;
    let [_, operation, size] = key;
    let hosts = &executions.by_key[key];
    let edges = context.source.edges();
    // Steps of counters; those that were read at checkpoints have none.
    if context.source.method == Method::Checkpoints || hosts.values().all(|on_host| on_host.bus_bytes.is_none()) {
        return None;
    }
    let sum = |n: usize, of: &dyn Fn(&OnHost) -> Option<&Counted>| {
        let values = hosts.values().filter_map(|on_host| of(on_host)?.steps.get(n).copied());
        values.filter(|value| value.is_finite()).sum::<f64>()
    };
    let with_bus = |on_host: &OnHost| on_host.bus_bytes.is_some();
    let seconds = |n| sum(n, &|on_host| with_bus(on_host).then_some(&on_host.seconds));
    let points: Vec<Option<f64>> = (0..context.steps.len())
        .map(|n| (seconds(n) > 0.0).then(|| sum(n, &|on_host| on_host.bus_bytes.as_ref()) / seconds(n)))
        .collect();
    if points.iter().all(Option::is_none) {
        return None;
    }
    // An operation counts when it ends: one that was held up is in a step after that.
    let begins_ms = |n: usize| {
        let count = sum(n, &|on_host| with_bus(on_host).then_some(&on_host.count));
        edges[n] - (seconds(n) / count * 1000.0) as i64
    };
    let is_slow = |n: usize| {
        let span = begins_ms(n) * 1_000_000..edges[n + 1] * 1_000_000;
        slowed.iter().any(|s| s.start_ns < span.end && span.start < s.end_ns)
    };
    let (slow, others): (Vec<usize>, Vec<usize>) = (0..points.len()).partition(|n| is_slow(*n));
    let mut undisturbed: Vec<f64> = others.into_iter().filter_map(|n| points[n]).collect();
    undisturbed.sort_by(f64::total_cmp);
    // By time, because one operation that was held up takes as long as many others.
    let slow_seconds: f64 = slow.iter().map(|n| seconds(*n)).sum();
    let slow_bytes: f64 = slow.iter().map(|n| sum(*n, &|on_host| on_host.bus_bytes.as_ref())).sum();
    let usual = (undisturbed.len() >= KNOWN).then(|| undisturbed[undisturbed.len() / 2]);
    let is_low = |n: usize| points[n].zip(usual).is_some_and(|(value, usual)| value < SLOWER * usual && !is_slow(n));
    let unexplained = longest(points.len(), is_low).map(|range| Dip {
        start_ns: edges[range.start] * 1_000_000,
        seconds: (edges[range.end] - edges[range.start]) as f64 / 1000.0,
        mean: range.clone().filter_map(|n| points[n]).sum::<f64>() / range.len() as f64,
    });
    let line_rate = line_rate(context);
    let line = |name: &str, points| Line { name: name.to_owned(), grade: Grade::PerProcess, points };
    let mut lines = vec![line("bus bandwidth", points.clone())];
    lines.extend(line_rate.map(|rate| line("line rate of the job's ports on a host", vec![Some(rate); points.len()])));
    let plot = Plot {
        title: format!("{operation} from {size}"),
        unit: Unit::BytesPerSecond,
        start_ns: context.source.start_ms * 1_000_000,
        step_seconds: context.step_seconds(),
        lines,
    };
    Some(Bandwidth {
        operation: operation.clone(),
        size: size.clone(),
        usual,
        unexplained,
        slowed: (slow_seconds > 0.0).then(|| slow_bytes / slow_seconds),
        line_rate,
        plot,
    })
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
