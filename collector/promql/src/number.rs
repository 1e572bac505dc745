//! Numbers with Go's semantics: float formatting and parsing, and `min`/`max` that propagate NaN. Used where Rust's
//! own would differ from Prometheus.

use fabriclens_model::kahan;
use std::cmp::Ordering;

/// `strconv.FormatFloat(v, 'f', -1, 64)`: shortest decimal without exponent.
pub(crate) fn decimal(v: f64) -> String {
    if v.is_nan() {
        "NaN".into()
    } else if v.is_infinite() {
        if v > 0.0 { "+Inf".into() } else { "-Inf".into() }
    } else {
        format!("{v}")
    }
}

/// `%g` with the shortest digits: an exponent below 1e-4 and from 1e6 on.
pub fn general(v: f64) -> String {
    let a = v.abs();
    if v.is_finite() && a != 0.0 && !(1e-4..1e6).contains(&a) {
        return exponential(v);
    }
    decimal(v)
}

/// With an exponent as Go writes it: Rust writes 1e-7 and 1e21, Go writes a sign and at least two digits.
pub fn exponential(v: f64) -> String {
    let text = format!("{v:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |d| ('-', d));
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// Go's `math.Max`: +Inf if either is, else NaN if either is; 0 is more than -0.
pub(crate) fn max(a: f64, b: f64) -> f64 {
    if a == f64::INFINITY || b == f64::INFINITY {
        f64::INFINITY
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == 0.0 && b == 0.0 {
        if a.is_sign_negative() { b } else { a }
    } else if a > b {
        a
    } else {
        b
    }
}

/// Go's `math.Min`: the mirror image of [`max`].
pub(crate) fn min(a: f64, b: f64) -> f64 {
    -max(-a, -b)
}

/// Go's `strconv.ParseFloat` as far as label values go: decimal, hexadecimal, `Inf` and `NaN` in any case.
pub(crate) fn parse(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = unsigned.to_ascii_lowercase();
    if let Some(hex) = lower.strip_prefix("0x") {
        return parse_hex(hex).map(|v| if text.starts_with('-') { -v } else { v });
    }
    // Go accepts no sign in front of NaN.
    if lower == "nan" && unsigned.len() != text.len() {
        return None;
    }
    text.parse().ok()
}

fn parse_hex(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once('p')?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let mut value = 0.0;
    for c in whole.chars().chain(part.chars()) {
        value = value * 16.0 + f64::from(c.to_digit(16)?);
    }
    let exponent: i32 = exponent.parse().ok()?;
    let shift = i32::try_from(part.len()).ok()?.checked_mul(4)?;
    Some(value * f64::from(exponent.checked_sub(shift)?).exp2())
}

/// The mean of some values: their compensated sum divided by their number, or, where the sum would overflow, updated by
/// each value.
pub(crate) fn mean(values: &[f64]) -> f64 {
    let (mut sum, mut lost) = (values.first().copied().unwrap_or(f64::NAN), 0.0);
    let mut count = 1.0;
    let mut rest = values.iter().skip(1);
    for v in rest.by_ref() {
        count += 1.0;
        let (next, next_lost) = kahan(*v, sum, lost);
        if next.is_infinite() {
            (sum, lost) = (sum / (count - 1.0), lost / (count - 1.0));
            let mut update = |v: f64, count: f64| {
                let kept = (count - 1.0) / count;
                (sum, lost) = kahan(v / count, kept * sum, kept * lost);
            };
            update(*v, count);
            for v in rest {
                count += 1.0;
                update(*v, count);
            }
            return sum + lost;
        }
        (sum, lost) = (next, next_lost);
    }
    sum / count + lost / count
}

/// The order that Prometheus' quantiles use: NaN first.
fn nan_first(a: &f64, b: &f64) -> Ordering {
    // Numbers always compare, except NaN.
    a.partial_cmp(b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

/// The φ-quantile with linear interpolation; reorders `values`. NaN for none, ±Inf for φ outside `[0, 1]`.
pub(crate) fn quantile(q: f64, values: &mut [f64]) -> f64 {
    if values.is_empty() || q.is_nan() {
        return f64::NAN;
    }
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    let rank = q * (values.len() as f64 - 1.0);
    let lower = rank.floor().max(0.0) as usize;
    let weight = rank - rank.floor();
    // Only two positions of the sorted order are needed.
    let (_, low, above) = values.select_nth_unstable_by(lower, nan_first);
    let low = *low;
    let high = above.iter().copied().min_by(nan_first).unwrap_or(low);
    low * (1.0 - weight) + high * weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_and_parses_like_go() {
        let general: Vec<String> = [1.5, 1e21, 1e-5, 1234567.0, 123456.0, f64::INFINITY, -0.5, 0.0].map(general).into();
        assert_eq!(general, ["1.5", "1e+21", "1e-05", "1.234567e+06", "123456", "+Inf", "-0.5", "0"]);
        assert_eq!(decimal(1e-7), "0.0000001");
        let parsed: Vec<Option<f64>> = ["+Inf", "-inf", "0x1p-2", "1e3", "x", "", "-0x1.8p1"].map(parse).into();
        let want = [Some(f64::INFINITY), Some(f64::NEG_INFINITY), Some(0.25), Some(1000.0), None, None, Some(-3.0)];
        assert_eq!(parsed, want);
    }

    #[test]
    fn nan_passes_through() {
        assert!(max(f64::NAN, 1.0).is_nan() && min(1.0, f64::NAN).is_nan());
        assert_eq!(
            (max(f64::NAN, f64::INFINITY), min(f64::NEG_INFINITY, f64::NAN)),
            (f64::INFINITY, f64::NEG_INFINITY)
        );
        assert!(min(0.0, -0.0).is_sign_negative() && max(-0.0, 0.0).is_sign_positive());
        assert_eq!(quantile(0.5, &mut [3.0, f64::NAN, 1.0]), 1.0);
    }

    #[test]
    fn quantiles_interpolate_linearly() {
        let values: Vec<f64> = (0..101).map(|i| f64::from(i * 37 % 101)).collect();
        for q in [0.0, 0.005, 0.25, 0.5, 0.995, 1.0] {
            assert!((quantile(q, &mut values.clone()) - 100.0 * q).abs() < 1e-12, "{q}");
        }
        let mut odd = [f64::INFINITY, f64::NAN, 1.0, f64::NEG_INFINITY, f64::NAN];
        assert!(quantile(0.25, &mut odd).is_nan());
        assert_eq!(quantile(0.5, &mut odd), f64::NEG_INFINITY);
        assert!(quantile(0.3, &mut [7.0]) == 7.0 && quantile(1.0, &mut []).is_nan());
    }
}
