//! Quantiles and fractions of histograms: classic ones, which are series with an `le` label, and native ones.

use super::native;
use crate::error::{Evaluated, QueryError};
use crate::eval::{ABSENT, Annotation, Column, Columns, Context, Grid, merge, relabel};
use crate::number;
use crate::plan::{Expr, Node};
use fabriclens_model::{Histogram, Labels, is_stale};
use std::collections::{BTreeSet, HashMap};

/// Relative differences between neighboring buckets that count as rounding errors.
const INSIGNIFICANT: f64 = 1e-12;

/// A bucket of a cumulative histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bucket {
    upper: f64,
    count: f64,
}

pub(super) fn quantile(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    let q = cx.scalar(&args[0], grid)?;
    let mut columns = cx.vector(&args[1], grid)?;
    cx.warn_invalid_quantiles(&q, &args[0], &columns);
    let found = histograms(cx, &mut columns, args[1].offset);
    let out = quantiles_of(cx, &found, &columns, &q, (args[1].offset, grid))?;
    settled(cx, out, &columns)
}

/// `histogram_quantiles(v, label, φ…)`: several quantiles, each named by a label.
pub(super) fn quantiles(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    let mut columns = cx.vector(&args[0], grid)?;
    let label = match &args[1].node {
        Node::Text(label) if !label.is_empty() => label.as_str(),
        _ => return Err(QueryError::Execution("invalid label name in histogram_quantiles(): \"\"".to_owned())),
    };
    let found = histograms(cx, &mut columns, args[0].offset);
    let mut out: Vec<Column> = vec![];
    for arg in &args[2..] {
        let q = cx.scalar(arg, grid)?;
        cx.warn_invalid_quantiles(&q, arg, &columns);
        for column in quantiles_of(cx, &found, &columns, &q, (args[0].offset, grid))? {
            // φ may differ from step to step.
            let mut latest = None;
            for (i, v) in column.values.iter().enumerate().filter(|(_, v)| !is_stale(**v)) {
                if latest.is_none_or(|bits| bits != q[i].to_bits()) {
                    cx.charge(grid.steps)?;
                    let pairs = column.labels.to_pairs();
                    let labels = Labels::new(pairs.chain([(label.into(), openmetrics(q[i]).into())]));
                    let values = vec![ABSENT; grid.steps];
                    out.push(Column { nameless: column.nameless, ..Column::new(labels, values) });
                    latest = Some(q[i].to_bits());
                }
                if let Some(last) = out.last_mut() {
                    last.values[i] = *v;
                }
            }
        }
    }
    Ok(Columns::Vector(merge(out)?))
}

/// A number as OpenMetrics writes it in labels: with a point or an exponent.
fn openmetrics(v: f64) -> String {
    let text = number::general(v);
    if v.is_finite() && !text.contains(['.', 'e']) { format!("{text}.0") } else { text }
}

/// The quantiles of all histograms at each step.
fn quantiles_of(
    cx: &mut Context<'_>,
    found: &[Classic],
    columns: &[Column],
    q: &[f64],
    (offset, grid): (usize, Grid),
) -> Evaluated<Vec<Column>> {
    let mut forced = BTreeSet::new();
    let mut out = native::each_histogram(cx, columns, offset, |i, h, metric| native::quantile(q[i], h, metric))?;
    let classic = each_step(cx, found, columns, grid, |name, i, buckets| {
        let (value, was_forced) = bucket_quantile(q[i], buckets);
        if was_forced {
            forced.insert(name.to_owned());
        }
        value
    })?;
    for name in forced {
        let about = if name.is_empty() { String::new() } else { format!(" for metric name {name:?}") };
        let message = format!(
            "input to histogram_quantile needed to be fixed for monotonicity (see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile){about}"
        );
        cx.inform(&message, offset);
    }
    out.extend(classic);
    Ok(out)
}

/// A series may be classic at some steps and native at others.
fn settled(cx: &Context<'_>, out: Vec<Column>, columns: &[Column]) -> Evaluated<Columns> {
    let mixed = columns.iter().any(|c| c.histograms.any());
    Ok(Columns::Vector(cx.settle(if mixed { merge(out)? } else { out })?))
}

/// `histogram_fraction(lower, upper, v)`: the share of observations between two values.
pub(super) fn fraction(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    let (lower, upper) = (cx.scalar(&args[0], grid)?, cx.scalar(&args[1], grid)?);
    let mut columns = cx.vector(&args[2], grid)?;
    let offset = args[2].offset;
    let found = histograms(cx, &mut columns, offset);
    let of_native = |i: usize, h: &Histogram, metric| native::fraction(lower[i], upper[i], h, metric);
    let mut out = native::each_histogram(cx, &columns, offset, of_native)?;
    out.extend(each_step(cx, &found, &columns, grid, |_, i, buckets| bucket_fraction(lower[i], upper[i], buckets))?);
    settled(cx, out, &columns)
}

/// Calls `of` with the metric name, the step and the buckets of each histogram at each step.
fn each_step(
    cx: &mut Context<'_>,
    found: &[Classic],
    columns: &[Column],
    grid: Grid,
    mut of: impl FnMut(&str, usize, &mut Vec<Bucket>) -> f64,
) -> Evaluated<Vec<Column>> {
    let mut out = Vec::with_capacity(found.len());
    for Classic { labels, members, conflicts } in found {
        cx.check()?;
        let mut values = vec![ABSENT; grid.steps];
        let mut buckets = Vec::with_capacity(members.len());
        for (i, slot) in values.iter_mut().enumerate().filter(|(i, _)| !conflicts.contains(i)) {
            let present = members.iter().map(|(upper, column)| (*upper, columns[*column].values[i]));
            buckets.clear();
            buckets.extend(present.filter(|(_, v)| !is_stale(*v)).map(|(upper, count)| Bucket { upper, count }));
            if !buckets.is_empty() {
                *slot = of(labels.metric(), i, &mut buckets);
            }
        }
        let mut column = Column::new(labels.clone(), values);
        cx.unname(&mut column);
        out.push(column);
    }
    Ok(out)
}

/// A classic histogram.
struct Classic {
    labels: Labels,
    /// Upper bounds with their columns.
    members: Vec<(f64, usize)>,
    /// Steps at which a native histogram has the same labels.
    conflicts: BTreeSet<usize>,
}

/// The classic histograms of a vector. Where a native one has the same labels neither is kept.
fn histograms(cx: &mut Context<'_>, columns: &mut [Column], offset: usize) -> Vec<Classic> {
    let mut index: HashMap<Labels, usize> = HashMap::new();
    let mut out: Vec<Classic> = vec![];
    for (i, c) in columns.iter().enumerate().filter(|(_, c)| c.values.iter().any(|v| !is_stale(*v))) {
        let le = c.labels.get("le");
        let Some(upper) = number::parse(le) else {
            let name = c.labels.metric();
            let about = if name.is_empty() { String::new() } else { format!(" for metric name {name:?}") };
            cx.warn(&format!("bucket label \"le\" is missing or has a malformed value of {le:?}{about}"), offset);
            continue;
        };
        // Histograms of different metrics are separate, although the name is dropped from the result.
        let labels = relabel(&c.labels, |n| n != "le");
        let at = *index.entry(labels.clone()).or_insert_with(|| {
            out.push(Classic { labels, members: vec![], conflicts: BTreeSet::new() });
            out.len() - 1
        });
        out[at].members.push((upper, i));
    }
    for i in 0..columns.len() {
        let Some(classic) = index.get(&columns[i].labels).map(|at| &mut out[*at]) else { continue };
        let native: Vec<usize> = columns[i].histograms.iter().map(|(step, _)| step).collect();
        for step in native {
            if classic.members.iter().any(|(_, c)| !is_stale(columns[*c].values[step])) {
                cx.annotate(&Annotation::ClassicAndNative(classic.labels.metric()), offset);
                classic.conflicts.insert(step);
                columns[i].histograms.clear(step);
            }
        }
    }
    out
}

/// The φ-quantile by linear interpolation within a bucket, and whether counts had to be made monotonic. The lowest
/// bucket starts at 0 if its bound is positive; the highest yields the bound below it.
fn bucket_quantile(q: f64, buckets: &mut Vec<Bucket>) -> (f64, bool) {
    if q.is_nan() {
        return (f64::NAN, false);
    }
    if !(0.0..=1.0).contains(&q) {
        return (if q < 0.0 { f64::NEG_INFINITY } else { f64::INFINITY }, false);
    }
    buckets.sort_by(|a, b| a.upper.total_cmp(&b.upper));
    if buckets.last().is_none_or(|b| b.upper != f64::INFINITY) {
        return (f64::NAN, false);
    }
    coalesce(buckets);
    let forced = make_monotonic(buckets);
    let last = buckets.len() - 1;
    if last == 0 || buckets[last].count == 0.0 {
        return (f64::NAN, false);
    }
    let mut rank = q * buckets[last].count;
    let b = buckets[..last].partition_point(|b| b.count < rank || b.count.is_nan() || rank.is_nan());
    if b == last {
        return (buckets[last - 1].upper, forced);
    }
    if b == 0 && buckets[0].upper <= 0.0 {
        return (buckets[0].upper, forced);
    }
    let (mut start, mut count) = (0.0, buckets[b].count);
    if b > 0 {
        start = buckets[b - 1].upper;
        count -= buckets[b - 1].count;
        rank -= buckets[b - 1].count;
    }
    (start + (buckets[b].upper - start) * (rank / count), forced)
}

/// The share of observations between two values, by linear interpolation within buckets.
fn bucket_fraction(lower: f64, upper: f64, buckets: &mut Vec<Bucket>) -> f64 {
    buckets.sort_by(|a, b| a.upper.total_cmp(&b.upper));
    if buckets.last().is_none_or(|b| b.upper != f64::INFINITY) {
        return f64::NAN;
    }
    coalesce(buckets);
    let count = buckets[buckets.len() - 1].count;
    if count == 0.0 || count.is_nan() || lower.is_nan() || upper.is_nan() {
        return f64::NAN;
    }
    if lower >= upper {
        return 0.0;
    }
    (rank(upper, buckets) - rank(lower, buckets)) / count
}

/// Observations below a value.
fn rank(value: f64, buckets: &[Bucket]) -> f64 {
    let (mut below, mut start) = (0.0, f64::NEG_INFINITY);
    for b in buckets {
        if start >= value {
            return below;
        }
        if b.upper > value {
            // The lowest bucket starts at 0 if its bound is positive, else nothing is known of it.
            let start = if start.is_finite() || b.upper <= 0.0 { start } else { 0.0 };
            let share = (value - start) / (b.upper - start);
            return if share.is_nan() || share < 0.0 { below } else { below + (b.count - below) * share };
        }
        (below, start) = (b.count, b.upper);
    }
    below
}

/// Merges buckets with equal bounds (`le="1"` and `le="1.0"`).
#[expect(clippy::float_cmp, reason = "only identical bounds are merged")]
fn coalesce(buckets: &mut Vec<Bucket>) {
    buckets.dedup_by(|next, kept| {
        let same = next.upper == kept.upper;
        if same {
            kept.count += next.count;
        }
        same
    });
}

/// Levels insignificant differences and removes decreases; returns whether there were decreases.
#[expect(clippy::float_cmp, reason = "equal counts are monotonic already")]
fn make_monotonic(buckets: &mut [Bucket]) -> bool {
    let mut forced = false;
    let mut before = buckets[0].count;
    for b in &mut buckets[1..] {
        if b.count == before {
            continue;
        }
        if almost_equal(before, b.count) {
            b.count = before;
        } else if b.count < before {
            b.count = before;
            forced = true;
        } else {
            before = b.count;
        }
    }
    forced
}

fn almost_equal(a: f64, b: f64) -> bool {
    if a.is_nan() || b.is_nan() {
        return a.is_nan() && b.is_nan();
    }
    let (sum, difference) = (a.abs() + b.abs(), (a - b).abs());
    if a == 0.0 || b == 0.0 || sum < f64::MIN_POSITIVE {
        return difference < INSIGNIFICANT * f64::MIN_POSITIVE;
    }
    difference / sum.min(f64::MAX) < INSIGNIFICANT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(q: f64, buckets: &[(f64, f64)]) -> (f64, bool) {
        bucket_quantile(q, &mut buckets.iter().map(|(upper, count)| Bucket { upper: *upper, count: *count }).collect())
    }

    #[test]
    fn interpolates_and_repairs() {
        let inf = f64::INFINITY;
        assert_eq!(of(0.5, &[(1.0, 2.0), (2.0, 6.0), (inf, 8.0)]), (1.5, false));
        assert_eq!(of(0.99, &[(1.0, 2.0), (2.0, 6.0), (inf, 8.0)]), (2.0, false));
        assert_eq!(of(0.5, &[(1.0, 6.0), (2.0, 4.0), (inf, 8.0)]), (2.0 / 3.0, true));
        assert_eq!(of(0.5, &[(1.0, 4.0), (2.0, 4.0 - 1e-14), (inf, 4.0)]), (0.5, false));
        assert!(of(0.5, &[(1.0, 1.0)]).0.is_nan() && of(0.5, &[(1.0, 0.0), (inf, 0.0)]).0.is_nan());
        let between = |lower, upper| {
            let buckets = [(0.1, 2.0), (0.5, 6.0), (inf, 8.0)];
            bucket_fraction(lower, upper, &mut buckets.map(|(upper, count)| Bucket { upper, count }).to_vec())
        };
        assert_eq!([between(0.0, 0.1), between(0.05, 0.3), between(-inf, inf)], [0.25, 0.375, 1.0]);
        assert_eq!([between(0.7, 0.9), between(0.3, 0.3), between(0.5, inf)], [0.0, 0.0, 0.25]);
        assert!(between(f64::NAN, 1.0).is_nan());
        assert_eq!(of(1.5, &[(inf, 1.0)]).0, inf);
    }
}
