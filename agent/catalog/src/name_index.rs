//! Finds the catalog row for a vendor's counter name without trying every pattern.

use std::collections::HashMap;

use crate::source::CounterSource;
use crate::vendor_counter::VendorCounter;

/// Values of the placeholders of a matched name.
pub(crate) type PlaceholderValues = Vec<(&'static str, String)>;

/// Rows by source and by the name with every run of digits replaced, so that a lookup compares only a handful of rows.
pub(crate) struct NameIndex {
    by_skeleton: HashMap<(CounterSource, String), Vec<&'static VendorCounter>>,
    /// Rows with a placeholder that is not a number (`{reporter}`, `{dev}`); very few.
    textual: Vec<&'static VendorCounter>,
}

impl NameIndex {
    pub(crate) fn new(rows: impl Iterator<Item = &'static VendorCounter>) -> Self {
        let mut index = Self { by_skeleton: HashMap::new(), textual: Vec::new() };
        for row in rows {
            if TEXTUAL.iter().any(|p| row.name.contains(p)) {
                index.textual.push(row);
                continue;
            }
            let rows = index.by_skeleton.entry((row.source, skeleton(row.name))).or_default();
            // A literal name takes precedence over a pattern that also matches it.
            let at = if row.name.contains('{') { rows.len() } else { 0 };
            rows.insert(at, row);
        }
        index
    }

    /// The row of a name. Device-level names fall back to the port-level rows, because some drivers use one list for both.
    pub(crate) fn find(
        &self,
        source: CounterSource,
        name: &str,
    ) -> Option<(&'static VendorCounter, PlaceholderValues)> {
        let found = self.find_exact(source, name);
        if found.is_none() && source == CounterSource::DeviceHwCounters {
            return self.find_exact(CounterSource::HwCounters, name);
        }
        found
    }

    fn find_exact(&self, source: CounterSource, name: &str) -> Option<(&'static VendorCounter, PlaceholderValues)> {
        let rows = self.by_skeleton.get(&(source, skeleton(name))).map_or(&[][..], Vec::as_slice);
        let textual = self.textual.iter().filter(|row| row.source == source);
        rows.iter().chain(textual).find_map(|row| Some((*row, matches(row.name, name)?)))
    }
}

/// Placeholders that stand for text.
const TEXTUAL: [&str; 2] = ["{reporter}", "{dev}"];

/// The name with every run of digits and every placeholder replaced by `#`.
fn skeleton(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut in_placeholder = false;
    for c in name.chars() {
        match c {
            '{' => in_placeholder = true,
            '}' => in_placeholder = false,
            _ if in_placeholder => continue,
            _ if !c.is_ascii_digit() => {
                out.push(c);
                continue;
            }
            _ => {}
        }
        if !out.ends_with('#') {
            out.push('#');
        }
    }
    out
}

/// The values of the placeholders if `name` matches `pattern`.
fn matches(pattern: &'static str, name: &str) -> Option<PlaceholderValues> {
    let mut values = Vec::new();
    let (mut pattern, mut name) = (pattern, name);
    while let Some(open) = pattern.find('{') {
        name = name.strip_prefix(&pattern[..open])?;
        let close = open + pattern[open..].find('}')?;
        let placeholder = &pattern[open + 1..close];
        pattern = &pattern[close + 1..];
        let textual = TEXTUAL.iter().any(|t| t[1..t.len() - 1] == *placeholder);
        let end = name.find(|c: char| if textual { c == '/' } else { !c.is_ascii_digit() }).unwrap_or(name.len());
        if end == 0 {
            return None;
        }
        values.push((placeholder, name[..end].to_owned()));
        name = &name[end..];
    }
    (pattern == name).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_take_digits_only() {
        assert_eq!(matches("rx_prio{prio}_bytes", "rx_prio12_bytes"), Some(vec![("prio", "12".into())]));
        assert_eq!(matches("rx_prio{prio}_bytes", "rx_priox_bytes"), None);
        assert_eq!(matches("rx_prio{prio}_bytes", "rx_prio_bytes"), None);
        assert_eq!(matches("rx_prio{prio}_bytes", "rx_prio1_bytes_x"), None);
        assert_eq!(skeleton("hist_rx[{low}-{high}]"), skeleton("hist_rx[65-127]"));
    }
}
