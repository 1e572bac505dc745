//! Patterns that list plain values, such as `a|b|c` or `(10\.0\.0\.1|10\.0\.0\.2)`: dashboards' variables make them, and
//! they may be long. They are matched by a sorted list, without a regular expression.

/// Plain values.
#[derive(Debug)]
pub(crate) struct Literals {
    /// All values, one after the other.
    text: String,
    /// Start and end of each value, sorted by value.
    spans: Vec<(u32, u32)>,
}

/// Bytes that have a meaning in patterns.
const SPECIAL: &[u8] = b".+*?()[]{}^$\\";

/// The pattern without parentheses around all of it.
fn inner(text: &str) -> &str {
    let inside = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).filter(|rest| !rest.ends_with('\\'));
    inside.map_or(text, |inside| inside.strip_prefix("?:").unwrap_or(inside))
}

impl Literals {
    /// Whether the pattern lists plain values; punctuation may be escaped.
    pub fn are(text: &str) -> bool {
        let mut bytes = inner(text).bytes();
        while let Some(b) = bytes.next() {
            let plain = match b {
                b'\\' => bytes.next().is_some_and(|b| b.is_ascii_punctuation() && !b"<>".contains(&b)),
                b => !SPECIAL.contains(&b),
            };
            if !plain {
                return false;
            }
        }
        true
    }

    /// Bytes that [`Self::new`] needs.
    pub fn size(text: &str) -> usize {
        text.len() + size_of::<(u32, u32)>() * (1 + text.bytes().filter(|b| *b == b'|').count())
    }

    /// Reads a pattern for which [`Self::are`] is true, of at most 4 GiB.
    pub fn new(pattern: &str) -> Self {
        let mut text = String::with_capacity(pattern.len());
        let mut spans = Vec::with_capacity(1 + pattern.bytes().filter(|b| *b == b'|').count());
        let (mut start, mut chars) = (0, inner(pattern).chars());
        while let Some(c) = chars.next() {
            match c {
                '|' => {
                    spans.push((start, text.len() as u32));
                    start = text.len() as u32;
                }
                '\\' => text.extend(chars.next()),
                c => text.push(c),
            }
        }
        spans.push((start, text.len() as u32));
        spans.sort_unstable_by(|a, b| value(&text, *a).cmp(value(&text, *b)));
        Self { text, spans }
    }

    /// Bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        self.text.capacity() + size_of::<(u32, u32)>() * self.spans.capacity()
    }

    /// Whether a value is one of them.
    pub fn contain(&self, wanted: &str) -> bool {
        self.spans.binary_search_by(|span| value(&self.text, *span).cmp(wanted)).is_ok()
    }
}

fn value(text: &str, (start, end): (u32, u32)) -> &str {
    &text[start as usize..end as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_plain_values_are_recognized() {
        for (pattern, values) in [
            ("a", &["a"][..]),
            ("gpu-01|gpu-02", &["gpu-01", "gpu-02"]),
            (r"(10\.0\.0\.1|b\|c)", &["10.0.0.1", "b|c"]),
            ("(?:a|é)", &["a", "é"]),
            ("|1", &["", "1"]),
            ("", &[""]),
        ] {
            assert!(Literals::are(pattern), "{pattern}");
            let literals = Literals::new(pattern);
            assert!(values.iter().all(|v| literals.contain(v)) && literals.spans.len() == values.len(), "{pattern}");
            assert!(!literals.contain("gpu-0") && !literals.contain("a|b") && !literals.contain("10x0x0x1"));
        }
        for pattern in
            ["a.", "a|b*", r"\d", r"\bx", r"\<a", "(a)|b", "(a", "a)", r"(a\)", "^a$", "[a]", "x{2}", r"a\", "(a|(b))"]
        {
            assert!(!Literals::are(pattern), "{pattern}");
        }
    }
}
