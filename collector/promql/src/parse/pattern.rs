//! Translates regular expressions from Go (RE2) to the `regex` crate. They differ in what is literal (`{` without a
//! repetition, `\Q…\E`, `[`, `&` and `~` in classes), in `\p{^L}`, and in `\d`, `\w` and `\s` (ASCII in Go). Used for label matchers and
//! `label_replace`.

use fabriclens_model::MAX_PATTERN;
use std::iter::Peekable;
use std::str::Chars;

/// Translates a pattern; invalid patterns stay invalid. Long ones stay as they are: they are refused, or list plain
/// values.
pub(crate) fn from_go(pattern: &str) -> String {
    if pattern.len() > MAX_PATTERN {
        return pattern.to_owned();
    }
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => escape(&mut chars, &mut out, false),
            '[' => class(&mut chars, &mut out),
            '{' if !begins_repetition(chars.clone()) => out.push_str("\\{"),
            c => out.push(c),
        }
    }
    out
}

/// Whether `n}`, `n,}` or `n,m}` follows a `{`.
fn begins_repetition(chars: Peekable<Chars<'_>>) -> bool {
    let inner: String = chars.take_while(|c| c.is_ascii_digit() || *c == ',' || *c == '}').collect();
    let Some((inner, _)) = inner.split_once('}') else { return false };
    let (low, high) = inner.split_once(',').unwrap_or((inner, ""));
    !low.is_empty() && !high.contains(',')
}

fn escape(chars: &mut Peekable<Chars<'_>>, out: &mut String, in_class: bool) {
    let Some(c) = chars.next() else {
        out.push('\\');
        return;
    };
    let ascii = match c {
        'd' | 'D' => "0-9",
        'w' | 'W' => "0-9A-Za-z_",
        's' | 'S' => "\\t\\n\\f\\r ",
        // Plain text up to `\E`.
        'Q' if !in_class => {
            while let Some(c) = chars.next() {
                if c == '\\' && chars.next_if_eq(&'E').is_some() {
                    break;
                }
                if c.is_ascii_punctuation() {
                    out.push('\\');
                }
                out.push(c);
            }
            return;
        }
        c => {
            out.push('\\');
            named_class(c, chars, out);
            return;
        }
    };
    match (in_class, c.is_ascii_uppercase()) {
        (true, false) => out.push_str(ascii),
        (_, true) => out.extend(["[^", ascii, "]"]),
        (false, false) => out.extend(["[", ascii, "]"]),
    }
}

/// `p` or `P` with the name of a Unicode class (`\p{^L}` is `\P{L}`), `x` with a code in braces, or another character.
fn named_class(c: char, chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    if !matches!(c, 'p' | 'P' | 'x') || chars.next_if_eq(&'{').is_none() {
        out.push(c);
        return;
    }
    let negated = matches!(c, 'p' | 'P') && chars.next_if_eq(&'^').is_some();
    out.push(match c {
        'p' if negated => 'P',
        'P' if negated => 'p',
        c => c,
    });
    out.push('{');
    for c in chars.by_ref() {
        out.push(c);
        if c == '}' {
            break;
        }
    }
}

fn class(chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('[');
    if chars.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    if chars.next_if_eq(&']').is_some() {
        out.push_str("\\]");
    }
    while let Some(c) = chars.next() {
        match c {
            ']' => {
                out.push(']');
                return;
            }
            '\\' => escape(chars, out, true),
            // `[:alpha:]` is a class within a class in both dialects.
            '[' if chars.peek() == Some(&':') => {
                out.push('[');
                while let Some(c) = chars.next() {
                    out.push(c);
                    if c == ':' && chars.next_if_eq(&']').is_some() {
                        out.push(']');
                        break;
                    }
                }
            }
            '[' | '&' | '~' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::Patterns;

    #[test]
    fn literals_of_go_stay_literal() {
        let compile = |pattern: &str| Patterns::default().compile(&from_go(pattern));
        let matches = |pattern: &str, text: &str| compile(pattern).unwrap().matches(text);
        for (pattern, text) in [
            ("^a{b}$", "a{b}"),
            ("^a{2}$", "aa"),
            ("^a{1,}b{0,1}$", "aa"),
            ("^x{,2}$", "x{,2}"),
            ("^a|{$", "{"),
            ("^[[]$", "["),
            ("^[]]$", "]"),
            ("^[a&&b]$", "&"),
            ("^[[:digit:]x]+$", "1x"),
            (r"^[\d.]+$", "1.5"),
            (r"^\w\W$", "a-"),
            (r"^\{\d\}$", "{7}"),
            (r"^\p{L}\pL{2}\p{Greek}$", "éxyα"),
            (r"^\P{L}\p{^L}[\p{Lu}]\P{^Lu}$", "12ÄÖ"),
            (r"^\x{e9}\x{10FFFF}[\x{41}]$", "é\u{10FFFF}A"),
            (r"^a\Q{L}.*\E\d$", "a{L}.*1"),
            ("^a.b$", "a\nb"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        assert!(!matches(r"^\d$", "٣") && !matches("^[^a]$", "a"));
        assert!(compile("a(").is_err() && compile("[a").is_err());
        assert!(compile(r"\p{L").is_err() && compile(r"\p{Nowhere}").is_err());
        // Names of classes take part in the bounds.
        let many = compile(&r"\p{L}".repeat(1001)).unwrap_err().to_string();
        assert!(many.contains("more than 1000 Unicode classes"), "{many}");
        assert!(compile(r"\p{L}{150}x").unwrap_err().to_string().contains("too complex"));
    }
}
