//! Change of a series over its window: `rate`, `increase`, `delta`, which go along a whole series at once, and `irate`,
//! `idelta`, which look at two samples.

use crate::eval::{Span, Window};

/// `rate`, `increase` or `delta`.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    /// Counts from zero after a drop, and was never below zero.
    pub counter: bool,
    pub per_second: bool,
}

/// What the times of a window tell of the change in it; windows of less than two samples have none.
pub(crate) struct Reach {
    span: Span,
    /// Seconds from first to last sample.
    sampled: f64,
    /// Seconds that the change is stretched by: to the begin of the window, and to its end.
    to_start: f64,
    to_end: f64,
    /// Seconds of the window.
    range: f64,
    factor: f64,
}

impl Change {
    /// Difference of last and first sample, stretched to the whole range where the samples nearly reach its ends, else
    /// by half a sampling interval; never to where a counter would have been negative.
    pub fn reach(self, times: &[i64], span: Span, (start, end): (i64, i64)) -> Option<Reach> {
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
        let mut reach = Reach { span, sampled, to_start, to_end, range: seconds(end - start), factor: 0.0 };
        reach.factor = self.factor(&reach, to_start);
        Some(reach)
    }

    fn factor(self, r: &Reach, to_start: f64) -> f64 {
        let factor = (r.sampled + to_start + r.to_end) / r.sampled;
        if self.per_second { factor / r.range } else { factor }
    }

    /// Puts the change in each window into `out`, whose slots stay as they are where there is none; true if there is
    /// any. `drops` is memory to work in.
    pub fn along(self, reach: &[Option<Reach>], values: &[f64], drops: &mut Vec<usize>, out: &mut [f64]) -> bool {
        drops.clear();
        if self.counter {
            find_drops(values, drops);
        }
        let (mut next, mut any) = (0, false);
        for (reach, slot) in reach.iter().zip(out) {
            let Some(r) = reach else { continue };
            let first = values[r.span.low];
            let mut change = values[r.span.high - 1] - first;
            while drops.get(next).is_some_and(|d| *d <= r.span.low) {
                next += 1;
            }
            for drop in drops[next..].iter().take_while(|d| **d < r.span.high) {
                change += values[drop - 1];
            }
            let mut factor = r.factor;
            // Most counters are far from zero, which is told without a division.
            let far = r.sampled * first > r.to_start * change * 1.000_001;
            if self.counter && !far && change > 0.0 && first >= 0.0 {
                let to_zero = r.sampled * (first / change);
                if to_zero < r.to_start {
                    factor = self.factor(r, to_zero);
                }
            }
            *slot = change * factor;
            any = true;
        }
        any
    }
}

/// Values that are compared before the first of them that is less is looked for.
const STRIDE: usize = 64;

/// Where a counter is less than before. Most never are, so that many are compared in one go.
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
        let reach: Vec<_> = spans.iter().zip(windows).map(|(s, w)| change.reach(times, *s, *w)).collect();
        let mut out = vec![f64::NEG_INFINITY; windows.len()];
        let any = change.along(&reach, values, &mut vec![7], &mut out);
        assert_eq!(any, out.iter().any(|v| v.is_finite()));
        out.into_iter().map(|v| v.is_finite().then_some(v)).collect()
    }

    fn one(change: Change, times: &[i64], values: &[f64]) -> Option<f64> {
        along(change, times, values, &[(0, 60_000)])[0]
    }

    #[test]
    fn counters_are_stretched_but_never_below_zero() {
        // Starts 25 s after the window does, one interval being 10 s: half an interval at most, and 2 s to zero.
        let (times, values) = ([25_000, 35_000, 45_000, 55_000], [2.0, 12.0, 22.0, 32.0]);
        assert_eq!(one(INCREASE, &times, &values), Some(37.0));
        assert_eq!(one(DELTA, &times, &values), Some(40.0));
    }

    #[test]
    fn resets_are_counted_from_zero() {
        let (times, values) = ([0, 20_000, 40_000, 60_000], [10.0, 20.0, 5.0, 15.0]);
        assert_eq!((one(INCREASE, &times, &values), one(DELTA, &times, &values)), (Some(25.0), Some(5.0)));
        let w = Window { times: &times, values: &values, now: 60_000 };
        assert_eq!(irate(&w, &[]), Some(0.5));
        assert_eq!(one(RATE, &[0], &[1.0]), None);
    }

    #[test]
    fn each_window_counts_the_resets_within_it() {
        // Longer than a stride; drops at its end, at its begin, at neighbours and in the last pair.
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
                // Samples reach both ends of most windows: nothing is stretched.
                Some(got) if seen.len() == 10 => assert_eq!(got, change, "{start}..{end}"),
                Some(got) => assert!(got >= change),
            }
        }
    }
}
