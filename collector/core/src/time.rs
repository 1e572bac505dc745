//! Times and durations of API parameters: Unix seconds with fraction, RFC 3339, `15s`. The shell client shares them.

use std::time::Duration;

pub use fabriclens_base::time::now_ms;
use fabriclens_base::{duration, time};
use fabriclens_model::CivilDate;

/// Largest time that JSON clients and the store carry: Prometheus' own bounds are wider, nobody needs them.
const MAX_MS: f64 = 9.2e15;

/// Now, in Unix nanoseconds, in steps of a millisecond: what the API writes as milliseconds reads back as the same instant.
pub fn now_ns() -> i64 {
    now_ms().saturating_mul(1_000_000)
}

/// Unix seconds (`1700000000.123`) or RFC 3339 (`2023-11-14T22:13:20.5+01:00`) to Unix milliseconds.
pub fn parse_time(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse::<f64>() {
        let ms = (seconds * 1000.0).round();
        // NaN fails the comparison too.
        return (ms.abs() <= MAX_MS).then_some(ms as i64);
    }
    time::parse_rfc3339_ms(text)
}

/// Seconds (`0.5`, `15`) or `1h30m`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<f64>() {
        return (seconds.abs() < MAX_MS / 1000.0)
            .then(|| Duration::try_from_secs_f64(seconds).ok())
            .flatten()
            .map(|d| Duration::from_millis(d.as_millis() as u64));
    }
    duration::parse_prometheus(text).ok()
}

/// `2023-11-14T22:13:20.500Z`, for people.
pub fn format_time(ms: i64) -> String {
    let (days, in_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let CivilDate { year, month, day } = CivilDate::of(days);
    let (s, fraction) = (in_day / 1000, in_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{fraction:03}Z", s / 3600, s / 60 % 60, s % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, ms) in [
            ("1700000000", 1_700_000_000_000),
            ("1700000000.1234", 1_700_000_000_123),
            ("-1.5", -1_500),
            ("1.7e9", 1_700_000_000_000),
            ("2023-11-14T22:13:20Z", 1_700_000_000_000),
            ("2023-11-14T23:13:20.5+01:00", 1_700_000_000_500),
            ("2023-11-14t22:13:20.123456789z", 1_700_000_000_123),
            ("1969-12-31T23:59:59Z", -1_000),
            ("2024-02-29T00:00:00-00:30", 1_709_166_600_000),
        ] {
            assert_eq!(parse_time(text), Some(ms), "{text}");
        }
        for bad in [
            "",
            "x",
            "NaN",
            "Inf",
            "1e300",
            "2023-02-29T00:00:00Z",
            "2023-11-14 22:13:20Z",
            "2023-11-14T22:13:20",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T24:00:00Z",
            "2023-13-14T22:00:00Z",
            "2023-11-14T22:13:20+1:00",
            "２023-11-14T22:13:20Z",
        ] {
            assert_eq!(parse_time(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_are_written_and_read_back() {
        for ms in [0, 1_700_000_000_123, -86_400_001, 951_782_400_000, 4_102_444_800_000] {
            assert_eq!(parse_time(&format_time(ms)), Some(ms));
        }
        assert_eq!(format_time(1_700_000_000_500), "2023-11-14T22:13:20.500Z");
    }

    #[test]
    fn durations_are_seconds_or_prometheus_text() {
        assert_eq!(parse_duration("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(parse_duration("15s"), Some(Duration::from_secs(15)));
        for bad in ["", "-1", "NaN", "1 m", "1e400"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }
}
