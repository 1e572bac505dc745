//! Functions of one value that differ from Rust's own or take parameters.

use crate::eval::ABSENT;
use crate::number::{max, min};

/// `clamp(v, min, max)`: no samples if `max < min`.
pub(super) fn clamp(v: f64, p: &[f64]) -> f64 {
    let (low, high) = (p[0], p[1]);
    if high < low { ABSENT } else { max(low, min(high, v)) }
}

pub(super) fn clamp_max(v: f64, p: &[f64]) -> f64 {
    min(p[0], v)
}

pub(super) fn clamp_min(v: f64, p: &[f64]) -> f64 {
    max(p[0], v)
}

/// Rounds to the nearest multiple of the second argument (default 1), ties upwards.
pub(super) fn round(v: f64, p: &[f64]) -> f64 {
    let inverse = 1.0 / p.first().copied().unwrap_or(1.0);
    (v * inverse + 0.5).floor() / inverse
}

pub(super) fn sign(v: f64) -> f64 {
    if v < 0.0 {
        -1.0
    } else if v > 0.0 {
        1.0
    } else {
        v
    }
}

/// Rust's own squares its argument, so it overflows from 1e154 on and is inexact near 0.
pub(super) fn asinh(v: f64) -> f64 {
    let a = v.abs();
    let result = if a > TWO_POW_28 {
        a.ln() + std::f64::consts::LN_2
    } else if a > 2.0 {
        (2.0 * a + 1.0 / ((a * a + 1.0).sqrt() + a)).ln()
    } else if a < 1.0 / TWO_POW_28 {
        a
    } else {
        (a + a * a / (1.0 + (a * a + 1.0).sqrt())).ln_1p()
    };
    result.copysign(v)
}

pub(super) fn acosh(v: f64) -> f64 {
    if v < 1.0 || v.is_nan() {
        f64::NAN
    } else if v > TWO_POW_28 {
        v.ln() + std::f64::consts::LN_2
    } else if v > 2.0 {
        (2.0 * v - 1.0 / (v + (v * v - 1.0).sqrt())).ln()
    } else {
        let t = v - 1.0;
        (t + (2.0 * t + t * t).sqrt()).ln_1p()
    }
}

pub(super) fn atanh(v: f64) -> f64 {
    let a = v.abs();
    let result = if a > 1.0 || v.is_nan() {
        return f64::NAN;
    } else if a < 1.0 / TWO_POW_28 {
        a
    } else {
        0.5 * (2.0 * a / (1.0 - a)).ln_1p()
    };
    result.copysign(v)
}

const TWO_POW_28: f64 = (1_u64 << 28) as f64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_hyperbolics_are_exact_at_extremes() {
        for v in [1e-20, 1e-5, 0.3, 1.0, 2.5, 1e9, 1e200] {
            assert!((asinh(v) - asinh(-v).abs()).abs() == 0.0 && asinh(v) > 0.0);
        }
        assert!((asinh(1e200) - 461.210_165_779_359_3).abs() < 1e-9);
        assert!((atanh(0.5) - 0.549_306_144_334_054_8).abs() < 1e-15 && atanh(1.0).is_infinite());
        assert!((acosh(1.5) - 0.962_423_650_119_206_9).abs() < 1e-15 && acosh(0.5).is_nan());
    }

    #[test]
    fn rounding_goes_up_at_ties() {
        assert_eq!((round(2.5, &[]), round(-2.5, &[]), round(7.0, &[5.0])), (3.0, -2.0, 5.0));
    }
}
