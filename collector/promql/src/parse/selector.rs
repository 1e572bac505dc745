//! Selectors: a metric name, label matchers in braces, or both; names with other than word characters are quoted.

use super::Parser;
use super::lex::{Kind, Parsed};
use super::pattern::from_go;
use crate::plan::{BinaryOp, Edges, Expr, Node, Selector, Shift};
use crate::value::ValueKind;
use fabriclens_model::{MatchOp, Matcher, PatternError};

/// Maximum matchers of a selector.
const MAX_MATCHERS: usize = 128;

impl Parser<'_, '_> {
    /// A selector, which must select something.
    pub(super) fn select(&mut self) -> Parsed<Expr> {
        let offset = self.token().start;
        let matchers = self.all_matchers()?;
        if matchers.iter().all(|m| m.matches_value("")) {
            let message = "vector selector must contain at least one non-empty matcher";
            return Err(self.error(offset, message));
        }
        Ok(selected(matchers, offset))
    }

    /// The second argument of `info`: matchers in braces, which may all match nothing.
    pub(super) fn label_selector(&mut self) -> Parsed<Expr> {
        let offset = self.token().start;
        if self.token().kind != Kind::Mark(b'{') {
            return Err(self.error(offset, "expected label selectors only, got vector selector instead"));
        }
        Ok(selected(self.all_matchers()?, offset))
    }

    fn all_matchers(&mut self) -> Parsed<Vec<Matcher>> {
        self.operand()?;
        let mut matchers = vec![];
        if self.token().kind == Kind::Word {
            matchers.push(Matcher::equal("__name__", self.word()));
            self.skip();
        }
        if self.token().kind != Kind::Mark(b'{') {
            return Ok(matchers);
        }
        let open = self.token().start;
        self.skip();
        let named = matchers.len();
        let mut more = true;
        // Before the first pattern is compiled.
        self.check_count(open)?;
        while !self.take(b'}') {
            if !more {
                return Err(self.unexpected("label matching", "\",\" or \"}\""));
            }
            let at = self.token().start;
            let matcher = self.matcher()?;
            let first = matchers.iter().find(|m: &&Matcher| m.name == "__name__" && m.op == MatchOp::Equal);
            if let Some(first) = first
                && matcher.name == "__name__"
                && (named == 1 || self.is_quoted(at))
            {
                let message = format!("metric name must not be set twice: {:?} or {:?}", first.value, matcher.value);
                return Err(self.error(at, message));
            }
            matchers.push(matcher);
            more = self.take(b',');
        }
        Ok(matchers)
    }

    /// Refuses braces with too many matchers. A comma may follow the last one.
    fn check_count(&self, open: usize) -> Parsed<()> {
        let braces = self.tokens[self.at..].split(|token| token.kind == Kind::Mark(b'}')).next().unwrap_or_default();
        let commas = braces.iter().filter(|token| token.kind == Kind::Mark(b',')).count();
        let count = commas + usize::from(braces.last().is_some_and(|last| last.kind != Kind::Mark(b',')));
        if count > MAX_MATCHERS {
            return Err(self.error(open, format!("more than {MAX_MATCHERS} label matchers in a selector")));
        }
        Ok(())
    }

    fn is_quoted(&self, at: usize) -> bool {
        self.query[at..].starts_with(['"', '\'', '`'])
    }

    /// `name OP "value"`, or a quoted metric name.
    fn matcher(&mut self) -> Parsed<Matcher> {
        let name = match self.token().kind {
            Kind::Text => {
                let at = self.token().start;
                let name = self.text()?;
                if matches!(self.token().kind, Kind::Mark(b',' | b'}')) {
                    return Ok(Matcher::equal("__name__", name));
                }
                if name.is_empty() {
                    return Err(self.error(at, "invalid label name \"\""));
                }
                name
            }
            Kind::Word if !self.word().contains(':') => {
                let name = self.word().to_owned();
                self.skip();
                name
            }
            _ => return Err(self.unexpected("label matching", "identifier or \"}\"")),
        };
        let op = match self.token().kind {
            Kind::Assign => MatchOp::Equal,
            Kind::Operator(BinaryOp::NotEqual) => MatchOp::NotEqual,
            Kind::Match => MatchOp::Regex,
            Kind::NotMatch => MatchOp::NotRegex,
            _ => return Err(self.unexpected("label matching", "label matching operator")),
        };
        self.skip();
        if self.token().kind != Kind::Text {
            return Err(self.unexpected("label matching", "string"));
        }
        let at = self.token().start;
        let value = self.text()?;
        let value = if matches!(op, MatchOp::Regex | MatchOp::NotRegex) { from_go(&value) } else { value };
        Matcher::compiled(name, op, value, self.patterns).map_err(|e| match e.source {
            PatternError::Ended(ended) => ended.into(),
            refused => self.error(at, refused.to_string()),
        })
    }
}

fn selected(matchers: Vec<Matcher>, offset: usize) -> Expr {
    let selector = Selector { matchers, shift: Shift::default(), edges: Edges::Plain };
    Expr { kind: ValueKind::Vector, offset, node: Node::Select(selector) }
}
