//! Formats numbers of a comparison for people.

use std::time::Duration;

use serde::Serialize;

use fabriclens_base::duration;

/// Unit of a compared number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Unit {
    /// Bytes.
    #[serde(rename = "By")]
    Bytes,
    /// Bytes per second.
    #[serde(rename = "By/s")]
    BytesPerSecond,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// A fraction of one.
    #[serde(rename = "1")]
    Ratio,
    /// Events of one port (or host) in an hour.
    #[serde(rename = "{count}/h")]
    CountPerHour,
}

/// Formats a number with its unit; rates in bits per second, as line rates are known.
pub(super) fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => scaled(value, &["B", "kB", "MB", "GB", "TB", "PB", "EB"]),
        Unit::BytesPerSecond => scaled(value * 8.0, &["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"]),
        Unit::Seconds => seconds(value),
        Unit::Ratio => percent(value),
        Unit::CountPerHour => format!("{}/h", scaled(value, &["", "k", "M", "G", "T"])),
    }
}

/// Formats a fraction as a percentage with one decimal.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        p if p.abs() < 0.1 => "< 0.1 %".to_owned(),
        p => format!("{p:.1} %"),
    }
}

/// Formats seconds: `4.2 s`, `1h5m`.
pub(super) fn seconds(value: f64) -> String {
    if value < 60.0 {
        let text = format!("{value:.1}");
        return format!("{} s", text.trim_end_matches(".0"));
    }
    duration::format(Duration::from_secs(value.round() as u64))
}

/// Formats a relative change: `+12.5 %`, `3.2 times`.
pub(super) fn change(share: f64) -> String {
    match share {
        s if s.abs() < 0.001 => "equal".to_owned(),
        s if s > 2.0 => format!("{:.1} times", s + 1.0),
        s => format!("{s:+.1} %", s = s * 100.0),
    }
}

/// Scales to a prefix, with three digits: `1.23 TB`.
fn scaled(value: f64, steps: &[&str]) -> String {
    let (mut value, mut unit) = (value, steps.first().copied().unwrap_or_default());
    for next in steps.iter().skip(1) {
        if value.abs() < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    let digits = match value.abs() {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_units() {
        for (number, unit, expected) in [
            (1.234e12, Unit::Bytes, "1.23 TB"),
            (50e9, Unit::BytesPerSecond, "400 Gb/s"),
            (0.0, Unit::Bytes, "0 B"),
            (4.0, Unit::Seconds, "4 s"),
            (0.25, Unit::Seconds, "0.2 s"),
            (3900.0, Unit::Seconds, "1h5m"),
            (0.0004, Unit::Ratio, "< 0.1 %"),
            (0.123, Unit::Ratio, "12.3 %"),
            (12_345.0, Unit::CountPerHour, "12.3 k/h"),
            (0.125, Unit::CountPerHour, "0.12/h"),
        ] {
            assert_eq!(value(number, unit), expected);
        }
    }

    #[test]
    fn changes_are_percent_or_times() {
        assert_eq!([0.0004, 0.125, -0.5, 2.5].map(change), ["equal", "+12.5 %", "-50.0 %", "3.5 times"]);
    }
}
