//! Text inside HTML, regular expressions, PromQL strings and the Prometheus text format.

/// Text as HTML content or attribute value. Control characters and those that turn the writing direction become U+FFFD.
///
/// ```
/// assert_eq!(fabriclens_base::escape::html("<a & b>"), "&lt;a &amp; b&gt;");
/// ```
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if turns_direction(c) || c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Whether a character turns the writing direction of the text behind it, and so can disguise it.
pub fn turns_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A regular expression (RE2 syntax) that matches the text alone.
pub fn regex(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A string literal of PromQL, quotes included.
pub fn promql_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_has_no_markup_and_no_disguise() {
        assert_eq!(html("<img src='x' onerror=\"y\">"), "&lt;img src=&#39;x&#39; onerror=&quot;y&quot;&gt;");
        assert_eq!(html("a\u{202e}b\u{7}c"), "a\u{fffd}b\u{fffd}c");
    }

    #[test]
    fn patterns_and_strings_keep_their_meaning() {
        assert_eq!(regex("a.b|c"), r"a\.b\|c");
        assert_eq!(promql_string("a\"\\\n"), r#""a\"\\\n""#);
    }
}
