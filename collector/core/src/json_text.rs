//! Writes numbers, times, strings and labels into JSON exactly as Prometheus does. The command-line client prints
//! values the same way.

use std::fmt::Write as _;

use fabriclens_model::Labels;

/// Integers below this are exact in an `f64`.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Writes the shortest text that parses to the same number: `1`, `0.1`, `1e-07`, `1e+21`, `+Inf`, `NaN`.
///
/// ```
/// let mut out = String::new();
/// fabriclens_core::json_text::push_value(&mut out, 1e-7);
/// assert_eq!(out, "1e-07");
/// ```
pub fn push_value(out: &mut String, v: f64) {
    if v.is_nan() {
        return out.push_str("NaN");
    }
    if v.is_infinite() {
        return out.push_str(if v > 0.0 { "+Inf" } else { "-Inf" });
    }
    // Whole numbers, as most counters are, format much faster as integers, to the same text.
    let whole = v as i64;
    if v.abs() < EXACT && whole as f64 == v && (whole != 0 || v.is_sign_positive()) {
        _ = write!(out, "{whole}");
        return;
    }
    let size = v.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        _ = write!(out, "{v}");
        return;
    }
    out.push_str(&fabriclens_promql::exponential(v));
}

/// Writes milliseconds as seconds, with three decimals if there is a fraction: `1.500`, `2`.
pub fn push_time(out: &mut String, ms: i64) {
    if ms < 0 {
        out.push('-');
    }
    let ms = ms.unsigned_abs();
    _ = write!(out, "{}", ms / 1000);
    if !ms.is_multiple_of(1000) {
        _ = write!(out, ".{:03}", ms % 1000);
    }
}

/// Writes a JSON string with its quotes.
pub fn push_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 => _ = write!(out, "\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Writes labels as a JSON object: `{"__name__":"up","job":"x"}`.
pub fn push_labels(out: &mut String, labels: &Labels) {
    out.push('{');
    for (i, (name, value)) in labels.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        push_text(out, name);
        out.push(':');
        push_text(out, value);
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_as_prometheus_writes_them() {
        for (v, want) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (123_456_789_012.0, "123456789012"),
            (-9_007_199_254_740_991.0, "-9007199254740991"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (0.000_001, "0.000001"),
            (1e-7, "1e-07"),
            (-2.5e-9, "-2.5e-09"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            let mut out = String::new();
            push_value(&mut out, v);
            assert_eq!(out, want);
        }
    }

    #[test]
    fn times_and_texts() {
        for (ms, want) in [(1_500, "1.500"), (2_000, "2"), (-1_001, "-1.001"), (7, "0.007"), (0, "0")] {
            let mut out = String::new();
            push_time(&mut out, ms);
            assert_eq!(out, want);
        }
        let mut out = String::new();
        push_text(&mut out, "a\"b\\c\n\u{1}ü");
        assert_eq!(out, r#""a\"b\\c\n\u0001ü""#);
    }
}
