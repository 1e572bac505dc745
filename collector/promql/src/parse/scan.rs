//! A pass over the query text before the grammar sees it. It
//! - rewrites string literals to the escapes the grammar crate understands (it rejects raw strings with backslashes),
//! - finds where each operand begins, because the crate's tree carries no positions and annotations need them,
//! - refuses what 2.53 does not know but the crate accepts, and queries too large to be meant seriously.

use super::QueryError;
use crate::error::Position;

/// Bytes; Grafana's largest generated queries stay far below.
const MAX_BYTES: usize = 1 << 20;
/// Operands in one query: bounds the depth of the tree.
const MAX_LEAVES: usize = 5_000;

/// The prepared text.
pub(crate) struct Scanned {
    pub text: String,
    /// Byte offset in the original of each operand (selector, literal, call, aggregation), in order of appearance.
    pub leaves: Vec<usize>,
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
        operand: true,
        sign: None,
    };
    s.run()?;
    if s.leaves.is_empty() && s.out.trim().is_empty() {
        return Err(error(query, query.len(), "no expression found in input"));
    }
    if s.leaves.len() > MAX_LEAVES {
        return Err(QueryError::parse(format!("query has more than {MAX_LEAVES} operands; split it")));
    }
    Ok(Scanned { text: s.out, leaves: s.leaves })
}

/// The grammar crate's message as ours; it knows no place.
pub(crate) fn explain(message: &str) -> QueryError {
    if message == "invalid promql query" {
        return QueryError::parse("unexpected token: the query does not follow the grammar");
    }
    // Type errors, in Prometheus' words.
    let typed =
        message.starts_with("expected ") || message.starts_with("subquery is only") || message.contains("unary");
    if !typed {
        return QueryError::parse(message);
    }
    let word = |w: &str| match w.trim_end_matches(',') {
        "vector" => w.replace("vector", "instant vector"),
        "matrix" => w.replace("matrix", "range vector"),
        _ => w.replace('\'', "\""),
    };
    QueryError::parse(message.split(' ').map(word).collect::<Vec<_>>().join(" "))
}

fn error(query: &str, offset: usize, message: impl Into<String>) -> QueryError {
    QueryError::Parse { message: message.into(), position: Some(Position::of(query, offset)) }
}

struct Scanner<'a> {
    src: &'a str,
    at: usize,
    out: String,
    leaves: Vec<usize>,
    /// Whether an operand may come next (else an operator).
    operand: bool,
    /// Where the sign of a literal that may follow stands: it is part of the literal.
    sign: Option<usize>,
}

const GROUPING: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
const OPERATORS: [&str; 4] = ["and", "or", "unless", "atan2"];

impl Scanner<'_> {
    fn run(&mut self) -> Result<(), QueryError> {
        while let Some(c) = self.peek() {
            match c {
                b'#' => self.comment(),
                b'"' | b'\'' | b'`' => {
                    self.leaves.push(self.at);
                    self.string()?;
                    self.operand = false;
                }
                b'{' => {
                    if self.operand {
                        self.leaves.push(self.at);
                    }
                    self.braces()?;
                    self.operand = false;
                }
                b'[' => self.brackets()?,
                b'@' => self.at_modifier(),
                b'0'..=b'9' | b'.' => self.number()?,
                b'a'..=b'z' | b'A'..=b'Z' | b'_' | b':' => self.word()?,
                b')' => {
                    self.copy(1);
                    self.operand = false;
                }
                c if c.is_ascii_whitespace() => self.copy(1),
                c if c.is_ascii() => {
                    self.sign = (self.operand && matches!(c, b'+' | b'-')).then_some(self.at);
                    self.copy(1);
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

    /// Comments end at a newline and become a space: the grammar crate knows them in few places.
    fn comment(&mut self) {
        let rest = &self.src[self.at..];
        self.at += rest.find('\n').unwrap_or(rest.len());
        self.out.push(' ');
    }

    fn braces(&mut self) -> Result<(), QueryError> {
        let open = self.at;
        self.copy(1);
        loop {
            match self.peek() {
                None => return Err(error(self.src, open, "unexpected end of input inside braces")),
                Some(b'}') => {
                    self.copy(1);
                    return Ok(());
                }
                Some(b'"' | b'\'' | b'`') => self.string()?,
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

    /// A duration with units; 2.53 does not take bare numbers for seconds.
    fn duration(&mut self) -> Result<(), QueryError> {
        let start = self.at;
        self.copy_while(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'_');
        let text = &self.src[start..self.at];
        if text.bytes().all(|b| b.is_ascii_digit()) && text != "0" {
            return Err(error(self.src, start, "missing unit character in duration"));
        }
        if promql_parser::util::parse_duration(text).is_err() || !text.ends_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(error(self.src, start, format!("not a valid duration string: {text:?}")));
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), QueryError> {
        let start = self.at;
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
        if promql_parser::util::parse_str_radix(text).is_err() {
            let duration = promql_parser::util::parse_duration(text).is_ok();
            let what = if duration { "unexpected duration" } else { "bad number or duration syntax:" };
            return Err(error(self.src, start, format!("{what} {text:?}")));
        }
        self.leaves.push(self.sign.take().unwrap_or(start));
        self.operand = false;
        Ok(())
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
        self.sign = None;
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
            self.copy_while(|b| matches!(b, b'+' | b'-'));
            self.space();
            if self.peek().is_some_and(|b| b.is_ascii_digit()) {
                self.duration()?;
            }
        } else if self.operand && !matches!(word.as_str(), "bool" | "group_left" | "group_right") {
            self.leaves.push(start);
            self.operand = false;
            let brace = self.src[self.at..].trim_start().starts_with('{');
            if !called && brace {
                self.space();
                self.braces()?;
            }
        }
        Ok(())
    }

    fn label_list(&mut self) -> Result<(), QueryError> {
        while let Some(c) = self.peek() {
            match c {
                b'"' | b'\'' | b'`' => self.string()?,
                b'#' => self.comment(),
                b')' => {
                    self.copy(1);
                    break;
                }
                c if c.is_ascii() => self.copy(1),
                _ => return Err(error(self.src, self.at, "unexpected character in grouping opts, expected label")),
            }
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), QueryError> {
        let (text, len) = unquote(&self.src[self.at..]).map_err(|m| error(self.src, self.at, m))?;
        self.at += len;
        self.out.push('"');
        self.out.push_str(&promql_parser::util::escape_string(&text));
        self.out.push('"');
        Ok(())
    }
}

/// The value of the string literal at the start of `src` and the bytes it takes.
fn unquote(src: &str) -> Result<(String, usize), String> {
    let quote = src.chars().next().unwrap_or('"');
    let body = &src[1..];
    if quote == '`' {
        let end = body.find('`').ok_or("unterminated raw string")?;
        return Ok((body[..end].to_owned(), end + 2));
    }
    let mut bytes = Vec::new();
    let mut chars = body.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            c if c == quote => {
                let text = String::from_utf8(bytes).map_err(|_| "string literal is not valid UTF-8")?;
                return Ok((text, i + 2));
            }
            '\n' => break,
            '\\' => {
                let (_, kind) = chars.next().ok_or("escape sequence not terminated")?;
                unescape(kind, quote, &mut chars, &mut bytes)?;
            }
            c => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    Err("unterminated quoted string".into())
}

fn unescape(kind: char, quote: char, chars: &mut std::str::CharIndices<'_>, bytes: &mut Vec<u8>) -> Result<(), String> {
    let simple = match kind {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        c if c == quote => quote as u8,
        _ => 0,
    };
    if simple != 0 {
        bytes.push(simple);
        return Ok(());
    }
    let (digits, radix) = match kind {
        'x' => (2, 16),
        'u' => (4, 16),
        'U' => (8, 16),
        '0'..='7' => (3, 8),
        c => return Err(format!("unknown escape sequence {c:?}")),
    };
    let mut code = if radix == 8 { kind.to_digit(8).unwrap_or(0) } else { 0 };
    for _ in 0..digits - u32::from(radix == 8) {
        let (_, c) = chars.next().ok_or("escape sequence not terminated")?;
        let digit = c.to_digit(radix).ok_or_else(|| format!("illegal character {c:?} in escape sequence"))?;
        code = code.checked_mul(radix).map_or(u32::MAX, |v| v.saturating_add(digit));
    }
    if matches!(kind, 'u' | 'U') {
        let c = char::from_u32(code).ok_or("escape sequence is an invalid Unicode code point")?;
        bytes.extend(c.encode_utf8(&mut [0; 4]).bytes());
    } else {
        bytes.push(u8::try_from(code).map_err(|_| "escape sequence is larger than a byte")?);
    }
    Ok(())
}
