//! Text for people's terminals, log files and spreadsheets. Names come from senders, neighbors and users; a control character
//! in one could move the cursor, retitle the window or hide text.

use crate::escape::turns_direction;
use std::borrow::Cow;
use std::io::{self, Write};

/// Whether a character acts on a terminal or disguises text: control characters of ASCII and Latin-1 (U+009B begins an escape
/// sequence like ESC [), and those that turn the writing direction.
fn acts(c: char) -> bool {
    c.is_control() || turns_direction(c)
}

/// Text of several lines; characters that act on a terminal become U+FFFD, except line breaks and tabs.
///
/// ```
/// assert_eq!(fabriclens_base::terminal::lines("a\u{1b}[31m\u{9b}2J\nb"), "a\u{fffd}[31m\u{fffd}2J\nb");
/// ```
pub fn lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| acts(c) && c != '\n' && c != '\t')
}

/// Text within a line; characters that act on a terminal, line breaks included, become U+FFFD.
pub fn line(text: &str) -> Cow<'_, str> {
    replaced(text, acts)
}

fn replaced(text: &str, bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&bad) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if bad(c) { '\u{fffd}' } else { c }).collect())
}

/// JSON with the same meaning and without characters that act on a terminal.
pub fn json(text: &str) -> Cow<'_, str> {
    let bad = |c: char| acts(c) && !matches!(c, '\n' | '\t' | '\r');
    if !text.contains(bad) {
        return Cow::Borrowed(text);
    }
    // All of these are below U+10000. In valid JSON they occur in strings only.
    let escaped = |c: char| if bad(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Cow::Owned(text.chars().map(escaped).collect())
}

/// A cell of CSV. A text that a spreadsheet would take for a formula begins with an apostrophe.
///
/// ```
/// use fabriclens_base::terminal::csv_cell;
/// assert_eq!([csv_cell("-1.5"), csv_cell("=1+1"), csv_cell("a,\"b\"")], ["-1.5", "'=1+1", "\"a,\"\"b\"\"\""]);
/// ```
pub fn csv_cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let text = replaced(text, |c| acts(c) && c != '\n');
    let text = if formula { Cow::Owned(format!("'{text}")) } else { text };
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into_owned() }
}

/// Writes lines of a log without characters that act on a terminal, except the colors of the log itself.
#[derive(Debug)]
pub struct LogWriter<W> {
    inner: W,
    colors: bool,
}

impl<W: Write> LogWriter<W> {
    /// Wraps a writer. `colors` if the log writes colors; it then escapes ESC in what it shows.
    pub fn new(inner: W, colors: bool) -> Self {
        Self { inner, colors }
    }
}

impl<W: Write> Write for LogWriter<W> {
    /// Writes whole lines, as the log passes them on.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let bad = |c: char| acts(c) && c != '\n' && c != '\t' && !(self.colors && c == '\u{1b}');
        self.inner.write_all(replaced(&text, bad).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_on_a_terminal() {
        assert_eq!(line("a\nb\u{202e}c"), "a\u{fffd}b\u{fffd}c");
        assert!(matches!(lines("grün\n"), Cow::Borrowed(_)));
        assert_eq!(json("{\"a\":\"\u{9b}2J\u{7f}\u{202e}\"}\n"), "{\"a\":\"\\u009b2J\\u007f\\u202e\"}\n");
    }

    #[test]
    fn cells_are_no_formulas() {
        for (cell, want) in [
            ("@SUM(A1)", "'@SUM(A1)"),
            ("-cmd|' /C calc'!A0", "'-cmd|' /C calc'!A0"),
            ("\tx", "'\u{fffd}x"),
            ("+Inf", "+Inf"),
            ("two\nlines", "\"two\nlines\""),
            ("\u{1b}[2J", "\u{fffd}[2J"),
        ] {
            assert_eq!(csv_cell(cell), want);
        }
    }

    #[test]
    fn logs_keep_only_their_own_colors() {
        let written = |colors| {
            let mut out = Vec::new();
            LogWriter::new(&mut out, colors).write_all("\u{1b}[32m INFO\u{1b}[0m x=\u{9b}2J\r\n".as_bytes()).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(true), "\u{1b}[32m INFO\u{1b}[0m x=\u{fffd}2J\u{fffd}\n");
        assert!(!written(false).contains('\u{1b}'));
    }
}
