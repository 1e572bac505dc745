//! Increases of counters and means of gauges between the edges of a time grid.

use fabriclens_model::{Labels, is_stale};

/// Maximum age of a sample at a checkpoint, ms; wide enough for rollups of a minute.
pub(crate) const NEAR_MS: i64 = 150_000;
/// Samples up to this long after the end of a job belong to it, ms: schedulers report whole seconds, and agents sample
/// once per second.
const LATE_MS: i64 = 2_000;
/// Minimum length of a gap in samples, ms.
const GAP_MS: i64 = 60_000;

/// Increase of a counter, resets included.
#[derive(Clone, Debug)]
pub(crate) struct Increase {
    pub labels: Labels,
    /// Over the whole time.
    pub total: f64,
    /// Further increase, for series that belong to this job alone: the value at the first sample, if the series began
    /// within the time range, and the increase just after the end.
    pub beyond: f64,
    /// Increase between edges; NaN: not measured.
    pub steps: Vec<f64>,
    /// Longest gap in the samples, ms, including the gaps at both ends.
    pub gap_ms: i64,
}

/// Edges of a grid, Unix ms.
pub(crate) fn edges((start, end): (i64, i64), step: i64) -> Vec<i64> {
    let mut edges: Vec<i64> = (start..end).step_by(step.max(1) as usize).collect();
    // A very short last step would yield an arbitrary rate.
    if edges.len() > 1 && edges.last().is_some_and(|last| end - last < step / 4) {
        edges.pop();
    }
    edges.push(end);
    edges
}

/// Means of a gauge between edges: each sample holds for the time since the previous one. NaN: not measured.
pub(crate) fn means(times: &[i64], values: &[f64], edges: &[i64]) -> Vec<f64> {
    let known: Vec<(i64, f64)> =
        times.iter().copied().zip(values.iter().copied()).filter(|(_, v)| !is_stale(*v) && v.is_finite()).collect();
    let mean = |e: &[i64]| {
        let first = known.partition_point(|(t, _)| *t <= e[0]);
        let (mut sum, mut of) = (0.0, 0.0);
        for n in first..known.len() {
            let before = n.checked_sub(1).map_or(known[n].0 - NEAR_MS, |b| known[b].0.max(known[n].0 - NEAR_MS));
            let width = (known[n].0.min(e[1]) - before.max(e[0])) as f64;
            if before >= e[1] {
                break;
            }
            (sum, of) = (sum + known[n].1 * width.max(0.0), of + width.max(0.0));
        }
        sum / of
    };
    edges.windows(2).map(mean).collect()
}

/// Increase of a counter between edges. `None`: it has no sample in that time.
pub(crate) fn increase(labels: Labels, times: &[i64], values: &[f64], edges: &[i64]) -> Option<Increase> {
    let (start, end) = (*edges.first()?, *edges.last()?);
    // Increase since the first sample, resets included.
    let mut points: Vec<(i64, f64)> = Vec::with_capacity(times.len());
    let mut last: Option<(f64, f64)> = None;
    let mut raw = 0.0;
    for (t, v) in times.iter().zip(values).filter(|(_, v)| !is_stale(**v) && v.is_finite()) {
        if points.is_empty() {
            raw = *v;
        }
        let sum = last.map_or(0.0, |(before, sum)| sum + if *v < before { *v } else { v - before });
        points.push((*t, sum));
        last = Some((*v, sum));
    }
    let inside = points.iter().filter(|(t, _)| (start..=end).contains(t)).count();
    if inside == 0 {
        return None;
    }
    let ends = (points.first()?.0, points.last()?.0);
    let at: Vec<f64> = edges.iter().map(|e| value_at(&points, *e)).collect();
    let began = if ends.0 > start { raw } else { 0.0 };
    let beyond = began + value_at(&points, end + LATE_MS) - at.last()?;
    // A step within a gap is not measured; the increase in it is part of the total nevertheless.
    let mut apart: Vec<i64> = points.windows(2).map(|p| p[1].0 - p[0].0).collect();
    apart.sort_unstable();
    let gap = apart.get(apart.len() / 2).map_or(GAP_MS, |usual| (3 * usual).max(GAP_MS));
    let covered = |e: &[i64]| {
        let before = points.partition_point(|(t, _)| *t <= e[0]);
        let after = points.partition_point(|(t, _)| *t < e[1]);
        let near = || before > 0 && after < points.len() && points[after].0 - points[before - 1].0 < gap;
        e[1] > ends.0 && e[0] < ends.1 && (after > before || near())
    };
    let steps = edges.windows(2).zip(at.windows(2)).map(|(e, v)| if covered(e) { v[1] - v[0] } else { f64::NAN });
    let gaps = points.windows(2).map(|p| (p[0].0.max(start), p[1].0.min(end))).map(|(a, b)| b - a);
    let gap_ms = gaps.chain([ends.0 - start, end - ends.1]).max().unwrap_or(0).max(0);
    Some(Increase { labels, total: at.last()? - at.first()?, beyond, steps: steps.collect(), gap_ms })
}

/// Value at a time: interpolated linearly between two samples, constant outside of them.
fn value_at(points: &[(i64, f64)], t: i64) -> f64 {
    let next = points.partition_point(|(at, _)| *at < t);
    match (next.checked_sub(1).map(|n| points[n]), points.get(next)) {
        (Some((a, low)), Some((b, high))) => low + (high - low) * (t - a) as f64 / (b - a) as f64,
        (Some((_, v)), None) | (None, Some(&(_, v))) => v,
        (None, None) => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(points: &[(i64, f64)], edges: &[i64]) -> Option<Increase> {
        let (times, values): (Vec<i64>, Vec<f64>) = points.iter().copied().unzip();
        increase(Labels::default(), &times, &values, edges)
    }

    #[test]
    fn increases_are_cut_at_edges_and_include_resets() {
        let r = of(&[(0, 100.0), (10, 200.0), (20, 50.0), (30, 150.0)], &[5, 15, 25]).unwrap();
        assert_eq!((r.steps.clone(), r.total), (vec![75.0, 75.0], 150.0), "200 to 50 is a reset and an increase of 50");
        let r = of(&[(12, 7.0), (18, 13.0)], &[0, 10, 20, 30]).unwrap();
        assert!(r.steps[0].is_nan() && r.steps[2].is_nan() && r.steps[1] == 6.0 && r.total == 6.0, "{r:?}");
        assert!(of(&[(0, 1.0), (90, 2.0)], &[10, 20]).is_none(), "no sample in that time");
    }

    #[test]
    fn series_of_one_job_count_in_full_despite_late_samples() {
        let edges = [10_000, 20_000];
        let whole = |points: &[(i64, f64)]| {
            let points: Vec<_> = points.iter().map(|(s, v)| (s * 1000, *v)).collect();
            of(&points, &edges).map(|r| r.total + r.beyond)
        };
        assert_eq!(whole(&[(11, 7.0), (19, 90.0), (21, 100.0)]), Some(100.0), "from zero to the late sample");
        assert_eq!(whole(&[(12, 5.0)]), Some(5.0), "also with a single sample");
        assert_eq!(whole(&[(8, 50.0), (12, 60.0), (20, 90.0)]), Some(35.0), "but not the value before the start");
        assert_eq!(whole(&[(11, 1.0), (20, 2.0), (24, 6.0)]), Some(4.0), "nor everything after the end");
        assert_eq!(whole(&[(11, 10.0), (15, 4.0)]), Some(14.0), "a restarted agent counts from zero");
    }

    #[test]
    fn gauge_samples_hold_for_the_time_before_them() {
        let s = |n: i64| n * 1000;
        let of = |points: &[(i64, f64)], edges: &[i64]| {
            let (times, values): (Vec<i64>, Vec<f64>) = points.iter().map(|(t, v)| (s(*t), *v)).unzip();
            means(&times, &values, &edges.iter().map(|e| s(*e)).collect::<Vec<_>>())
        };
        assert_eq!(of(&[(0, 9.0), (15, 1.0), (45, 0.0), (60, 0.5)], &[0, 30, 60]), [0.5, 0.25]);
        let gap = of(&[(10, 1.0), (1000, 0.5)], &[0, 60, 120, 900, 1000]);
        assert!(gap[0] == 1.0 && gap[1].is_nan() && gap[2] == 0.5 && gap[3] == 0.5, "{gap:?}");
        assert!(of(&[], &[0, 30])[0].is_nan());
    }

    #[test]
    fn steps_within_a_gap_are_not_measured() {
        let m = 60_000;
        let edges: Vec<i64> = (0..=10).map(|n| n * m).collect();
        let points: Vec<(i64, f64)> =
            (0..=100).map(|n| n * 6000).filter(|t| *t <= 2 * m || *t >= 7 * m).map(|t| (t, t as f64)).collect();
        let r = of(&points, &edges).unwrap();
        assert_eq!((r.total, r.gap_ms), (600_000.0, 5 * m));
        let none: Vec<usize> = (0..10).filter(|n| r.steps[*n].is_nan()).collect();
        assert_eq!(none, [2, 3, 4, 5, 6]);
    }
}
