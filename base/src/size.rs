//! Sizes in bytes as people write them: `64MiB`, `500KB`, `100GB`.

/// A unit and its length in bytes.
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1000),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// The text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a size; write a number with B, KB, MB, GB, TB, KiB, MiB, GiB or TiB, for instance 64MiB or 100GB"
)]
pub struct SizeError(String);

/// Parses bytes: a number with a unit, or alone. The number may have a fraction of at most six digits.
///
/// # Errors
/// [`SizeError`] for anything else, and for 2^64 bytes or more.
///
/// ```
/// use fabriclens_base::size::parse;
/// assert_eq!(parse("16MiB"), Ok(16 << 20));
/// assert_eq!(parse("1.5GB"), Ok(1_500_000_000));
/// assert!(parse("64 mib").is_err());
/// ```
pub fn parse(text: &str) -> Result<u64, SizeError> {
    let bytes = || {
        let trimmed = text.trim();
        let at = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(at);
        let unit = UNITS.iter().find(|(name, _)| *name == unit.trim())?.1;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if fraction.is_empty() || fraction.len() > 6 {
            return None;
        }
        let millionths: u64 = format!("{fraction:0<6}").parse().ok()?;
        let fraction = u128::from(millionths) * u128::from(unit) / 1_000_000;
        whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(u64::try_from(fraction).ok()?)
    };
    bytes().ok_or_else(|| SizeError(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_and_decimal_units() {
        for (text, bytes) in [
            ("16MiB", 16 << 20),
            (" 16 MiB ", 16 << 20),
            ("7", 7),
            ("64B", 64),
            ("500KB", 500_000),
            ("3kB", 3000),
            ("100GB", 100_000_000_000),
            ("2TiB", 2 << 40),
            ("1.5KiB", 1536),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "MiB", "16mib", "-1", "99999999999999TiB", "1.", ".5GB", "1.1234567GB", "1e3", "1 2"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("64 mib").unwrap_err().to_string().contains("64MiB"));
    }
}
