//! Splits query text into tokens with their positions. Brackets and quotes are balanced afterwards, and no deeper than
//! [`MAX_DEPTH`].

use super::literal::{self, number, unquote};
use crate::error::{Position, QueryError};
use crate::plan::BinaryOp;

/// Maximum bytes of a query; the largest generated queries of dashboards are far smaller.
const MAX_BYTES: usize = 1 << 20;
/// Maximum nesting of parentheses.
const MAX_DEPTH: usize = 500;

/// A part of the query, or why there is none.
pub(super) type Parsed<T> = Result<T, QueryError>;

/// A parse error at a byte of the query.
pub(super) fn error(query: &str, offset: usize, message: impl Into<String>) -> QueryError {
    QueryError::Parse { message: message.into(), position: Some(Position::of(query, offset)) }
}

/// Words that are neither functions nor metrics where an operator or a grouping is expected.
const KEYWORDS: [&str; 15] = [
    "bool",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "offset",
    "start",
    "end",
    "anchored",
    "smoothed",
    "fill",
    "fill_left",
    "fill_right",
];

pub(super) fn is_keyword(text: &str) -> bool {
    KEYWORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A number, or seconds of a duration.
    Number(f64),
    /// A string literal with its quotes.
    Text,
    /// A name or a keyword.
    Word,
    Operator(BinaryOp),
    /// `=`
    Assign,
    /// `=~`
    Match,
    /// `!~`
    NotMatch,
    /// `( ) [ ] { } , : @`
    Mark(u8),
    /// End of the query.
    End,
}

/// A token: bytes `start..end` of the query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

impl Token {
    pub fn text(self, query: &str) -> &str {
        &query[self.start..self.end]
    }

    /// As error messages name it.
    pub fn describe(self, query: &str) -> String {
        let text = self.text(query);
        match self.kind {
            Kind::Number(_) => format!("number {text:?}"),
            Kind::Text => format!("string {text:?}"),
            Kind::Word if is_keyword(text) => format!("<{}>", text.to_ascii_lowercase()),
            Kind::Word if is_set_operator(text) => format!("<op:{}>", text.to_ascii_lowercase()),
            Kind::Word => format!("identifier {text:?}"),
            Kind::Operator(_) | Kind::Assign | Kind::Match | Kind::NotMatch => format!("<op:{text}>"),
            Kind::Mark(b'@') => "<op:@>".to_owned(),
            Kind::Mark(_) => format!("{text:?}"),
            Kind::End => "end of input".to_owned(),
        }
    }
}

fn is_set_operator(text: &str) -> bool {
    ["and", "or", "unless", "atan2"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// All tokens; the last is [`Kind::End`].
pub(super) fn lex(query: &str) -> Parsed<Vec<Token>> {
    if query.len() > MAX_BYTES {
        return Err(error(query, 0, format!("query of {} bytes is longer than {MAX_BYTES}", query.len())));
    }
    let mut lexer = Lexer { query, at: 0, tokens: vec![], open: vec![] };
    while let Some(byte) = lexer.peek(0) {
        lexer.token(byte)?;
    }
    if let Some((bracket, at)) = lexer.open.pop() {
        let (at, message) = match bracket {
            b'(' => (query.len(), "unclosed left parenthesis"),
            b'{' => (at, "unexpected end of input inside braces"),
            _ => (at, "unexpected end of input in brackets"),
        };
        return Err(error(query, at, message));
    }
    lexer.tokens.push(Token { kind: Kind::End, start: query.len(), end: query.len() });
    Ok(lexer.tokens)
}

struct Lexer<'q> {
    query: &'q str,
    at: usize,
    tokens: Vec<Token>,
    /// Open brackets with their positions.
    open: Vec<(u8, usize)>,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.query.as_bytes().get(self.at + ahead).copied()
    }

    fn push(&mut self, kind: Kind, length: usize) {
        self.tokens.push(Token { kind, start: self.at, end: self.at + length });
        self.at += length;
    }

    fn run(&self, accept: impl Fn(u8) -> bool) -> usize {
        self.query.as_bytes()[self.at..].iter().take_while(|b| accept(**b)).count()
    }

    fn token(&mut self, byte: u8) -> Parsed<()> {
        use BinaryOp::{
            Add, Div, Equal, Greater, GreaterEqual, Less, LessEqual, Mod, Mul, NotEqual, Pow, Sub, TrimLower, TrimUpper,
        };
        let second = self.peek(1);
        match byte {
            b'#' => self.at += self.run(|b| b != b'\n'),
            b if b.is_ascii_whitespace() => self.at += 1,
            b'"' | b'\'' | b'`' => {
                let (_, length) = unquote(&self.query[self.at..]).map_err(|m| error(self.query, self.at, m))?;
                self.push(Kind::Text, length);
            }
            b'0'..=b'9' | b'.' => return self.number(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(),
            // In brackets a colon stands before the resolution of a subquery.
            b':' if self.open.last().is_some_and(|o| o.0 == b'[') => self.push(Kind::Mark(b':'), 1),
            b':' => self.word(),
            b'(' | b'[' | b'{' => return self.open(byte),
            b')' | b']' | b'}' => return self.close(byte),
            b',' | b'@' => self.push(Kind::Mark(byte), 1),
            b'+' => self.push(Kind::Operator(Add), 1),
            b'-' => self.push(Kind::Operator(Sub), 1),
            b'*' => self.push(Kind::Operator(Mul), 1),
            b'/' => self.push(Kind::Operator(Div), 1),
            b'%' => self.push(Kind::Operator(Mod), 1),
            b'^' => self.push(Kind::Operator(Pow), 1),
            b'=' if second == Some(b'=') => self.push(Kind::Operator(Equal), 2),
            b'=' if second == Some(b'~') => self.push(Kind::Match, 2),
            b'=' => self.push(Kind::Assign, 1),
            b'!' if second == Some(b'=') => self.push(Kind::Operator(NotEqual), 2),
            b'!' if second == Some(b'~') => self.push(Kind::NotMatch, 2),
            b'<' if second == Some(b'=') => self.push(Kind::Operator(LessEqual), 2),
            b'<' if second == Some(b'/') => self.push(Kind::Operator(TrimUpper), 2),
            b'<' => self.push(Kind::Operator(Less), 1),
            b'>' if second == Some(b'=') => self.push(Kind::Operator(GreaterEqual), 2),
            b'>' if second == Some(b'/') => self.push(Kind::Operator(TrimLower), 2),
            b'>' => self.push(Kind::Operator(Greater), 1),
            _ => {
                let found = self.query[self.at..].chars().next().unwrap_or('?');
                let place = match self.open.last() {
                    Some((b'{', _)) => " inside braces",
                    Some((b'[', _)) => " in duration expression",
                    _ => "",
                };
                return Err(error(self.query, self.at, format!("unexpected character{place}: {found:?}")));
            }
        }
        Ok(())
    }

    fn open(&mut self, bracket: u8) -> Parsed<()> {
        if self.open.len() == MAX_DEPTH {
            return Err(error(self.query, self.at, format!("more than {MAX_DEPTH} nested parentheses")));
        }
        self.open.push((bracket, self.at));
        self.push(Kind::Mark(bracket), 1);
        Ok(())
    }

    fn close(&mut self, bracket: u8) -> Parsed<()> {
        let opening = match bracket {
            b')' => b'(',
            b']' => b'[',
            _ => b'{',
        };
        match self.open.pop() {
            Some((open, _)) if open == opening => {
                self.push(Kind::Mark(bracket), 1);
                Ok(())
            }
            open => {
                let message = match (open.is_none(), bracket) {
                    // Prometheus reports the position after it.
                    (true, b')') => return Err(error(self.query, self.at + 1, "unexpected right parenthesis ')'")),
                    (_, b']') => "unexpected right bracket ']'".to_owned(),
                    (_, b) => format!("unexpected character: {:?}", char::from(b)),
                };
                Err(error(self.query, self.at, message))
            }
        }
    }

    fn word(&mut self) {
        let colon = self.open.last().is_none_or(|o| o.0 != b'[');
        let length = self.run(|b| b.is_ascii_alphanumeric() || b == b'_' || colon && b == b':');
        self.push(Kind::Word, length);
    }

    /// A number or a duration.
    fn number(&mut self) -> Parsed<()> {
        let bytes = &self.query.as_bytes()[self.at..];
        let hex = bytes[0] == b'0' && matches!(bytes.get(1), Some(b'x' | b'X'));
        let mut length = 0;
        while let Some(b) = bytes.get(length) {
            let sign = matches!(b, b'+' | b'-') && !hex && length > 0 && matches!(bytes[length - 1], b'e' | b'E');
            if !(b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_') || sign) {
                break;
            }
            length += 1;
        }
        let text = &self.query[self.at..self.at + length];
        let value = match number(text) {
            Some(value) => value,
            None => match literal::duration(text) {
                Err(m) if m.contains("out of range") => Err(m),
                Err(_) => Err(format!("bad number or duration syntax: {text:?}")),
                Ok(ms) => Ok(ms as f64 / 1000.0),
            },
        };
        let value = value.map_err(|m| error(self.query, self.at, m))?;
        self.push(Kind::Number(value), length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_cover_the_text() {
        let query = "sum by(\"a.b\")(rate(x:y{c!~'d'}[5m:1e3])) >= bool 0x1F # rest";
        let tokens = lex(query).unwrap();
        let texts: Vec<&str> = tokens.iter().map(|t| t.text(query)).collect();
        let want = "sum by ( \"a.b\" ) ( rate ( x:y { c !~ 'd' } [ 5m : 1e3 ] ) ) >= bool 0x1F ";
        assert_eq!(texts.join(" "), want);
        assert_eq!(tokens[15].kind, Kind::Number(300.0));
        for (bad, at) in [("a)", 2), ("(a", 2), ("a]", 1), ("{a", 0), ("a$", 1), ("5mm", 0), ("\"a", 0), ("(a]", 2)] {
            assert_eq!(
                lex(bad).unwrap_err(),
                error(bad, at, lex(bad).unwrap_err().to_string().split_once("error: ").unwrap().1)
            );
        }
    }
}
