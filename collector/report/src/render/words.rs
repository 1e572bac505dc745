//! Formats numbers and times for people.

use crate::model::{Figure, Unit};
use fabriclens_model::CivilDate;

/// Text for a missing number.
pub(crate) const NONE: &str = "not measured";

/// Scales to a unit prefix: `1.23 TB`.
fn scaled(value: f64, steps: &[&str], by: f64) -> String {
    let mut value = value;
    let mut unit = steps.first().copied().unwrap_or_default();
    for next in &steps[1..] {
        if value.abs() < by * 0.9995 {
            break;
        }
        value /= by;
        unit = next;
    }
    let digits = match value.abs() {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}").trim_end().to_owned()
}

/// Formats a number with its unit.
pub(crate) fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => scaled(value, &["B", "kB", "MB", "GB", "TB", "PB", "EB"], 1000.0),
        Unit::BytesPerSecond => scaled(value * 8.0, &["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s", "Pb/s"], 1000.0),
        Unit::Seconds if value == 0.0 => "0 s".into(),
        Unit::Seconds if value >= 1.0 => duration(value),
        Unit::Seconds => scaled(value * 1e6, &["µs", "ms", "s"], 1000.0),
        Unit::Ratio => percent(value),
        Unit::Count if value < 1e6 => grouped(value.round()),
        Unit::Count => scaled(value, &["", "k", "M", "G", "T"], 1000.0),
        Unit::CountPerSecond => format!("{}/s", scaled(value, &["", "k", "M", "G"], 1000.0)),
    }
}

/// Formats a fraction as a percentage.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        p if p.abs() < 0.01 => "< 0.01 %".into(),
        p if p.abs() < 1.0 => format!("{p:.2} %"),
        p if (p - 100.0).abs() < 0.05 => "100 %".into(),
        p => format!("{p:.1} %"),
    }
}

/// Formats seconds as `3 h 12 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match seconds {
        s if s < 10.0 && s.fract() > 0.05 => format!("{s:.1} s"),
        s if s < 60.0 => format!("{s:.0} s"),
        _ if whole < 3600 => two(whole / 60, "min", whole % 60, "s"),
        _ if whole < 86_400 => two(whole / 3600, "h", whole % 3600 / 60, "min"),
        _ => two(whole / 86_400, "d", whole % 86_400 / 3600, "h"),
    }
}

/// Two units, without the second one if it is zero.
fn two(first: u64, of: &str, second: u64, than: &str) -> String {
    if second == 0 { format!("{first} {of}") } else { format!("{first} {of} {second} {than}") }
}

/// Formats bounds in seconds as `between 15 s and 20 s`, `at most 20 s` or `20 s`.
pub(crate) fn between(least: Option<f64>, most: f64) -> String {
    let upper = value(most, Unit::Seconds);
    match least.map(|least| value(least, Unit::Seconds)) {
        None => format!("at most {upper}"),
        Some(lower) if lower == upper => upper,
        Some(lower) => format!("between {lower} and {upper}"),
    }
}

/// Groups digits by thousands: `12 345`.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (n, c) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n) % 3 == 0 && digits.as_bytes()[n - 1].is_ascii_digit() {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    out
}

/// Formats all parts with their grades.
pub(crate) fn of_figure(figure: &Figure) -> String {
    if figure.parts.is_empty() {
        return NONE.to_owned();
    }
    let part = |p: &crate::model::Part| format!("{} ({})", value(p.value, figure.unit), p.grade.text());
    figure.parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// Formats Unix nanoseconds as `2026-01-31 12:00:00 UTC`.
pub(crate) fn time(ns: i64) -> String {
    let (date, second) = split(ns);
    format!("{date} {:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60)
}

/// Formats Unix nanoseconds as `12:00`, or with `seconds` as `12:00:00`.
pub(crate) fn clock(ns: i64, seconds: bool) -> String {
    let (_, second) = split(ns);
    let short = format!("{:02}:{:02}", second / 3600, second / 60 % 60);
    if seconds { format!("{short}:{:02}", second % 60) } else { short }
}

/// Formats Unix nanoseconds as `01-31`.
pub(crate) fn day(ns: i64) -> String {
    split(ns).0[5..].to_owned()
}

/// Date and second of the day.
fn split(ns: i64) -> (String, i64) {
    let seconds = ns.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let CivilDate { year, month, day } = CivilDate::of(days);
    (format!("{year:04}-{month:02}-{day:02}"), second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_prefixes_and_units() {
        let of = |v, unit| value(v, unit);
        assert_eq!(of(1.234e12, Unit::Bytes), "1.23 TB");
        assert_eq!(of(50e9, Unit::BytesPerSecond), "400 Gb/s");
        assert_eq!([of(0.0, Unit::Bytes), of(999.9, Unit::Bytes), of(0.0, Unit::Count)], ["0 B", "1.00 kB", "0"]);
        assert_eq!([of(3725.0, Unit::Seconds), of(0.0042, Unit::Seconds)], ["1 h 2 min", "4.20 ms"]);
        assert_eq!(
            [of(3600.0, Unit::Seconds), of(119.6, Unit::Seconds), of(0.0, Unit::Seconds)],
            ["1 h", "2 min", "0 s"]
        );
        assert_eq!([of(12_345.0, Unit::Count), of(0.053, Unit::Ratio)], ["12\u{202f}345", "5.3 %"]);
    }

    #[test]
    fn times_are_calendar_dates() {
        assert_eq!(time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(time(1_709_210_096_000_000_000), "2024-02-29 12:34:56 UTC");
        assert_eq!(
            (clock(1_709_210_096_000_000_000, false), day(1_709_210_096_000_000_000)),
            ("12:34".into(), "02-29".into())
        );
    }
}
