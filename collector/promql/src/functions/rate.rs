//! `rate`, `increase` and `delta`, computed over all windows of a series at once, and `irate` and `idelta` of the last
//! two samples.

use crate::eval::{Span, Window};

/// `rate`, `increase` or `delta`.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    /// Counts from zero after a drop, and was never below zero.
    pub counter: bool,
    pub per_second: bool,
}

/// Extrapolation of the change in one window, from its times alone. `None` for windows with fewer than two samples.
pub(crate) struct Extrapolation {
    span: Span,
    /// Seconds from first to last sample.
    sampled: f64,
    /// Seconds of extrapolation to the start of the window, and to its end.
    to_start: f64,
    to_end: f64,
    /// Length of the window, seconds.
    range: f64,
    factor: f64,
}

impl Change {
    /// Extrapolates to the ends of the window if the samples nearly reach them, else by half a sampling interval;
    /// never to where a counter would be negative.
    pub fn extrapolate(self, times: &[i64], span: Span, (start, end): (i64, i64)) -> Option<Extrapolation> {
        if span.high < span.low + 2 {
            return None;
        }
        let (first, last) = (times[span.low], times[span.high - 1]);
        let seconds = |ms: i64| ms as f64 / 1000.0;
        let mut to_start = seconds(first - start);
        let mut to_end = seconds(end - last);
        let sampled = seconds(last - first);
        let interval = sampled / (span.high - 1 - span.low) as f64;
        let near = interval * 1.1;
        if to_start >= near {
            to_start = interval / 2.0;
        }
        if to_end >= near {
            to_end = interval / 2.0;
        }
        let mut extrapolation =
            Extrapolation { span, sampled, to_start, to_end, range: seconds(end - start), factor: 0.0 };
        extrapolation.factor = self.factor(&extrapolation, to_start);
        Some(extrapolation)
    }

    /// Factor of a change in a window with these first value and change, both of a counter's sort.
    pub(super) fn factor_from(self, r: &Extrapolation, first: f64, change: f64) -> f64 {
        if self.counter && change > 0.0 && first >= 0.0 {
            let to_zero = r.sampled * (first / change);
            if to_zero < r.to_start {
                return self.factor(r, to_zero);
            }
        }
        r.factor
    }

    fn factor(self, r: &Extrapolation, to_start: f64) -> f64 {
        let factor = (r.sampled + to_start + r.to_end) / r.sampled;
        if self.per_second { factor / r.range } else { factor }
    }

    /// Writes the change in each window to `out`; slots without one are unchanged. Returns whether there is any. `drops`
    /// is a reusable buffer.
    pub fn apply(
        self,
        extrapolations: &[Option<Extrapolation>],
        values: &[f64],
        drops: &mut Vec<usize>,
        out: &mut [f64],
    ) -> bool {
        drops.clear();
        if self.counter {
            find_drops(values, drops);
        }
        let (mut next, mut any) = (0, false);
        for (extrapolation, slot) in extrapolations.iter().zip(out) {
            let Some(r) = extrapolation else { continue };
            let first = values[r.span.low];
            let mut change = values[r.span.high - 1] - first;
            while drops.get(next).is_some_and(|d| *d <= r.span.low) {
                next += 1;
            }
            for drop in drops[next..].iter().take_while(|d| **d < r.span.high) {
                change += values[drop - 1];
            }
            // Most counters are far from zero; this test needs no division.
            let far = r.sampled * first > r.to_start * change * 1.000_001;
            let factor = if far { r.factor } else { self.factor_from(r, first, change) };
            *slot = change * factor;
            any = true;
        }
        any
    }
}

/// Values that are compared at once before the position of a drop is searched.
const STRIDE: usize = 64;

/// Positions where a counter decreases. Most never do, so many values are compared at once.
fn find_drops(values: &[f64], drops: &mut Vec<usize>) {
    let mut from = 1;
    while from < values.len() {
        let to = (from + STRIDE).min(values.len());
        let pairs = || values[from..to].iter().zip(&values[from - 1..to - 1]);
        if pairs().fold(false, |any, (v, before)| any | (v < before)) {
            drops.extend(pairs().enumerate().filter(|(_, (v, before))| v < before).map(|(i, _)| from + i));
        }
        from = to;
    }
}

pub(super) fn irate(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    last_two(w, true)
}

pub(super) fn idelta(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    last_two(w, false)
}

fn last_two(w: &Window<'_>, rate: bool) -> Option<f64> {
    let last = w.values.len().checked_sub(1)?;
    let before = last.checked_sub(1)?;
    let elapsed = w.times[last] - w.times[before];
    if elapsed == 0 {
        return None;
    }
    let reset = rate && w.values[last] < w.values[before];
    let change = if reset { w.values[last] } else { w.values[last] - w.values[before] };
    Some(if rate { change / (elapsed as f64 / 1000.0) } else { change })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::spans;

    const RATE: Change = Change { counter: true, per_second: true };
    const INCREASE: Change = Change { counter: true, per_second: false };
    const DELTA: Change = Change { counter: false, per_second: false };

    fn along(change: Change, times: &[i64], values: &[f64], windows: &[(i64, i64)]) -> Vec<Option<f64>> {
        let spans = spans(times, windows.iter().copied());
        let extrapolation: Vec<_> = spans.iter().zip(windows).map(|(s, w)| change.extrapolate(times, *s, *w)).collect();
        let mut out = vec![f64::NEG_INFINITY; windows.len()];
        let any = change.apply(&extrapolation, values, &mut vec![7], &mut out);
        assert_eq!(any, out.iter().any(|v| v.is_finite()));
        out.into_iter().map(|v| v.is_finite().then_some(v)).collect()
    }

    fn one(change: Change, times: &[i64], values: &[f64]) -> Option<f64> {
        along(change, times, values, &[(0, 60_000)])[0]
    }

    #[test]
    fn extrapolation_never_goes_below_zero() {
        // The first sample is 25 s after the window's start at an interval of 10 s: extrapolate half an interval at
        // most, and 2 s to zero.
        let (times, values) = ([25_000, 35_000, 45_000, 55_000], [2.0, 12.0, 22.0, 32.0]);
        assert_eq!(one(INCREASE, &times, &values), Some(37.0));
        assert_eq!(one(DELTA, &times, &values), Some(40.0));
    }

    #[test]
    fn resets_are_counted_from_zero() {
        let (times, values) = ([0, 20_000, 40_000, 60_000], [10.0, 20.0, 5.0, 15.0]);
        assert_eq!((one(INCREASE, &times, &values), one(DELTA, &times, &values)), (Some(25.0), Some(5.0)));
        let w = Window { times: &times, values: &values, histograms: &[], now: 60_000 };
        assert_eq!(irate(&w, &[]), Some(0.5));
        assert_eq!(one(RATE, &[0], &[1.0]), None);
    }

    #[test]
    fn each_window_counts_the_resets_within_it() {
        // Longer than a stride, with drops at its ends, in adjacent pairs and in the last pair.
        let values: Vec<f64> = (0..200).map(|i| f64::from(i * 37 % 101) + f64::from(i / 63)).collect();
        let times: Vec<i64> = (0..200).map(|i| i * 1000).collect();
        let windows: Vec<(i64, i64)> = (0..70).map(|i| (i * 3_000 - 9_000, i * 3_000)).collect();
        for ((start, end), got) in windows.iter().zip(along(INCREASE, &times, &values, &windows)) {
            let seen = |t: &&i64| (start..=end).contains(t);
            let low = times.iter().take_while(|t| *t < start).count();
            let seen = &values[low..low + times.iter().filter(seen).count()];
            let drops = seen.windows(2).filter(|p| p[1] < p[0]).map(|p| p[0]);
            let change = drops.fold(seen.last().unwrap_or(&0.0) - seen.first().unwrap_or(&0.0), |a, v| a + v);
            match got {
                None => assert!(seen.len() < 2),
                // Samples reach both ends of most windows, so nothing is extrapolated.
                Some(got) if seen.len() == 10 => assert_eq!(got, change, "{start}..{end}"),
                Some(got) => assert!(got >= change),
            }
        }
    }
}
