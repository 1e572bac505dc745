//! Parses the text of `ethtool -i` and `ethtool -S`. Called by [`super::RecordedKernel`].

use crate::DriverInfo;

/// A malformed line.
#[derive(Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Line number, from 1.
    pub line: usize,
    /// Reason.
    pub why: String,
}

/// Fields of `ethtool -i`; unknown lines are skipped, missing fields stay empty.
pub fn driver(text: &str) -> DriverInfo {
    let mut info = DriverInfo::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let field = match key.trim() {
            "driver" => &mut info.driver,
            "version" => &mut info.version,
            "firmware-version" => &mut info.firmware,
            "bus-info" => &mut info.bus,
            _ => continue,
        };
        value.trim().clone_into(field);
    }
    info
}

/// Passes each `name: value` line of `ethtool -S` to `each`, in order, names without surrounding blanks. Skips lines
/// without `: `, such as headings.
///
/// # Errors
/// The first line whose value is not a number.
pub fn statistics<'a>(text: &'a str, mut each: impl FnMut(&'a str, u64)) -> Result<(), BadLine> {
    for (index, line) in text.lines().enumerate() {
        // Names may contain colons ("[3]: rx_bytes") and blanks: only the last ": " separates.
        let Some((name, value)) = line.rsplit_once(": ") else { continue };
        let value = value.trim().parse().map_err(|_| BadLine {
            line: index + 1,
            why: format!("value `{}` is not a number from 0 to 2^64-1", value.trim()),
        })?;
        each(name.trim(), value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_colons_blanks_and_separators() {
        let text = "NIC statistics:\n     [3]: rx_bytes: 17\n  rx frames : 2\n     ----Loopback----: 0\n\n     [hw] rx: 18446744073709551615\n";
        let mut seen = Vec::new();
        statistics(text, |name, value| seen.push((name, value))).unwrap();
        let expected = [("[3]: rx_bytes", 17), ("rx frames", 2), ("----Loopback----", 0), ("[hw] rx", u64::MAX)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn error_has_the_line_number() {
        assert_eq!(statistics("NIC statistics:\n a: 1\n b: x\n", |_, _| ()).unwrap_err().line, 3);
        assert_eq!(statistics("no stats available\nNIC statistics:\n", |_, _| unreachable!()), Ok(()));
        assert_eq!(statistics(" a: -1\n", |_, _| ()).unwrap_err().line, 1);
    }

    #[test]
    fn driver_fields() {
        let info = driver(
            "driver: mlx5_core\nversion: 6.1\nfirmware-version: 22.36 (MT_1)\nexpansion-rom-version: \nbus-info: 0000:ca:00.0\nsupports-test: no",
        );
        assert_eq!(info.bus, "0000:ca:00.0");
        assert_eq!(info.firmware, "22.36 (MT_1)");
        assert_eq!(driver("garbage"), DriverInfo::default());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text in ".{0,200}") {
            let _ = statistics(&text, |_, _| ());
            let _ = driver(&text);
        }
    }
}
