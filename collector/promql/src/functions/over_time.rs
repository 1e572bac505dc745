//! The `*_over_time` functions, `changes` and `resets`: statistics of the values in a window.

use crate::eval::{Context, Window};
use crate::number;
use crate::plan::Expr;
use fabriclens_model::kahan;

pub(super) fn sum(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    let (sum, c) = w.values.iter().fold((0.0, 0.0), |(sum, c), v| kahan(*v, sum, c));
    Some(sum + c)
}

pub(super) fn avg(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    Some(number::mean(w.values))
}

pub(super) fn min(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    w.values.iter().copied().reduce(|m, v| if v < m || m.is_nan() { v } else { m })
}

pub(super) fn max(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    w.values.iter().copied().reduce(|m, v| if v > m || m.is_nan() { v } else { m })
}

pub(super) fn stddev(w: &Window<'_>, p: &[f64]) -> Option<f64> {
    stdvar(w, p).map(f64::sqrt)
}

/// Population variance.
pub(super) fn stdvar(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    let (mut mean, mut mean_c, mut aux, mut aux_c, mut count) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for v in w.values {
        count += 1.0;
        let delta = v - (mean + mean_c);
        (mean, mean_c) = kahan(delta / count, mean, mean_c);
        (aux, aux_c) = kahan(delta * (v - (mean + mean_c)), aux, aux_c);
    }
    Some((aux + aux_c) / count)
}

pub(super) fn quantile(w: &Window<'_>, p: &[f64]) -> Option<f64> {
    Some(number::quantile(p[0], &mut w.values.to_vec()))
}

pub(super) fn check_quantile(p: &[f64], args: &[Expr], cx: &mut Context<'_>) -> Result<(), String> {
    if !(0.0..=1.0).contains(&p[0]) {
        cx.warn_quantile(p[0], &args[0]);
    }
    Ok(())
}

/// The time of the last of the lowest samples, seconds.
pub(super) fn time_of_min(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    time_of(w, |v, best| v <= best || best.is_nan())
}

/// The time of the last of the highest samples, seconds.
pub(super) fn time_of_max(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    time_of(w, |v, best| v >= best || best.is_nan())
}

fn time_of(w: &Window<'_>, better: impl Fn(f64, f64) -> bool) -> Option<f64> {
    let mut best = 0;
    for (at, v) in w.values.iter().enumerate().skip(1) {
        if better(*v, w.values[best]) {
            best = at;
        }
    }
    w.times.get(best).map(|t| *t as f64 / 1000.0)
}

/// Median absolute deviation.
pub(super) fn mad(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    let mut values = w.values.to_vec();
    let median = number::quantile(0.5, &mut values);
    for v in &mut values {
        *v = (*v - median).abs();
    }
    Some(number::quantile(0.5, &mut values))
}

#[expect(clippy::float_cmp, reason = "a change is any difference")]
pub(super) fn changes(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    let changed = w.values.windows(2).filter(|p| p[0] != p[1] && !(p[0].is_nan() && p[1].is_nan()));
    Some(changed.count() as f64)
}

pub(super) fn resets(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    Some(w.values.windows(2).filter(|p| p[1] < p[0]).count() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(values: &[f64], f: fn(&Window<'_>, &[f64]) -> Option<f64>) -> f64 {
        let times: Vec<i64> = (0..values.len() as i64).collect();
        f(&Window { times: &times, values, histograms: &[], now: 100 }, &[]).unwrap()
    }

    #[test]
    fn sums_are_compensated_and_means_do_not_overflow() {
        assert_eq!(with(&[1e100, 1.0, -1e100], sum), 1.0);
        assert_eq!(with(&[f64::MAX, f64::MAX], avg), f64::MAX);
        assert_eq!(with(&[f64::INFINITY, 1.0], avg), f64::INFINITY);
        assert!(with(&[f64::INFINITY, f64::NEG_INFINITY], avg).is_nan());
        assert_eq!(with(&[4.0, 6.0, 2.0, 1.0, 999.0, 1.0, 2.0], mad), 1.0);
        assert_eq!(with(&[1.0, f64::NAN, f64::NAN, 2.0, 1.0], changes), 3.0);
    }
}
