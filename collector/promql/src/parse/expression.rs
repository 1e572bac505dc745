//! Expressions: operators by precedence, signs, operands, and the modifiers behind operands.

use super::Parser;
use super::lex::{Kind, Parsed};
use crate::plan::{At, BinaryOp, Edges, Expr, Node, Shift, Subquery};
use crate::value::ValueKind;

impl Parser<'_, '_> {
    /// An expression of operators of level `least` and above.
    pub(super) fn expression(&mut self, least: u8) -> Parsed<Expr> {
        let mut left = self.signed()?;
        while let Some(op) = self.operator().filter(|op| op.level() >= least) {
            let at = self.token().start;
            self.skip();
            let modifiers = self.modifiers(op)?;
            let right = self.expression(if op == BinaryOp::Pow { op.level() } else { op.level() + 1 })?;
            left = self.binary(op, at, modifiers, left, right)?;
        }
        Ok(left)
    }

    fn operator(&self) -> Option<BinaryOp> {
        match self.token().kind {
            Kind::Operator(op) => Some(op),
            Kind::Word => match self.word().to_ascii_lowercase().as_str() {
                "and" => Some(BinaryOp::And),
                "or" => Some(BinaryOp::Or),
                "unless" => Some(BinaryOp::Unless),
                "atan2" => Some(BinaryOp::Atan2),
                _ => None,
            },
            _ => None,
        }
    }

    fn signed(&mut self) -> Parsed<Expr> {
        let sign = self.token();
        let Kind::Operator(op @ (BinaryOp::Add | BinaryOp::Sub)) = sign.kind else { return self.modified() };
        self.prefix()?;
        self.skip();
        let inner = self.expression(BinaryOp::Pow.level())?;
        if !matches!(inner.kind, ValueKind::Scalar | ValueKind::Vector) {
            let got = inner.kind.documented();
            let message =
                format!("unary expression only allowed on expressions of type scalar or instant vector, got {got:?}");
            return Err(self.error(inner.offset, message));
        }
        let (kind, offset) = (inner.kind, sign.start);
        let node = match (op, inner.node) {
            (BinaryOp::Add, node) => node,
            (_, Node::Number(n)) => Node::Number(-n),
            (_, node) => Node::Negate(Box::new(Expr { kind, offset: inner.offset, node })),
        };
        Ok(Expr { kind, offset, node })
    }

    /// An operand with ranges, `offset`, `@`, `anchored` and `smoothed`.
    fn modified(&mut self) -> Parsed<Expr> {
        // Modifiers apply to selectors and subqueries themselves, not to those in parentheses.
        let mut bare = self.token().kind != Kind::Mark(b'(');
        let mut expr = self.single()?;
        loop {
            let at = self.token().start;
            match self.token().kind {
                Kind::Mark(b'[') => {
                    expr = self.ranged(expr, bare)?;
                    bare = true;
                }
                Kind::Mark(b'@') => {
                    self.skip();
                    let pinned = self.instant()?;
                    match shift(&mut expr).filter(|_| bare) {
                        None => return Err(self.misplaced(at, "@ modifier")),
                        Some(s) if s.at.is_some() => {
                            return Err(self.error(at, "@ <timestamp> may not be set multiple times"));
                        }
                        Some(s) => s.at = Some(pinned),
                    }
                }
                Kind::Word if self.is_word("offset") => {
                    self.skip();
                    let offset = self.offset_duration()?;
                    match shift(&mut expr).filter(|_| bare) {
                        None => return Err(self.misplaced(at, "offset modifier")),
                        Some(s) if s.offset != 0 => {
                            return Err(self.error(at, "offset may not be set multiple times"));
                        }
                        Some(s) => s.offset = offset,
                    }
                }
                Kind::Word if self.is_word("anchored") || self.is_word("smoothed") => {
                    let edges = if self.is_word("anchored") { Edges::Anchored } else { Edges::Smoothed };
                    self.set_edges(&mut expr, edges, bare)?;
                    self.skip();
                }
                _ => return Ok(expr),
            }
        }
    }

    fn misplaced(&self, at: usize, modifier: &str) -> crate::error::QueryError {
        let message =
            format!("{modifier} must be preceded by an instant vector selector or range vector selector or a subquery");
        self.error(at, message)
    }

    fn set_edges(&self, expr: &mut Expr, edges: Edges, bare: bool) -> Parsed<()> {
        let at = self.token().start;
        let name = self.word().to_ascii_lowercase();
        match &mut expr.node {
            Node::Select(s) if bare && edges == Edges::Anchored && s.edges == Edges::Plain => {
                Err(self.error(at, "anchored modifier must be preceded by a range vector selector"))
            }
            Node::Select(s) | Node::Range(s, _) if bare => {
                if s.edges != Edges::Plain {
                    return Err(self.error(at, "anchored and smoothed modifiers cannot be used together or twice"));
                }
                s.edges = edges;
                Ok(())
            }
            Node::Subquery(_) => Err(self.error(at, format!("{name} modifier is not supported for subqueries"))),
            _ => Err(self.error(at, format!("{name} modifier must be preceded by a vector selector"))),
        }
    }

    /// An operand.
    fn single(&mut self) -> Parsed<Expr> {
        let token = self.token();
        let offset = token.start;
        match token.kind {
            Kind::Number(n) => {
                self.operand()?;
                self.skip();
                Ok(Expr { kind: ValueKind::Scalar, offset, node: Node::Number(n) })
            }
            Kind::Text => {
                self.operand()?;
                Ok(Expr { kind: ValueKind::String, offset, node: Node::Text(self.text()?) })
            }
            Kind::Mark(b'(') => {
                self.skip();
                let inner = self.expression(0)?;
                self.expect(b')', "")?;
                Ok(inner)
            }
            Kind::Mark(b'{') => self.select(),
            Kind::Word => match self.word().to_ascii_lowercase().as_str() {
                "inf" => self.named_number(f64::INFINITY),
                "nan" => self.named_number(f64::NAN),
                // Operators stand between operands; their names may be those of metrics elsewhere.
                "bool" | "on" | "ignoring" | "group_left" | "group_right" => Err(self.unexpected("", "")),
                word => match self.aggregation(word) {
                    Some(op) => self.aggregate(op),
                    None if self.followed_by(b'(') => self.call(),
                    None => self.select(),
                },
            },
            _ => Err(self.unexpected("", "")),
        }
    }

    fn named_number(&mut self, value: f64) -> Parsed<Expr> {
        self.operand()?;
        let offset = self.token().start;
        self.skip();
        Ok(Expr { kind: ValueKind::Scalar, offset, node: Node::Number(value) })
    }

    /// The instant of `@`.
    fn instant(&mut self) -> Parsed<At> {
        let at = self.token().start;
        for (word, place) in [("start", At::Start), ("end", At::End)] {
            if self.is_word(word) {
                self.skip();
                self.expect(b'(', "@")?;
                self.expect(b')', "@")?;
                return Ok(place);
            }
        }
        let seconds = self.signed_number("@", "timestamp")?;
        let ms = self.millis(seconds, at).ok().filter(|_| !seconds.is_nan());
        ms.map(At::Time).ok_or_else(|| self.error(at, "timestamp out of bounds for @ modifier"))
    }

    /// The range or the subquery in brackets behind an expression.
    fn ranged(&mut self, expr: Expr, bare: bool) -> Parsed<Expr> {
        let open = self.token().start;
        self.prefix()?;
        self.skip();
        let range = self.range_duration()?;
        let offset = expr.offset;
        if self.take(b':') {
            let step = if self.token().kind == Kind::Mark(b']') { None } else { Some(self.range_duration()?) };
            self.expect(b']', "subquery selector")?;
            if expr.kind != ValueKind::Vector {
                let got = expr.kind.documented();
                let message = format!("subquery is only allowed on instant vector, got {got} instead");
                return Err(self.error(offset, message));
            }
            let node = Node::Subquery(Box::new(Subquery { expr, range, step, shift: Shift::default() }));
            return Ok(Expr { kind: ValueKind::Matrix, offset, node });
        }
        self.expect(b']', "subquery or range")?;
        let Node::Select(selector) = expr.node else {
            return Err(self.error(open, "ranges only allowed for vector selectors"));
        };
        let message = match &selector {
            _ if !bare => "ranges only allowed for vector selectors",
            s if s.shift.offset != 0 => "no offset modifiers allowed before range",
            s if s.shift.at.is_some() => "no @ modifiers allowed before range",
            s if s.edges != Edges::Plain => "no smoothed modifiers allowed before range",
            _ => return Ok(Expr { kind: ValueKind::Matrix, offset, node: Node::Range(selector, range) }),
        };
        Err(self.error(open, message))
    }
}

fn shift(expr: &mut Expr) -> Option<&mut Shift> {
    match &mut expr.node {
        Node::Select(s) | Node::Range(s, _) => Some(&mut s.shift),
        Node::Subquery(s) => Some(&mut s.shift),
        _ => None,
    }
}
