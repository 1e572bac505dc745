//! Values of settings as text, in one spelling, so that equal settings are equal texts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Text of a setting with no member: PFC on no priority.
pub const NONE: &str = "none";

/// Unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    Count,
    /// Bytes.
    Bytes,
    /// Bytes per second, told in Gb/s.
    BitRate,
    /// Transfers per second, told in GT/s.
    TransferRate,
}

impl Unit {
    /// Text of a number of this unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Count | Self::Bytes => number(value),
            Self::BitRate => format!("{} Gb/s", number(value * 8.0 / 1e9)),
            Self::TransferRate => format!("{} GT/s", number(value / 1e9)),
        }
    }
}

/// A number without needless digits: at most three behind the point.
pub fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Text of a set of label values, in natural order: `3,4`.
pub fn set<'a>(members: impl IntoIterator<Item = &'a str>) -> String {
    let mut members: Vec<&str> = members.into_iter().collect();
    members.sort_by(|a, b| natural(a).cmp(&natural(b)));
    members.dedup();
    if members.is_empty() { NONE.to_owned() } else { members.join(",") }
}

/// Text of a map from label values to numbers, in natural order: `26=3,48=6`.
pub fn map(entries: &[(&str, f64)]) -> String {
    let sorted: BTreeMap<(u64, &str), f64> = entries.iter().map(|(name, value)| (natural(name), *value)).collect();
    let mut text = String::new();
    for ((_, name), value) in sorted {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string does not fail.
        _ = write!(text, "{comma}{name}={}", number(value));
    }
    text
}

/// Sorts numbers by value and before names.
fn natural(text: &str) -> (u64, &str) {
    (text.parse().unwrap_or(u64::MAX), text)
}

/// Entries of a map's text.
pub fn entries(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',').filter_map(|entry| entry.split_once('='))
}

/// The two values without what they have in common: of maps, the entries that differ.
pub fn difference(value: &str, expected: &str) -> (String, String) {
    let maps = [value, expected].map(|text| entries(text).collect::<BTreeMap<_, _>>());
    if maps.iter().any(BTreeMap::is_empty) {
        return (value.to_owned(), expected.to_owned());
    }
    let differs = |name: &str| maps[0].get(name) != maps[1].get(name);
    let own = |text: &str, other: &BTreeMap<&str, &str>| {
        let kept = entries(text).filter(|(name, _)| differs(name)).map(|(name, value)| format!("{name}={value}"));
        let gone = other.keys().filter(|name| differs(name) && !entries(text).any(|(own, _)| own == **name));
        kept.chain(gone.map(|name| format!("{name} not set"))).collect::<Vec<_>>().join(",")
    };
    (own(value, &maps[1]), own(expected, &maps[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_unit_and_no_needless_digits() {
        assert_eq!(Unit::BitRate.text(50e9), "400 Gb/s");
        assert_eq!(Unit::BitRate.text(312.5e6), "2.5 Gb/s");
        assert_eq!(Unit::TransferRate.text(32e9), "32 GT/s");
        assert_eq!([0.0, 9000.0, 0.25, 1.0 / 3.0].map(number), ["0", "9000", "0.25", "0.333"]);
    }

    #[test]
    fn sets_and_maps_have_one_spelling() {
        assert_eq!(set(["10", "3", "3"]), "3,10");
        assert_eq!(set([]), NONE);
        assert_eq!(map(&[("48", 6.0), ("8", 1.0), ("rate", 0.5)]), "8=1,48=6,rate=0.5");
    }

    #[test]
    fn maps_differ_by_their_entries() {
        let (is, was) = difference("26=3,48=6,50=1", "26=4,48=6,52=2");
        assert_eq!((&*is, &*was), ("26=3,50=1,52 not set", "26=4,52=2,50 not set"));
        assert_eq!(difference("3", NONE), ("3".into(), NONE.into()));
    }
}
