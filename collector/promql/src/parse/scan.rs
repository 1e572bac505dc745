//! A scan of the query text before the grammar crate parses it:
//! - rewrites strings and numbers to forms that the crate understands (no raw strings with backslashes, no `0e5`),
//! - records where each operand begins, because the crate's syntax tree has no positions and annotations need them,
//! - replaces regular expressions by their number, because the crate compiles them without a bound,
//! - refuses syntax that 2.53 does not have but the crate accepts, and oversized queries.

use super::QueryError;
use super::literal::{self, number, unquote};
use crate::error::Position;
use std::fmt::Write as _;
use std::ops::Range;

/// Maximum bytes of a query; the largest generated queries of dashboards are far smaller.
const MAX_BYTES: usize = 1 << 20;
/// Maximum operands of a query, and maximum signs and brackets; with [`MAX_DEPTH`] it bounds the depth of the tree.
const MAX_LEAVES: usize = 5_000;
/// Maximum nesting of parentheses.
const MAX_DEPTH: usize = 500;
/// Maximum matchers of a selector.
const MAX_MATCHERS: usize = 128;
/// Maximum labels of a grouping.
const MAX_LABELS: usize = 128;

/// The normalized text.
pub(crate) struct Scanned {
    pub text: String,
    /// Byte offset in the original text of each operand (selector, literal, call, aggregation), in order of
    /// appearance.
    pub leaves: Vec<usize>,
    /// Regular expressions of matchers, whose numbers the text has in their place.
    pub patterns: Vec<ScannedPattern>,
}

/// A regular expression in the query.
pub(crate) struct ScannedPattern {
    /// Without quotes and escapes.
    pub text: String,
    /// Where its literal is in the original text.
    pub span: Range<usize>,
    /// Whether the operator is `!~`.
    pub negated: bool,
}

impl ScannedPattern {
    /// A literal in its place, of which the grammar crate finds that the matcher does not match `""`: without such a
    /// matcher it refuses a selector, and only the pattern itself can tell.
    pub fn stand_in(&self, name: &str) -> String {
        format!("\"{name}{}\"", if self.negated { "|" } else { "" })
    }
}

pub(crate) fn scan(query: &str) -> Result<Scanned, QueryError> {
    if query.len() > MAX_BYTES {
        return Err(QueryError::parse(format!("query of {} bytes is longer than {MAX_BYTES}", query.len())));
    }
    let mut s = Scanner {
        src: query,
        at: 0,
        out: String::with_capacity(query.len()),
        leaves: vec![],
        patterns: vec![],
        operand: true,
        sign: None,
        plus: None,
        depth: 0,
        prefixes: 0,
    };
    s.run()?;
    if s.leaves.is_empty() && s.out.trim().is_empty() {
        return Err(error(query, query.len(), "no expression found in input"));
    }
    if s.depth > 0 {
        return Err(error(query, query.len(), "unclosed left parenthesis"));
    }
    if s.leaves.len() > MAX_LEAVES {
        return Err(QueryError::parse(format!("query has more than {MAX_LEAVES} operands; split it")));
    }
    Ok(Scanned { text: s.out, leaves: s.leaves, patterns: s.patterns })
}

fn error(query: &str, offset: usize, message: impl Into<String>) -> QueryError {
    QueryError::Parse { message: message.into(), position: Some(Position::of(query, offset)) }
}

struct Scanner<'a> {
    src: &'a str,
    at: usize,
    out: String,
    leaves: Vec<usize>,
    patterns: Vec<ScannedPattern>,
    /// Whether an operand may come next (else an operator).
    operand: bool,
    /// Position of a sign that belongs to a following literal.
    sign: Option<usize>,
    /// The last operand, if a plus sign precedes it.
    plus: Option<usize>,
    /// Open parentheses.
    depth: usize,
    /// Signs and brackets so far.
    prefixes: usize,
}

const GROUPING: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
const OPERATORS: [&str; 4] = ["and", "or", "unless", "atan2"];

impl Scanner<'_> {
    fn run(&mut self) -> Result<(), QueryError> {
        while let Some(c) = self.peek() {
            match c {
                b'#' => self.comment(),
                b'"' | b'\'' | b'`' => {
                    let (text, _) = unquote(&self.src[self.at..]).map_err(|m| error(self.src, self.at, m))?;
                    self.leaf(self.at, &format!("string {:?}", format!("{text:?}")))?;
                    self.string()?;
                }
                b'{' => {
                    self.leaf(self.at, "\"{\"")?;
                    self.braces()?;
                }
                b'[' | b',' if self.operand => {
                    return Err(error(self.src, self.at, format!("unexpected {:?}", char::from(c).to_string())));
                }
                b']' => return Err(error(self.src, self.at, "unexpected right bracket ']'")),
                b'}' => return Err(error(self.src, self.at, "unexpected character: '}'")),
                b'[' => {
                    if let Some(at) = self.plus {
                        return Err(self.unsigned(at, "range vector"));
                    }
                    self.deeper()?;
                    self.brackets()?;
                }
                b'@' => self.at_modifier(),
                b'0'..=b'9' | b'.' => self.number()?,
                b'a'..=b'z' | b'A'..=b'Z' | b'_' | b':' => self.word()?,
                b'(' => {
                    self.depth += 1;
                    if self.depth > MAX_DEPTH {
                        let message = format!("more than {MAX_DEPTH} nested parentheses");
                        return Err(error(self.src, self.at, message));
                    }
                    self.copy(1);
                    self.operand = true;
                    self.sign = None;
                }
                b')' => {
                    let closed = self.depth.checked_sub(1);
                    // Prometheus reports the position after it.
                    self.depth =
                        closed.ok_or_else(|| error(self.src, self.at + 1, "unexpected right parenthesis ')'"))?;
                    self.copy(1);
                    self.operand = false;
                }
                c if c.is_ascii_whitespace() => self.copy(1),
                b'*' | b'/' | b'%' | b'^' | b'=' | b'!' | b'<' | b'>' if self.operand => {
                    let bytes = &self.src.as_bytes()[self.at..];
                    let length = bytes.iter().take(2).take_while(|b| b"*/%^=!<>~".contains(b)).count();
                    let operator = &self.src[self.at..self.at + length];
                    return Err(error(self.src, self.at, format!("unexpected <op:{operator}>")));
                }
                c if c.is_ascii() => {
                    self.sign = (self.operand && matches!(c, b'+' | b'-')).then_some(self.at);
                    if self.sign.is_some() {
                        self.deeper()?;
                    }
                    let two = matches!(self.src.get(self.at..self.at + 2), Some("==" | "!=" | "<=" | ">="));
                    self.copy(1 + usize::from(two));
                    self.operand = true;
                }
                _ => {
                    let found = self.src[self.at..].chars().next().unwrap_or('?');
                    return Err(error(self.src, self.at, format!("unexpected character: {found:?}")));
                }
            }
        }
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.src.as_bytes().get(self.at).copied()
    }

    /// Records an operand at `start`.
    fn leaf(&mut self, start: usize, what: &str) -> Result<(), QueryError> {
        if !self.operand {
            return Err(error(self.src, start, format!("unexpected {what}")));
        }
        self.leaves.push(start);
        self.operand = false;
        self.plus = self.sign.take().filter(|at| self.src.as_bytes()[*at] == b'+').map(|_| start);
        if self.plus.is_some() && what.starts_with("string") {
            return Err(self.unsigned(start, "string"));
        }
        Ok(())
    }

    /// The grammar crate drops a plus sign, but Prometheus checks the type of its operand.
    fn unsigned(&self, at: usize, what: &str) -> QueryError {
        let message =
            format!("unary expression only allowed on expressions of type scalar or instant vector, got {what:?}");
        error(self.src, at, message)
    }

    fn deeper(&mut self) -> Result<(), QueryError> {
        self.prefixes += 1;
        if self.prefixes > MAX_LEAVES {
            return Err(error(self.src, self.at, format!("more than {MAX_LEAVES} signs and ranges; split the query")));
        }
        Ok(())
    }

    fn copy(&mut self, n: usize) {
        self.out.push_str(&self.src[self.at..self.at + n]);
        self.at += n;
    }

    fn copy_while(&mut self, f: impl Fn(u8) -> bool) {
        let n = self.src.as_bytes()[self.at..].iter().take_while(|b| f(**b)).count();
        self.copy(n);
    }

    fn space(&mut self) {
        while let Some(c) = self.peek() {
            match c {
                b'#' => self.comment(),
                c if c.is_ascii_whitespace() => self.copy(1),
                _ => break,
            }
        }
    }

    /// Comments end at a newline and become a space: the grammar crate supports them in few places.
    fn comment(&mut self) {
        let rest = &self.src[self.at..];
        self.at += rest.find('\n').unwrap_or(rest.len());
        self.out.push(' ');
    }

    fn braces(&mut self) -> Result<(), QueryError> {
        let (open, mut values) = (self.at, 0);
        self.copy(1);
        loop {
            match self.peek() {
                None => return Err(error(self.src, open, "unexpected end of input inside braces")),
                Some(b'}') => {
                    self.copy(1);
                    return Ok(());
                }
                Some(b'"' | b'\'' | b'`') => {
                    values += 1;
                    if values > MAX_MATCHERS {
                        let message = format!("more than {MAX_MATCHERS} label matchers in a selector");
                        return Err(error(self.src, open, message));
                    }
                    self.string()?;
                }
                Some(b'#') => self.comment(),
                Some(c) if c.is_ascii() => self.copy(1),
                Some(_) => {
                    let found = self.src[self.at..].chars().next().unwrap_or('?');
                    return Err(error(self.src, self.at, format!("unexpected character inside braces: {found:?}")));
                }
            }
        }
    }

    fn brackets(&mut self) -> Result<(), QueryError> {
        let open = self.at;
        self.copy(1);
        loop {
            self.space();
            match self.peek() {
                None => return Err(error(self.src, open, "unexpected end of input in brackets")),
                Some(b']') => {
                    self.copy(1);
                    return Ok(());
                }
                Some(b':') => self.copy(1),
                Some(b'0'..=b'9') => self.duration()?,
                Some(_) => {
                    let found = self.src[self.at..].chars().next().unwrap_or('?');
                    return Err(error(
                        self.src,
                        self.at,
                        format!("unexpected character in duration expression: {found:?}"),
                    ));
                }
            }
        }
    }

    /// A duration with units; 2.53 does not accept bare numbers as seconds.
    fn duration(&mut self) -> Result<(), QueryError> {
        const DAY: u64 = 86_400_000;
        let (start, written) = (self.at, self.out.len());
        self.copy_while(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'_');
        let ms = literal::duration(&self.src[start..self.at]).map_err(|m| error(self.src, start, m))?;
        if ms > u64::from(u32::MAX) {
            // The parser silently drops a part of more than 32 bits, such as 50 days in milliseconds.
            self.out.truncate(written);
            _ = write!(self.out, "{}d{}ms", ms / DAY, ms % DAY);
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), QueryError> {
        let (start, written) = (self.at, self.out.len());
        let bytes = self.src.as_bytes();
        let hex = bytes[start] == b'0' && matches!(bytes.get(start + 1), Some(b'x' | b'X'));
        while let Some(c) = self.peek() {
            let exponent_sign = matches!(c, b'+' | b'-') && !hex && matches!(bytes[self.at - 1], b'e' | b'E');
            if !(c.is_ascii_alphanumeric() || c == b'.' || c == b'_' || exponent_sign && self.at > start) {
                break;
            }
            self.copy(1);
        }
        let text = &self.src[start..self.at];
        let value = number(text).ok_or_else(|| {
            let duration = literal::duration(text).is_ok();
            let what = if duration { "unexpected duration" } else { "bad number or duration syntax:" };
            error(self.src, start, format!("{what} {text:?}"))
        })?;
        // As a plain decimal: the parser supports fewer notations.
        self.out.truncate(written);
        _ = write!(self.out, "{:?}", value.map_err(|m| error(self.src, start, m))?);
        let from = self.sign.unwrap_or(start);
        self.leaf(from, &format!("number {text:?}"))
    }

    /// `@ 123.4`, `@ -1`, `@ start()`: not operands.
    fn at_modifier(&mut self) {
        self.copy(1);
        self.space();
        self.copy_while(|b| matches!(b, b'+' | b'-'));
        self.space();
        self.copy_while(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'_');
        if self.out.ends_with(['e', 'E']) {
            self.copy_while(|b| matches!(b, b'+' | b'-'));
            self.copy_while(|b| b.is_ascii_digit());
        }
        self.space();
        if self.peek() == Some(b'(') {
            self.copy(1);
            self.space();
            if self.peek() == Some(b')') {
                self.copy(1);
            }
        }
        self.operand = false;
    }

    fn word(&mut self) -> Result<(), QueryError> {
        let start = self.at;
        self.copy_while(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b':');
        let word = self.src[start..self.at].to_ascii_lowercase();
        let called = self.src[self.at..].trim_start().starts_with('(');
        if GROUPING.contains(&word.as_str()) && called {
            self.space();
            return self.label_list();
        }
        if !self.operand && OPERATORS.contains(&word.as_str()) {
            self.operand = true;
        } else if !self.operand && word == "offset" {
            self.space();
            if self.peek() == Some(b'+') {
                return Err(error(self.src, self.at, "unexpected <op:+> in offset, expected duration"));
            }
            self.copy_while(|b| b == b'-');
            self.space();
            if self.peek().is_some_and(|b| b.is_ascii_digit()) {
                self.duration()?;
            }
        } else if self.operand && !matches!(word.as_str(), "bool" | "group_left" | "group_right") {
            self.leaf(start, "identifier")?;
            let brace = self.src[self.at..].trim_start().starts_with('{');
            if !called && brace {
                self.space();
                self.braces()?;
            }
        } else if !self.operand {
            let written = &self.src[start..self.at];
            let what = match word.as_str() {
                "bool" | "start" | "end" => format!("<{word}>"),
                keyword if GROUPING.contains(&keyword) => format!("<{keyword}>"),
                "nan" | "inf" => format!("number {written:?}"),
                _ => format!("identifier {written:?}"),
            };
            return Err(error(self.src, start, format!("unexpected {what}")));
        }
        Ok(())
    }

    /// The label list `(a, b)` of a grouping, starting at its opening parenthesis.
    fn label_list(&mut self) -> Result<(), QueryError> {
        let (open, mut labels) = (self.at, 0);
        self.copy(1);
        let mut label = true;
        loop {
            self.space();
            match self.peek() {
                Some(b')') => {
                    self.copy(1);
                    return Ok(());
                }
                Some(b',') if !label => {
                    self.copy(1);
                    label = true;
                }
                Some(c) if label && (c.is_ascii_alphabetic() || c == b'_') => {
                    self.copy_while(|b| b.is_ascii_alphanumeric() || b == b'_');
                    label = false;
                    labels += 1;
                    if labels > MAX_LABELS {
                        return Err(error(self.src, open, format!("more than {MAX_LABELS} labels in grouping opts")));
                    }
                }
                Some(_) => {
                    let rest = &self.src[self.at..];
                    let word = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
                    let found = match word {
                        0 => format!("{:?}", rest.chars().next().unwrap_or('?').to_string()),
                        n => format!("identifier {:?}", &rest[..n]),
                    };
                    let expected = if label { "label" } else { "\",\" or \")\"" };
                    let message = format!("unexpected {found} in grouping opts, expected {expected}");
                    return Err(error(self.src, self.at, message));
                }
                None => return Err(error(self.src, self.at, "unclosed left parenthesis")),
            }
        }
    }

    /// Copies a string literal; records a regular expression and writes its number.
    fn string(&mut self) -> Result<(), QueryError> {
        let (text, len) = unquote(&self.src[self.at..]).map_err(|m| error(self.src, self.at, m))?;
        let span = self.at..self.at + len;
        self.at = span.end;
        let before = self.out.trim_end();
        if before.ends_with('~') {
            let pattern = ScannedPattern { text, span, negated: before.ends_with("!~") };
            self.out.push_str(&pattern.stand_in(&self.patterns.len().to_string()));
            self.patterns.push(pattern);
        } else {
            self.out.push('"');
            self.out.push_str(&promql_parser::util::escape_string(&text));
            self.out.push('"');
        }
        Ok(())
    }
}
