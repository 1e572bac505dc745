//! Durations and byte sizes as people write them: `15s`, `1h30m`, `100y`, `16MiB`. Used by config, flags and the API.

use std::time::Duration;

/// Unit, milliseconds; largest first, the order in which Prometheus requires and prints them.
const UNITS: &[(&str, u64)] = &[
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// A text that is no duration or no size; `Display` says what would be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a duration.
    #[error(
        "{0:?} is not a duration; write numbers with units from large to small, for instance 15s, 1h30m, 30d or 100y"
    )]
    Duration(String),
    /// Not a size.
    #[error("{0:?} is not a size; write a number with B, KiB, MiB, GiB or TiB, for instance 16MiB")]
    Size(String),
}

/// Prometheus' duration syntax; `0` needs no unit.
///
/// # Errors
/// [`QuantityError::Duration`] for anything else, also when it exceeds 2^63 ms.
pub fn parse(text: &str) -> Result<Duration, QuantityError> {
    let bad = || QuantityError::Duration(text.to_owned());
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut units = UNITS;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_lowercase).count();
        let at = units.iter().position(|(u, _)| *u == &rest[..letters]).ok_or_else(bad)?;
        rest = &rest[letters..];
        total = number.checked_mul(units[at].1).and_then(|ms| total.checked_add(ms)).ok_or_else(bad)?;
        units = &units[at + 1..];
    }
    if text.is_empty() || total > i64::MAX as u64 {
        return Err(bad());
    }
    Ok(Duration::from_millis(total))
}

/// The shortest such text: `1h30m`, `15s`, `0s`.
pub fn format(duration: Duration) -> String {
    let mut ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if ms == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    for (unit, size) in UNITS {
        // Years and weeks only when exact: `30d` stays `30d`, as Prometheus prints it.
        let exact_only = matches!(*unit, "y" | "w");
        if ms >= *size && (!exact_only || ms % size == 0) {
            out.push_str(&format!("{}{unit}", ms / size));
            ms %= size;
        }
    }
    out
}

/// Bytes: a number alone, or with `B`, `KiB`, `MiB`, `GiB`, `TiB`.
///
/// # Errors
/// [`QuantityError::Size`] for anything else.
pub fn parse_size(text: &str) -> Result<u64, QuantityError> {
    let bad = || QuantityError::Size(text.to_owned());
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().map_err(|_| bad())?;
    let shift = match text[digits..].trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err(bad()),
    };
    number.checked_mul(1 << shift).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_printed_as_prometheus_does() {
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
            let d = parse(text).unwrap();
            assert_eq!((d.as_millis(), format(d).as_str()), (ms, printed), "{text}");
        }
        for bad in ["", "15", "s", "1m1h", "1s1s", "-1s", "1.5s", "99999999999999999y", "1 s", "1S"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("16MiB"), Ok(16 << 20));
        assert_eq!(parse_size("16 MiB"), Ok(16 << 20));
        assert_eq!(parse_size("7"), Ok(7));
        for bad in ["", "MiB", "16MB", "-1", "99999999999999TiB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
