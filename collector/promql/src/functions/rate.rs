//! Change of a series over its window: `rate`, `increase`, `delta`, `irate`, `idelta`.

use crate::eval::Window;

pub(super) fn rate(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    extrapolated(w, true, true)
}

pub(super) fn increase(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    extrapolated(w, true, false)
}

pub(super) fn delta(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    extrapolated(w, false, false)
}

pub(super) fn irate(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    last_two(w, true)
}

pub(super) fn idelta(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    last_two(w, false)
}

/// Difference of last and first sample, stretched to the whole range where the samples nearly reach its ends, else
/// by half a sampling interval; never to where a counter would have been negative.
fn extrapolated(w: &Window<'_>, counter: bool, per_second: bool) -> Option<f64> {
    let last = w.values.len() - 1;
    if last == 0 {
        return None;
    }
    let mut change = w.values[last] - w.values[0];
    if counter {
        for pair in w.values.windows(2) {
            if pair[1] < pair[0] {
                change += pair[0];
            }
        }
    }
    let seconds = |ms: i64| ms as f64 / 1000.0;
    let mut to_start = seconds(w.times[0] - w.start);
    let mut to_end = seconds(w.end - w.times[last]);
    let sampled = seconds(w.times[last] - w.times[0]);
    let interval = sampled / last as f64;
    let near = interval * 1.1;

    if to_start >= near {
        to_start = interval / 2.0;
    }
    if counter && change > 0.0 && w.values[0] >= 0.0 {
        let to_zero = sampled * (w.values[0] / change);
        if to_zero < to_start {
            to_start = to_zero;
        }
    }
    if to_end >= near {
        to_end = interval / 2.0;
    }
    let mut factor = (sampled + to_start + to_end) / sampled;
    if per_second {
        factor /= seconds(w.end - w.start);
    }
    Some(change * factor)
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

    fn window<'a>(times: &'a [i64], values: &'a [f64]) -> Window<'a> {
        Window { times, values, start: 0, end: 60_000, now: 60_000 }
    }

    #[test]
    fn counters_are_stretched_but_never_below_zero() {
        // Starts 25 s after the window does, one interval being 10 s: half an interval at most, and 2 s to zero.
        let (times, values) = ([25_000, 35_000, 45_000, 55_000], [2.0, 12.0, 22.0, 32.0]);
        assert_eq!(increase(&window(&times, &values), &[]), Some(37.0));
        assert_eq!(delta(&window(&times, &values), &[]), Some(40.0));
    }

    #[test]
    fn resets_are_counted_from_zero() {
        let w = window(&[0, 20_000, 40_000, 60_000], &[10.0, 20.0, 5.0, 15.0]);
        assert_eq!((increase(&w, &[]), irate(&w, &[])), (Some(25.0), Some(0.5)));
        assert_eq!(rate(&window(&[0], &[1.0]), &[]), None);
    }
}
