//! Linear regression and smoothing: `deriv`, `predict_linear`, `double_exponential_smoothing`.

use crate::eval::{Context, Window};
use crate::plan::Expr;
use fabriclens_model::kahan;

pub(super) fn deriv(w: &Window<'_>, _: &[f64]) -> Option<f64> {
    // Any origin near the samples keeps the sums small.
    line(w, w.times[0]).map(|(slope, _)| slope)
}

pub(super) fn predict(w: &Window<'_>, p: &[f64]) -> Option<f64> {
    line(w, w.now).map(|(slope, intercept)| slope * p[0] + intercept)
}

/// Least squares: slope per second and value at `origin` (milliseconds); needs two samples.
fn line(w: &Window<'_>, origin: i64) -> Option<(f64, f64)> {
    let first = *w.values.first()?;
    if w.values.len() < 2 {
        return None;
    }
    #[expect(clippy::float_cmp, reason = "a constant series has slope 0 exactly, which the sums might miss")]
    if w.values.iter().all(|v| *v == first) {
        return Some(if first.is_infinite() { (f64::NAN, f64::NAN) } else { (0.0, first) });
    }
    let n = w.values.len() as f64;
    let [mut x, mut y, mut xy, mut xx] = [(0.0, 0.0); 4];
    for (t, v) in w.times.iter().zip(w.values) {
        let at = (t - origin) as f64 / 1000.0;
        x = kahan(at, x.0, x.1);
        y = kahan(*v, y.0, y.1);
        xy = kahan(at * v, xy.0, xy.1);
        xx = kahan(at * at, xx.0, xx.1);
    }
    let [x, y, xy, xx] = [x, y, xy, xx].map(|(sum, c)| sum + c);
    let covariance = xy - x * y / n;
    let variance = xx - x * x / n;
    let slope = covariance / variance;
    Some((slope, y / n - slope * x / n))
}

/// Double exponential smoothing with the factors `p[0]` (level) and `p[1]` (trend).
pub(super) fn smoothed(w: &Window<'_>, p: &[f64]) -> Option<f64> {
    let (smoothing, trending) = (p[0], p[1]);
    if w.values.len() < 2 {
        return None;
    }
    let mut before = 0.0;
    let mut level = w.values[0];
    let mut trend = w.values[1] - w.values[0];
    for (i, v) in w.values.iter().enumerate().skip(1) {
        if i > 1 {
            trend = trending * (level - before) + (1.0 - trending) * trend;
        }
        let next = smoothing * v + (1.0 - smoothing) * (level + trend);
        (before, level) = (level, next);
    }
    Some(level)
}

pub(super) fn check_factors(p: &[f64], _: &[Expr], _: &mut Context<'_>) -> Result<(), String> {
    let names = [("sf", "smoothing"), ("tf", "trend")];
    for (v, (short, long)) in p.iter().zip(names) {
        if *v <= 0.0 || *v >= 1.0 {
            return Err(format!("invalid {long} factor. Expected: 0 < {short} < 1, got: {v:.6}"));
        }
    }
    Ok(())
}
