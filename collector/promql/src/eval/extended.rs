//! Range selectors whose ends are given values: `anchored` by the last sample before the range, `smoothed` by
//! interpolation. Both look beyond the range, as far as the lookback.

use super::point::between;
use super::select::{Ranged, drop_stale, extended_histograms};
use super::{ABSENT, Column, Context, Grid, drop_name};
use crate::error::{Evaluated, QueryError};
use crate::functions::{Change, Function};
use crate::limits::Version;
use crate::plan::{Edges, Expr, Node, Selector};
use fabriclens_model::{Hint, HistogramSeries, Labels, Series};
use std::collections::HashSet;

/// Functions of anchored and of smoothed ranges, as Prometheus lists them.
const ANCHORED: &[&str] = &["changes", "delta", "increase", "rate", "resets"];
const SMOOTHED: &[&str] = &["delta", "increase", "rate"];

/// Refuses functions that have no meaning for extended ranges.
pub(super) fn check(f: &Function, args: &[Expr]) -> Evaluated<()> {
    for arg in args {
        let Node::Range(selector, _) = &arg.node else { continue };
        let (name, allowed) = match selector.edges {
            Edges::Plain => continue,
            Edges::Anchored => ("anchored", ANCHORED),
            Edges::Smoothed => ("smoothed", SMOOTHED),
        };
        if !allowed.contains(&f.name) {
            let allowed = allowed.join(", ");
            let message = format!("{name} modifier can only be used with: {allowed} - not with {}", f.name);
            return Err(QueryError::Execution(message));
        }
    }
    Ok(())
}

/// The value at `time` on the line through two samples. A counter that was reset between them counts from zero.
fn interpolate((t1, v1): (i64, f64), (t2, v2): (i64, f64), time: i64, counter: bool) -> f64 {
    let v1 = if counter && v2 < v1 { 0.0 } else { v1 };
    v1 + (v2 - v1) * (time - t1) as f64 / (t2 - t1) as f64
}

/// Index of the sample from which a range that starts at `start` counts: the last one not after it, or the first.
/// `None` if all samples are before the range.
pub(super) fn first(times: &[i64], start: i64) -> Option<usize> {
    times.last().filter(|last| **last > start)?;
    Some(times.partition_point(|t| *t <= start).saturating_sub(1))
}

/// Values at both ends of a range, and the samples strictly between them.
struct Extent {
    left: f64,
    right: f64,
    inner: std::ops::Range<usize>,
}

fn extent(times: &[i64], values: &[f64], (start, end): (i64, i64), edges: Edges, counter: bool) -> Option<Extent> {
    let smoothed = edges == Edges::Smoothed;
    let low = first(times, start)?;
    let last = times.len() - 1;
    let high = if smoothed { times.partition_point(|t| *t < end).min(last) } else { last };
    // A smoothed range may have samples after it only.
    if times[high] <= start {
        return None;
    }
    let at = |i: usize| (times[i], values[i]);
    let left =
        if smoothed && times[low] < start { interpolate(at(low), at(low + 1), start, counter) } else { values[low] };
    let right = if smoothed && high > 0 && times[high] > end {
        interpolate(at(high - 1), at(high), end, counter)
    } else {
        values[high]
    };
    let inner = low + usize::from(times[low] <= start)..(high + usize::from(times[high] < end)).max(low);
    Some(Extent { left, right, inner: inner.start..inner.end.max(inner.start) })
}

/// `rate`, `increase` or `delta` of an extended range, without extrapolation.
pub(super) fn change(c: Change, times: &[i64], values: &[f64], ends: (i64, i64), edges: Edges) -> Option<f64> {
    let Extent { left, right, inner } = extent(times, values, ends, edges, c.counter)?;
    let mut change = right - left;
    if c.counter {
        let mut before = left;
        for v in values[inner].iter().chain([&right]) {
            if *v < before {
                change += before;
            }
            before = *v;
        }
    }
    Some(if c.per_second { change / ((ends.1 - ends.0) as f64 / 1000.0) } else { change })
}

/// The samples of a range vector that is a result, with the values at the ends of an extended one.
pub(crate) fn points(ranged: &Ranged, time: i64, version: Version) -> Evaluated<(Vec<Series>, Vec<HistogramSeries>)> {
    let (start, end) = ranged.window(time);
    let (low, high) = ranged.reach(time);
    let mut out = Vec::with_capacity(ranged.series.len());
    let mut histograms = vec![];
    let mut seen: HashSet<Labels> = HashSet::new();
    for (at, s) in ranged.series.iter().enumerate() {
        let from = s.times.partition_point(|t| *t < version.first_within(low));
        let to = s.times.partition_point(|t| *t <= high).max(from);
        let (times, values) = (&s.times[from..to], &s.values[from..to]);
        let nameless = ranged.nameless.get(at).is_some_and(|n| *n);
        let labels = if nameless { drop_name(&s.labels) } else { s.labels.clone() };
        let series = match ranged.edges {
            Edges::Plain => Series { labels, times: times.to_vec(), values: values.to_vec() },
            edges => {
                let Some(Extent { left, right, inner }) = extent(times, values, (start, end), edges, false) else {
                    continue;
                };
                let times = [&[start], &times[inner.clone()], &[end]].concat();
                Series { labels, times, values: [&[left], &values[inner], &[right]].concat() }
            }
        };
        if nameless && !seen.insert(series.labels.clone()) {
            let message = "vector cannot contain metrics with the same labelset";
            return Err(QueryError::Execution(message.to_owned()));
        }
        let points = between(&s.histograms, (version.first_within(low), high));
        if !points.is_empty() {
            let (times, values) = points.iter().cloned().unzip();
            histograms.push(HistogramSeries { labels: series.labels.clone(), times, values });
        }
        out.push(series);
    }
    Ok((out, histograms))
}

impl Context<'_> {
    /// Values of an instant selector on the lines between samples; behind the last sample, its value.
    pub(super) fn smoothed(&mut self, s: &Selector, grid: Grid) -> Evaluated<Vec<Column>> {
        let (lookback, version) = (self.lookback_ms(), self.limits.version);
        let (from, to) = (self.shifted(s.shift, grid.start), self.shifted(s.shift, grid.end()));
        let oldest = |time: i64| version.first_within(time.saturating_sub(lookback));
        let span = (oldest(from), to.saturating_add(lookback));
        let series = self.read(s, span, Hint { step_ms: grid.distance(), range_ms: 2 * lookback, rollup: None })?;
        self.afford(series.len().saturating_mul(grid.steps))?;
        let mut columns = Vec::with_capacity(series.len());
        for mut one in series {
            self.check()?;
            drop_stale(&mut one);
            if !one.histograms.is_empty() {
                return Err(extended_histograms());
            }
            let value = |time: i64| {
                let next = one.times.partition_point(|t| *t < time);
                let at = |i: usize| Some((*one.times.get(i)?, one.values[i]));
                let before = next.checked_sub(1).and_then(at).filter(|(t, _)| *t >= oldest(time));
                let after = at(next).filter(|(t, _)| *t <= time.saturating_add(lookback));
                match (before, after) {
                    (_, Some((t, v))) if t == time => v,
                    (Some(before), Some(after)) => interpolate(before, after, time, false),
                    (Some((_, v)), None) => v,
                    (None, _) => ABSENT,
                }
            };
            let values = grid.times().map(|t| value(self.shifted(s.shift, t))).collect();
            let column = Column::new(one.labels.clone(), values);
            self.count_samples(column.values.iter().filter(|v| !fabriclens_model::is_stale(**v)).count());
            if column.any() {
                columns.push(column);
            }
        }
        self.charge(columns.len() * grid.steps)?;
        Ok(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::{self, Run};

    const INCREASE: Change = Change { counter: true, per_second: false };

    #[test]
    fn functions_of_extended_ranges_exist() {
        for name in ANCHORED.iter().chain(SMOOTHED) {
            let run = functions::find(name).map(|id| functions::get(id).run);
            assert!(matches!(run, Some(Run::Window { .. } | Run::Change(_))), "{name}");
        }
    }

    #[test]
    fn anchors_are_the_last_samples_before_the_range() {
        let of = |times: &[i64], values: &[f64]| change(INCREASE, times, values, (10, 20), Edges::Anchored);
        assert_eq!(of(&[5, 15, 20], &[1.0, 2.0, 4.0]), Some(3.0));
        // A sample at the start counts rather than one before it, and none before means the first within.
        assert_eq!(of(&[5, 10, 15], &[1.0, 3.0, 4.0]), Some(1.0));
        assert_eq!(of(&[12, 15], &[3.0, 4.0]), Some(1.0));
        assert_eq!((of(&[12], &[3.0]), of(&[5, 10], &[1.0, 2.0]), of(&[], &[])), (Some(0.0), None, None));
        // A reset between anchor and range counts from zero.
        assert_eq!(of(&[5, 15, 20], &[9.0, 2.0, 4.0]), Some(4.0));
    }

    #[test]
    fn ends_are_interpolated() {
        let of = |times: &[i64], values: &[f64]| change(INCREASE, times, values, (10, 20), Edges::Smoothed);
        assert_eq!(of(&[5, 15, 25], &[0.0, 10.0, 20.0]), Some(10.0));
        assert_eq!(of(&[5, 25], &[0.0, 20.0]), Some(10.0));
        // Without samples beyond the ends those within count.
        assert_eq!(of(&[12, 18], &[1.0, 4.0]), Some(3.0));
        assert_eq!(of(&[0, 10], &[1.0, 4.0]), None);
        // Reset between 15 and 25: half of the growth from zero is within.
        assert_eq!(of(&[5, 15, 25], &[0.0, 10.0, 8.0]), Some(9.0));
    }
}
