//! Quantities as short text.

/// Bytes per second: `950 B/s`, `1.2 kB/s`, `12.5 GB/s`.
#[must_use]
pub fn bytes_per_second(value: f64) -> String {
    format!("{}B/s", scaled(value))
}

/// Events per second: `0`, `0.2/s`, `1.2 k/s`.
#[must_use]
pub fn per_second(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{}/s", scaled(value).trim_end()) }
}

/// A share of 1: `0 %`, `0.3 %`, `45 %`.
#[must_use]
pub fn share(value: f64) -> String {
    let percent = value * 100.0;
    if percent == 0.0 || percent >= 10.0 {
        format!("{percent:.0} %")
    } else if percent < 0.1 {
        "<0.1 %".to_owned()
    } else {
        format!("{percent:.1} %")
    }
}

/// A number of three digits and its prefix, with a space between number and unit.
fn scaled(value: f64) -> String {
    let prefixes = ["", "k", "M", "G", "T"];
    let mut rest = value;
    for (place, prefix) in prefixes.iter().enumerate() {
        if rest.abs() < 999.5 || place + 1 == prefixes.len() {
            let digits = if rest == 0.0 || rest.abs() >= 99.95 { 0 } else { 1 };
            return format!("{rest:.digits$} {prefix}");
        }
        rest /= 1000.0;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits_at_most() {
        let bytes = [0.0, 950.0, 999.6, 1234.0, 12_500_000_000.0, 2e15].map(bytes_per_second);
        assert_eq!(bytes, ["0 B/s", "950 B/s", "1.0 kB/s", "1.2 kB/s", "12.5 GB/s", "2000 TB/s"]);
        assert_eq!([0.0, 0.25, 1234.0].map(per_second), ["0", "0.2/s", "1.2 k/s"]);
        assert_eq!([0.0, 0.0004, 0.003, 0.45, 1.0].map(share), ["0 %", "<0.1 %", "0.3 %", "45 %", "100 %"]);
    }
}
