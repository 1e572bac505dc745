//! Durations as people write them (`15s`, `1.5s`, `1h30m`, `100y`) and as Prometheus defines them.

use std::time::Duration;

/// A unit and its length in nanoseconds, largest first: the order in which Prometheus requires and prints them.
const UNITS: &[(&str, u64)] = &[
    ("y", 365 * DAY),
    ("w", 7 * DAY),
    ("d", DAY),
    ("h", 3600 * SECOND),
    ("m", 60 * SECOND),
    ("s", SECOND),
    ("ms", 1_000_000),
    ("us", 1000),
    ("ns", 1),
];
const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
/// Prometheus stops at milliseconds and counts them in an `i64`.
const MILLISECOND: u64 = 1_000_000;
const MAX: u128 = i64::MAX as u128 * MILLISECOND as u128;

/// The text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a duration; write numbers with units from large to small, for instance 500ms, 1.5s, 1h30m or 100y"
)]
pub struct DurationError(String);

/// Parses a duration of a configuration or a flag: numbers with the units `y w d h m s ms us ns`, from large to small.
/// The last number may have a fraction, spaces around numbers are ignored, `0` needs no unit.
///
/// # Errors
/// [`DurationError`] for anything else, negative durations and those of 2^63 ms or more.
///
/// ```
/// use fabriclens_base::duration::parse;
/// use std::time::Duration;
/// assert_eq!(parse("1h30m"), Ok(Duration::from_secs(5400)));
/// assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1500)));
/// assert!(parse("15").is_err(), "no unit");
/// ```
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let error = || DurationError(text.to_owned());
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut units = UNITS;
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
        let (number, tail) = rest.split_at(digits);
        let tail = tail.trim_start();
        let letters = tail.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let at = units.iter().position(|(name, _)| *name == unit).ok_or_else(error)?;
        rest = tail.trim_start();
        let is_last = rest.is_empty();
        total += nanoseconds(number, units[at].1).filter(|_| is_last || !number.contains('.')).ok_or_else(error)?;
        units = &units[at + 1..];
    }
    if text.trim().is_empty() || total > MAX {
        return Err(error());
    }
    let (seconds, fraction) = (total / u128::from(SECOND), total % u128::from(SECOND));
    // Both fit: the total is at most `MAX`.
    Ok(Duration::new(seconds as u64, fraction as u32))
}

/// A decimal number times a unit; `None` if it is no number or beyond [`MAX`].
fn nanoseconds(number: &str, unit: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let whole = u128::from(whole.parse::<u64>().ok()?) * u128::from(unit);
    // Nine digits are a billionth of the unit; what follows them does not count.
    let billionths: u64 = format!("{fraction:0<9}")[..9].parse().ok()?;
    let total = whole + u128::from(billionths) * u128::from(unit) / 1_000_000_000;
    (total <= MAX).then_some(total)
}

/// Parses Prometheus' own syntax, for API parameters: like [`parse`], but without fractions, spaces, `us` and `ns`.
///
/// # Errors
/// [`DurationError`] for anything else.
pub fn parse_prometheus(text: &str) -> Result<Duration, DurationError> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase());
    let duration = parse(text)?;
    let is_fine_unit = text.ends_with("us") || text.ends_with("ns");
    if plain && !is_fine_unit { Ok(duration) } else { Err(DurationError(text.to_owned())) }
}

/// Writes the shortest such text, in whole milliseconds: `1h30m`, `15s`, `0s`.
///
/// ```
/// assert_eq!(fabriclens_base::duration::format(std::time::Duration::from_secs(90)), "1m30s");
/// ```
pub fn format(duration: Duration) -> String {
    let mut left = duration.as_millis() * u128::from(MILLISECOND);
    if left == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    for (unit, size) in UNITS {
        // Years and weeks only when exact: `30d` stays `30d`, as Prometheus prints it.
        let only_exact = matches!(*unit, "y" | "w");
        let size = u128::from(*size);
        if left >= size && (!only_exact || left.is_multiple_of(size)) {
            out.push_str(&format!("{}{unit}", left / size));
            left %= size;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_durations_round_trip() {
        for (text, ms, printed) in [
            ("15s", 15_000, "15s"),
            ("1h30m", 5_400_000, "1h30m"),
            ("90s", 90_000, "1m30s"),
            ("100y", 100 * 365 * 86_400_000, "100y"),
            ("30d", 30 * 86_400_000, "30d"),
            ("2w", 14 * 86_400_000, "2w"),
            ("1s500ms", 1500, "1s500ms"),
            ("0", 0, "0s"),
        ] {
            for parse in [parse, parse_prometheus] {
                let duration = parse(text).unwrap();
                assert_eq!((duration.as_millis(), format(duration).as_str()), (ms, printed), "{text}");
            }
        }
    }

    #[test]
    fn configuration_takes_fractions_spaces_and_fine_units() {
        for (text, ns) in [
            ("100ms", 100_000_000),
            (" 1.5 s ", 1_500_000_000),
            ("1h 0.5m", 3_630_000_000_000),
            ("20us", 20_000),
            ("7ns", 7),
            ("0.1us", 100),
        ] {
            assert_eq!(parse(text).map(|d| d.as_nanos()), Ok(ns), "{text}");
            assert!(text == "100ms" || parse_prometheus(text).is_err(), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let bad = ["", "15", "s", "1m1h", "1s1s", "-1s", "1.5h30m", "99999999999999999y", "1S", "1 week", "1.s", ".5s"];
        for text in bad.into_iter().chain(["5", "ms", "1e9s", "nans", "1ss", "١s", "1..5s"]) {
            assert!(parse(text).is_err() && parse_prometheus(text).is_err(), "{text}");
        }
        assert!(parse("5").unwrap_err().to_string().contains("1h30m"));
    }
}
