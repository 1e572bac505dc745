//! Numbers of native histograms: count, sum, mean, deviation, quantiles, fractions, and their text.

use crate::error::Evaluated;
use crate::eval::{ABSENT, Annotation, Column, Columns, Context, Grid};
use crate::number;
use crate::plan::Expr;
use fabriclens_model::{Histogram, Interval, kahan};
use std::fmt::Write as _;

pub(super) fn count(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    number_of(cx, args, grid, Histogram::count)
}

pub(super) fn sum(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    number_of(cx, args, grid, Histogram::sum)
}

pub(super) fn avg(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    number_of(cx, args, grid, |h| h.sum() / h.count())
}

pub(super) fn stddev(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    number_of(cx, args, grid, |h| variance(h).sqrt())
}

pub(super) fn stdvar(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    number_of(cx, args, grid, variance)
}

/// A number of each histogram; floats are left out.
fn number_of(cx: &mut Context<'_>, args: &[Expr], grid: Grid, of: impl Fn(&Histogram) -> f64) -> Evaluated<Columns> {
    let columns = cx.vector(&args[0], grid)?;
    let out = each_histogram(cx, &columns, args[0].offset, |_, h, _| (of(h), None))?;
    Ok(Columns::Vector(cx.settle(out)?))
}

/// Calls `of` with the step, the histogram and the metric name of each histogram. It returns a number, and what there is
/// to say of it.
pub(super) fn each_histogram<'c>(
    cx: &mut Context<'_>,
    columns: &'c [Column],
    offset: usize,
    of: impl Fn(usize, &Histogram, &'c str) -> (f64, Option<Annotation<'c>>),
) -> Evaluated<Vec<Column>> {
    let mut out = vec![];
    for c in columns.iter().filter(|c| c.histograms.any()) {
        cx.check()?;
        let mut column = Column::new(c.labels.clone(), vec![ABSENT; c.values.len()]);
        column.nameless = c.nameless;
        cx.unname(&mut column);
        for (i, h) in c.histograms.iter() {
            let (value, annotation) = of(i, h, c.labels.metric());
            column.values[i] = value;
            if let Some(annotation) = annotation {
                cx.annotate(&annotation, offset);
            }
        }
        out.push(column);
    }
    Ok(out)
}

/// Population variance, as if all observations of a bucket were in its middle: the geometric one for exponential buckets.
fn variance(h: &Histogram) -> f64 {
    let mean = h.sum() / h.count();
    let (mut sum, mut lost) = (0.0, 0.0);
    for b in h.intervals().filter(|b| b.count != 0.0) {
        let middle = if h.is_custom() {
            f64::midpoint(b.upper, b.lower)
        } else if b.lower <= 0.0 && b.upper >= 0.0 {
            0.0
        } else {
            (b.upper * b.lower).sqrt().copysign(b.upper)
        };
        let distance = middle - mean;
        (sum, lost) = kahan(b.count * distance * distance, sum, lost);
    }
    (sum + lost) / h.count()
}

/// A zero bucket reaches to one side only if all other buckets are on that side.
fn one_sided(h: &Histogram, mut b: Interval) -> Interval {
    match (h.has_negative(), h.has_positive()) {
        (false, true) => b.lower = 0.0,
        (true, false) => b.upper = 0.0,
        _ => {}
    }
    b
}

/// The φ-quantile: interpolated by the logarithm in exponential buckets, linearly in custom ones and in the zero bucket.
pub(super) fn quantile<'m>(q: f64, h: &Histogram, metric: &'m str) -> (f64, Option<Annotation<'m>>) {
    if q < 0.0 {
        return (f64::NEG_INFINITY, None);
    }
    if q > 1.0 {
        return (f64::INFINITY, None);
    }
    if h.count() == 0.0 || q.is_nan() {
        return (f64::NAN, None);
    }
    // Observations of NaN are in no bucket, so the rank is counted from below where there may be any.
    let (nans, upwards) = (h.sum().is_nan(), h.sum().is_nan() || q < 0.5);
    let mut rank = (if upwards { q } else { 1.0 - q }) * h.count();
    let mut buckets = h.intervals();
    let mut next = || if upwards { buckets.next() } else { buckets.next_back() };
    let mut b = Interval { lower: 0.0, upper: 0.0, lower_inclusive: false, upper_inclusive: false, count: 0.0 };
    let mut count = 0.0;
    while let Some(one) = next() {
        b = one;
        count += b.count;
        if b.count != 0.0 && count >= rank {
            break;
        }
    }
    if h.is_custom() {
        if b.lower == f64::NEG_INFINITY {
            if b.upper <= 0.0 {
                return (b.upper, None);
            }
            b.lower = 0.0;
        } else if b.upper == f64::INFINITY {
            return (b.lower, None);
        }
    } else if b.lower < 0.0 && b.upper > 0.0 {
        b = one_sided(h, b);
    }
    // Rounding may make the buckets more than the count.
    count = count.min(h.count());
    if count < rank {
        return if nans { (f64::NAN, Some(Annotation::QuantileIsNan(metric))) } else { (b.upper, None) };
    }
    rank = if upwards { rank - (count - b.count) } else { count - rank };
    let counted = count + if nans { std::iter::from_fn(next).map(|b| b.count).sum() } else { 0.0 };
    let annotation = (nans && counted < h.count()).then_some(Annotation::QuantileIsSkewed(metric));
    (within(h, &b, rank / b.count), annotation)
}

/// The value below which a share of a bucket's observations is.
fn within(h: &Histogram, b: &Interval, share: f64) -> f64 {
    if h.is_custom() || b.lower <= 0.0 && b.upper >= 0.0 {
        return b.lower + (b.upper - b.lower) * share;
    }
    let [lower, upper] = [b.lower, b.upper].map(|v| v.abs().log2());
    if b.lower > 0.0 {
        (lower + (upper - lower) * share).exp2()
    } else {
        -(upper + (lower - upper) * (1.0 - share)).exp2()
    }
}

/// The share of observations between two values, interpolated as quantiles are.
pub(super) fn fraction<'m>(lower: f64, upper: f64, h: &Histogram, metric: &'m str) -> (f64, Option<Annotation<'m>>) {
    if h.count() == 0.0 || lower.is_nan() || upper.is_nan() {
        return (f64::NAN, None);
    }
    if lower >= upper {
        return (0.0, None);
    }
    // Observations of NaN are in no bucket, and below no value.
    let counted = if h.sum().is_nan() { h.intervals().map(|b| b.count).sum() } else { h.count() };
    let annotation = (counted < h.count()).then_some(Annotation::FractionWithoutNan(metric));
    let below = |value| rank(h, value).filter(|rank| *rank <= counted).unwrap_or(counted);
    ((below(upper) - below(lower)) / h.count(), annotation)
}

/// Observations below a value; `None` if all buckets are.
fn rank(h: &Histogram, value: f64) -> Option<f64> {
    let mut below = 0.0;
    for mut b in h.intervals() {
        let zero = b.lower <= 0.0 && b.upper >= 0.0;
        if zero {
            b = one_sided(h, b);
        }
        if b.lower >= value {
            return Some(below);
        }
        if b.upper > value {
            return Some(if b.lower == f64::NEG_INFINITY && (h.is_custom() || zero) {
                b.count
            } else if h.is_custom() || zero {
                below + b.count * (value - b.lower) / (b.upper - b.lower)
            } else {
                below + b.count * exponential_share(&b, value)
            });
        }
        below += b.count;
    }
    None
}

/// Share of an exponential bucket's observations that is below a value within it.
fn exponential_share(b: &Interval, value: f64) -> f64 {
    let [lower, upper, at] = [b.lower, b.upper, value].map(|v| v.abs().log2());
    if value > 0.0 { (at - lower) / (upper - lower) } else { 1.0 - (at - upper) / (lower - upper) }
}

/// A histogram as `count_values` writes it: `{count:3, sum:4.5, (1,2]:3}`.
pub(crate) fn text(h: &Histogram) -> String {
    let mut out = format!("{{count:{}, sum:{}", number::general(h.count()), number::general(h.sum()));
    for b in h.intervals().filter(|b| b.count != 0.0) {
        let (open, close) = (if b.lower_inclusive { '[' } else { '(' }, if b.upper_inclusive { ']' } else { ')' });
        let [lower, upper, count] = [b.lower, b.upper, b.count].map(number::general);
        _ = write!(out, ", {open}{lower},{upper}{close}:{count}");
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::{HistogramParts, Side, Span};

    fn side(offset: i32, counts: &[f64]) -> Side {
        Side { spans: vec![Span { offset, length: counts.len() as u32 }], counts: counts.to_vec() }
    }

    fn of(parts: HistogramParts) -> Histogram {
        let counts = parts.positive.counts.iter().chain(&parts.negative.counts).sum::<f64>();
        Histogram::new(HistogramParts { count: parts.count.max(counts + parts.zero_count), ..parts }).unwrap()
    }

    #[test]
    fn exponential_quantiles_follow_the_logarithm() {
        let h = of(HistogramParts { positive: side(1, &[4.0, 8.0]), ..HistogramParts::default() });
        let at = |q| quantile(q, &h, "").0;
        assert!((at(1.0 / 6.0) - 2.0_f64.sqrt()).abs() < 1e-12 && (at(2.0 / 3.0) - 8.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!([at(0.0), at(1.0), at(-0.1), at(1.1)], [1.0, 4.0, f64::NEG_INFINITY, f64::INFINITY]);
        assert!((fraction(2.0_f64.sqrt(), 8.0_f64.sqrt(), &h, "").0 - 0.5).abs() < 1e-12);
        let mirrored = of(HistogramParts { negative: side(1, &[4.0, 8.0]), ..HistogramParts::default() });
        assert!((quantile(5.0 / 6.0, &mirrored, "").0 + 2.0_f64.sqrt()).abs() < 1e-12);
        assert!((fraction(-(8.0_f64.sqrt()), 0.0, &mirrored, "").0 - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn the_zero_bucket_is_even_and_on_the_side_of_the_others() {
        let zero = HistogramParts { zero_threshold: 0.5, zero_count: 10.0, ..HistogramParts::default() };
        let both = of(zero.clone());
        let positive = of(HistogramParts { positive: side(1, &[10.0]), ..zero });
        assert_eq!([quantile(0.25, &both, "").0, quantile(0.25, &positive, "").0], [-0.25, 0.25]);
        assert_eq!([fraction(0.0, 0.25, &both, "").0, fraction(0.0, 0.25, &positive, "").0], [0.25; 2]);
    }

    #[test]
    fn custom_buckets_are_like_those_of_classic_histograms() {
        let (schema, custom_bounds) = (-53, vec![1.0, 3.0]);
        let h = of(HistogramParts { schema, positive: side(0, &[2.0, 4.0, 2.0]), custom_bounds, ..Default::default() });
        assert_eq!([0.125, 0.5, 0.99].map(|q| quantile(q, &h, "").0), [0.5, 2.0, 3.0]);
        assert_eq!([fraction(1.0, 2.0, &h, "").0, fraction(f64::NEG_INFINITY, 5.0, &h, "").0], [0.25, 0.75]);
        assert_eq!(text(&h), "{count:8, sum:0, [-Inf,1]:2, (1,3]:4, (3,+Inf]:2}");
    }

    #[test]
    fn observations_of_nan_are_told() {
        let parts = HistogramParts { sum: f64::NAN, count: 10.0, positive: side(1, &[4.0]), ..Default::default() };
        let h = of(parts);
        assert!(matches!(quantile(0.9, &h, "m"), (v, Some(Annotation::QuantileIsNan("m"))) if v.is_nan()));
        assert_eq!(quantile(0.4, &h, "m"), (2.0, Some(Annotation::QuantileIsSkewed("m"))));
        assert_eq!(fraction(0.0, 9.0, &h, "m"), (0.4, Some(Annotation::FractionWithoutNan("m"))));
    }
}
