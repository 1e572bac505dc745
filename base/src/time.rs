//! Points in time: the wall clock, and RFC 3339 as APIs and schedulers write it.

use jiff::{Timestamp, civil, tz::TimeZone};
use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in Unix nanoseconds; 0 while the clock stands before 1970.
pub fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

/// Now, in Unix milliseconds; 0 while the clock stands before 1970.
pub fn now_ms() -> i64 {
    now_ns() / 1_000_000
}

/// Parses RFC 3339 (`2023-11-14T22:13:20.5+01:00`) into Unix nanoseconds; `None` for anything else.
///
/// ```
/// assert_eq!(fabriclens_base::time::parse_rfc3339("1970-01-01T00:00:01Z"), Some(1_000_000_000));
/// ```
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let time: Timestamp = date_and_time(text)?.parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok()
}

/// The same in Unix milliseconds, for the years from 0 to 9999.
pub fn parse_rfc3339_ms(text: &str) -> Option<i64> {
    let time: Timestamp = date_and_time(text)?.parse().ok()?;
    i64::try_from(time.as_nanosecond().div_euclid(1_000_000)).ok()
}

/// The same, where a text without a zone (`2026-01-31T12:00:00`, as Slurm prints it) is UTC.
pub fn parse_utc(text: &str) -> Option<i64> {
    parse_rfc3339(text).or_else(|| {
        let time: civil::DateTime = date_and_time(text)?.parse().ok()?;
        i64::try_from(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_nanosecond()).ok()
    })
}

/// The text, if it has date, `T`, hours, minutes and seconds. The library takes shorter forms, spaces and leap seconds too.
fn date_and_time(text: &str) -> Option<&str> {
    let byte = |at: usize| text.as_bytes().get(at).copied();
    let separated = byte(4) == Some(b'-') && matches!(byte(10), Some(b'T' | b't')) && byte(16) == Some(b':');
    let seconds = text.get(17..19)?;
    (separated && seconds < "60").then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn rfc3339_with_zone_and_fraction() {
        for (text, ns) in [
            ("2023-11-14T22:13:20Z", 1_700_000_000 * SECOND),
            ("2023-11-14T23:13:20.5+01:00", 1_700_000_000 * SECOND + SECOND / 2),
            ("2023-11-14t22:13:20.123456789z", 1_700_000_000_123_456_789),
            ("1969-12-31T23:59:59Z", -SECOND),
            ("2024-02-29T00:00:00-00:30", 1_709_166_600 * SECOND),
            ("2026-11-20T10:00:01.25+02:00", 1_795_161_601 * SECOND + SECOND / 4),
        ] {
            assert_eq!(parse_rfc3339(text), Some(ns), "{text}");
            assert_eq!(parse_utc(text), Some(ns), "{text}");
        }
    }

    #[test]
    fn a_time_without_zone_is_utc_or_refused() {
        assert_eq!(parse_utc("1970-01-01T00:00:00"), Some(0));
        assert_eq!(parse_utc("2024-02-29T23:59:59.5"), Some(1_709_251_199 * SECOND + SECOND / 2));
        assert_eq!(parse_rfc3339("1970-01-01T00:00:00"), None);
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in [
            "",
            "x",
            "T",
            "Unknown",
            "2026-01-01",
            "2026-01-01T00:00",
            "-1-1-1T0:0:0",
            "2023-02-29T00:00:00Z",
            "2023-11-14 22:13:20Z",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T22:13:60Z",
            "2023-11-14T24:00:00Z",
            "2023-13-14T22:00:00Z",
            "2023-11-14T22:13:20+1:00",
            "２023-11-14T22:13:20Z",
        ] {
            assert_eq!(parse_utc(bad), None, "{bad}");
        }
    }
}
