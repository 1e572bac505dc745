//! Parses query text to a plan by recursive descent, and type-checks it as Prometheus does. [`lex`] makes tokens of
//! the text; operands, signs and brackets are counted, so that neither stack nor memory can run out.

mod binary;
mod call;
mod duration;
mod expression;
mod format;
mod lex;
mod literal;
mod only_back;
pub(crate) mod pattern;
mod selector;

pub(crate) use format::format;
pub(crate) use only_back::looks_only_back;

use crate::error::QueryError;
use crate::plan::{BinaryOp, Expr, Resolution};
use fabriclens_model::Patterns;
use lex::{Kind, Parsed, Token, error};

/// Bytes of tokens and plan for each byte of the text and for each operand, at most; those of ordinary queries are not
/// worth counting.
const PLAN_OF_BYTE: usize = 64;
const PLAN_OF_OPERAND: usize = 6 << 10;
const FREE_OPERANDS: usize = 10;
const FREE_BYTES: usize = 1000;
/// Maximum operands of a query, and maximum signs and brackets.
const MAX_OPERANDS: usize = 5_000;

/// Parses and type-checks a query. Durations that contain `step()` or `range()` need its resolution.
pub(crate) fn parse(query: &str, resolution: Option<Resolution>, patterns: &mut Patterns<'_>) -> Parsed<Expr> {
    let bytes = query.len().saturating_sub(FREE_BYTES) * PLAN_OF_BYTE;
    patterns.budget().request(bytes)?;
    let tokens = lex::lex(query)?;
    let mut parser = Parser { query, tokens: &tokens, at: 0, resolution, patterns, operands: 0, prefixes: 0 };
    if parser.token().kind == Kind::End {
        return Err(parser.error(query.len(), "no expression found in input"));
    }
    let expr = parser.expression(0)?;
    match parser.token().kind {
        Kind::End => Ok(expr),
        _ => Err(parser.unexpected("", "")),
    }
}

struct Parser<'a, 'p> {
    query: &'a str,
    tokens: &'a [Token],
    at: usize,
    resolution: Option<Resolution>,
    patterns: &'a mut Patterns<'p>,
    /// Operands so far.
    operands: usize,
    /// Signs and brackets so far.
    prefixes: usize,
}

impl<'a> Parser<'a, '_> {
    /// The next token.
    fn token(&self) -> Token {
        self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn skip(&mut self) {
        self.at += 1;
    }

    /// Skips the next token if it is this mark.
    fn take(&mut self, mark: u8) -> bool {
        let found = self.token().kind == Kind::Mark(mark);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: u8, context: &str) -> Parsed<()> {
        if self.take(mark) {
            Ok(())
        } else {
            Err(self.unexpected(context, &format!("{:?}", char::from(mark).to_string())))
        }
    }

    /// The next word as written; empty if the next token is none.
    fn word(&self) -> &'a str {
        if self.token().kind == Kind::Word { self.token().text(self.query) } else { "" }
    }

    fn is_word(&self, word: &str) -> bool {
        self.word().eq_ignore_ascii_case(word)
    }

    /// Whether a mark follows the next token.
    fn followed_by(&self, mark: u8) -> bool {
        self.tokens.get(self.at + 1).is_some_and(|t| t.kind == Kind::Mark(mark))
    }

    fn error(&self, offset: usize, message: impl Into<String>) -> QueryError {
        error(self.query, offset, message)
    }

    /// The next token is not what has to be here.
    fn unexpected(&self, context: &str, expected: &str) -> QueryError {
        let found = self.token();
        let mut message = format!("unexpected {}", found.describe(self.query));
        if !context.is_empty() {
            message.push_str(&format!(" in {context}"));
        }
        if !expected.is_empty() {
            message.push_str(&format!(", expected {expected}"));
        }
        self.error(found.start, message)
    }

    /// Counts an operand and charges its memory.
    fn operand(&mut self) -> Parsed<()> {
        self.operands += 1;
        if self.operands > MAX_OPERANDS {
            return Err(
                self.error(self.token().start, format!("query has more than {MAX_OPERANDS} operands; split it"))
            );
        }
        if self.operands > FREE_OPERANDS {
            self.patterns.budget().request(PLAN_OF_OPERAND)?;
        }
        Ok(())
    }

    /// Counts a sign or a bracket.
    fn prefix(&mut self) -> Parsed<()> {
        self.prefixes += 1;
        if self.prefixes > MAX_OPERANDS {
            let message = format!("more than {MAX_OPERANDS} signs and ranges; split the query");
            return Err(self.error(self.token().start, message));
        }
        Ok(())
    }

    /// Takes a sign, if there is one: 1 or -1.
    fn sign(&mut self) -> f64 {
        let Kind::Operator(op @ (BinaryOp::Add | BinaryOp::Sub)) = self.token().kind else { return 1.0 };
        self.skip();
        if op == BinaryOp::Sub { -1.0 } else { 1.0 }
    }

    /// Takes a number with a sign, which may be infinite or none.
    fn signed_number(&mut self, context: &str, expected: &str) -> Parsed<f64> {
        let sign = self.sign();
        let value = match self.token().kind {
            Kind::Number(n) => n,
            Kind::Word if self.is_word("inf") => f64::INFINITY,
            Kind::Word if self.is_word("nan") => f64::NAN,
            _ => return Err(self.unexpected(context, expected)),
        };
        self.skip();
        Ok(sign * value)
    }

    /// The value of the next token, a string literal.
    fn text(&mut self) -> Parsed<String> {
        let token = self.token();
        self.skip();
        literal::unquote(token.text(self.query)).map(|(text, _)| text).map_err(|m| self.error(token.start, m))
    }
}
