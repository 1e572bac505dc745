//! Merges the copies of a series from two collectors. An agent that sends to both produces equal times; one that failed
//! over gives each a part; series that each collector computes differ in their times.

use fabriclens_model::{HistogramSeries, Labels, SharedSeries};

/// As a share of the usual sample distance: a sample nearer than this to one of the other copy adds nothing.
const NEAR_FRACTION: f64 = 0.75;

/// Merges all series; samples of the first win, and those of the second fill its gaps.
pub(super) fn join(own: Vec<SharedSeries>, other: Vec<SharedSeries>) -> Vec<SharedSeries> {
    merged(own, other, |series| &series.labels, fill)
}

/// The same of histograms.
pub(super) fn join_histograms(own: Vec<HistogramSeries>, other: Vec<HistogramSeries>) -> Vec<HistogramSeries> {
    merged(own, other, |series| &series.labels, fill_histograms)
}

/// Merges two lists that are sorted by labels.
fn merged<T>(own: Vec<T>, other: Vec<T>, labels: impl Fn(&T) -> &Labels, fill: impl Fn(T, T) -> T) -> Vec<T> {
    let (mut own, mut other) = (own.into_iter().peekable(), other.into_iter().peekable());
    let mut all = Vec::with_capacity(own.len().max(other.len()));
    loop {
        let order = match (own.peek(), other.peek()) {
            (Some(a), Some(b)) => labels(a).cmp(labels(b)),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return all,
        };
        let a = if order.is_le() { own.next() } else { None };
        let b = if order.is_ge() { other.next() } else { None };
        match (a, b) {
            (Some(a), Some(b)) => all.push(fill(a, b)),
            (a, b) => all.extend(a.or(b)),
        }
    }
}

/// Fills the gaps of a series from its copy.
fn fill(own: SharedSeries, other: SharedSeries) -> SharedSeries {
    match filled((&own.times, &own.values), (&other.times, &other.values)) {
        Some((times, values)) => SharedSeries { labels: own.labels, times: times.into(), values },
        None => own,
    }
}

fn fill_histograms(own: HistogramSeries, other: HistogramSeries) -> HistogramSeries {
    match filled((&own.times, &own.values), (&other.times, &other.values)) {
        Some((times, values)) => HistogramSeries { labels: own.labels, times, values },
        None => own,
    }
}

/// Times and values of the own copy, and of the other where that has gaps; times of both ascend. `None` if the other adds nothing.
fn filled<T: Clone>(own: (&[i64], &[T]), other: (&[i64], &[T])) -> Option<(Vec<i64>, Vec<T>)> {
    // Almost always: both received the same samples.
    if own.0 == other.0 {
        return None;
    }
    let usual = spacing(own.0).or_else(|| spacing(other.0)).unwrap_or(0);
    let near = ((usual as f64 * NEAR_FRACTION) as i64).max(1);
    let (mut times, mut values) = (Vec::new(), Vec::new());
    let mut others = other.0.iter().zip(other.1).peekable();
    let mut add = |times: &mut Vec<i64>, values: &mut Vec<T>, until: i64| {
        while let Some((time, value)) = others.next_if(|(time, _)| **time < until) {
            if times.last().is_none_or(|before| time - before >= near) && until - time >= near {
                times.push(*time);
                values.push(value.clone());
            }
        }
    };
    for (time, value) in own.0.iter().zip(own.1) {
        add(&mut times, &mut values, *time);
        times.push(*time);
        values.push(value.clone());
    }
    add(&mut times, &mut values, i64::MAX);
    (times.len() > own.0.len()).then_some((times, values))
}

/// Median distance of neighboring samples, estimated from some of them.
fn spacing(times: &[i64]) -> Option<i64> {
    let step = (times.len() / 64).max(1);
    let mut all: Vec<i64> = times.windows(2).step_by(step).map(|w| w[1] - w[0]).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::{Histogram, Series};
    use std::sync::Arc;

    fn series(name: &str, times: impl IntoIterator<Item = i64>, value: f64) -> Series {
        let times: Vec<i64> = times.into_iter().collect();
        Series { labels: Labels::new([("__name__", name)]), values: vec![value; times.len()], times }
    }

    fn joined(own: Vec<Series>, other: Vec<Series>) -> Vec<(String, Vec<i64>, Vec<f64>)> {
        let shared = |all: Vec<Series>| all.into_iter().map(Into::into).collect();
        let all = join(shared(own), shared(other));
        all.into_iter().map(|s| (s.labels.metric().to_owned(), s.times.to_vec(), s.values)).collect()
    }

    #[test]
    fn gaps_are_filled_without_duplicates() {
        let second = |from: i64, to: i64| (from..to).map(|s| s * 1000);
        // Both received everything; one was down for a while.
        let own = series("m", second(0, 10).chain(second(20, 30)), 1.0);
        let got = joined(vec![own.clone()], vec![series("m", second(0, 30), 2.0)]);
        assert_eq!(got[0].1, second(0, 30).collect::<Vec<_>>());
        assert_eq!(got[0].2.iter().filter(|v| **v == 2.0).count(), 10);
        assert_eq!(joined(vec![series("m", second(0, 30), 2.0)], vec![own])[0].2, vec![2.0; 30]);
        // Each has a part, and both received the last request before the failover.
        let got = joined(vec![series("m", second(10, 20), 1.0)], vec![series("m", second(0, 11), 2.0)]);
        assert_eq!(got[0].1, second(0, 20).collect::<Vec<_>>());
    }

    #[test]
    fn different_times_are_not_interleaved() {
        let at = |shift: i64| (0..10).map(move |s| s * 1000 + shift);
        let got = joined(vec![series("m", at(0), 1.0)], vec![series("m", at(400), 2.0)]);
        assert_eq!(got[0].2, vec![1.0; 10]);
        // The gap is filled from the other copy, not too near its ends.
        let own = series("m", at(0).filter(|t| !(3000..7000).contains(t)), 1.0);
        assert_eq!(
            joined(vec![own], vec![series("m", at(400), 2.0)])[0].1,
            [0, 1000, 2000, 3400, 4400, 5400, 7000, 8000, 9000]
        );
        // One sample, as in instant queries: the newest of the two, unless they are near.
        assert_eq!(joined(vec![series("m", [5000], 1.0)], vec![series("m", at(100), 2.0)])[0].1.last(), Some(&9100));
    }

    #[test]
    fn gaps_of_histograms_are_filled_too() {
        let (a, b) = (Arc::new(Histogram::stale()), Arc::new(Histogram::stale()));
        let series = |times: &[i64], value: &Arc<Histogram>| HistogramSeries {
            labels: Labels::new([("__name__", "h")]),
            times: times.to_vec(),
            values: vec![value.clone(); times.len()],
        };
        let got = join_histograms(vec![series(&[1000, 2000, 3000, 5000], &a)], vec![series(&[3000, 4000, 5000], &b)]);
        assert_eq!(got[0].times, [1000, 2000, 3000, 4000, 5000]);
        assert!(got[0].values.iter().zip([&a, &a, &a, &b, &a]).all(|(got, want)| Arc::ptr_eq(got, want)));
    }

    #[test]
    fn unmatched_series_stay_in_order() {
        let (a, b, c) = (|| series("a", [1], 1.0), || series("b", [1], 1.0), || series("c", [1], 1.0));
        let names = |got: Vec<(String, Vec<i64>, Vec<f64>)>| got.into_iter().map(|s| s.0).collect::<String>();
        assert_eq!(names(joined(vec![a(), c()], vec![b(), c()])), "abc");
        assert_eq!(names(joined(vec![], vec![b()])), "b");
    }
}
