//! Durations and sizes as people write them: `1s`, `100ms`, `64MiB`. Used by config and flags.

use std::time::Duration;

/// A text that is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}; write a number and a unit, for instance {example}")]
pub struct QuantityError {
    text: String,
    what: &'static str,
    example: &'static str,
}

const TIMES: &[(&str, f64)] =
    &[("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];

const SIZES: &[(&str, f64)] = &[
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("KB", 1e3),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
];

/// A duration such as `100ms`, `1.5s`, `2m`.
///
/// # Errors
/// [`QuantityError`] for anything else, negative and endless ones included.
pub fn duration(text: &str) -> Result<Duration, QuantityError> {
    quantity(text, TIMES).and_then(|v| Duration::try_from_secs_f64(v).ok()).ok_or_else(|| QuantityError {
        text: text.to_owned(),
        what: "duration",
        example: "100ms, 1s or 5m",
    })
}

/// A size in bytes such as `64MiB` or `500KB`.
///
/// # Errors
/// [`QuantityError`] for anything else.
pub fn size(text: &str) -> Result<u64, QuantityError> {
    quantity(text, SIZES).filter(|v| *v <= 2f64.powi(53)).map(|v| v as u64).ok_or_else(|| QuantityError {
        text: text.to_owned(),
        what: "size",
        example: "64MiB or 500KB",
    })
}

fn quantity(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(at);
    let scale = units.iter().find(|(name, _)| *name == unit)?.1;
    let number: f64 = number.trim_end().parse().ok()?;
    (number >= 0.0 && number.is_finite()).then_some(number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_need_a_number_and_a_unit() {
        assert_eq!(duration("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(duration(" 1.5 s "), Ok(Duration::from_millis(1500)));
        assert_eq!(size("64MiB"), Ok(64 << 20));
        for bad in ["", "5", "ms", "-1s", "1 week", "1e999s", "nans", "1ss"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert!(size("64 mib").unwrap_err().to_string().contains("64MiB"));
    }
}
