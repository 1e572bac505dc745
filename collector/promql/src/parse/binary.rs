//! Binary operators: their modifiers, and the types of their operands.

use super::Parser;
use super::lex::{Kind, Parsed};
use crate::plan::{Binary, BinaryOp, Cardinality, Expr, Fill, Grouping, Node};
use crate::value::ValueKind;

/// What stands between an operator and its right operand.
pub(super) struct Modifiers {
    bool_result: bool,
    /// `on` or `ignoring`.
    grouping: Option<Grouping>,
    cardinality: Cardinality,
    include: Vec<String>,
    fill: Fill,
}

impl Parser<'_, '_> {
    pub(super) fn modifiers(&mut self, op: BinaryOp) -> Parsed<Modifiers> {
        let mut m = Modifiers {
            bool_result: false,
            grouping: None,
            cardinality: Cardinality::OneToOne,
            include: vec![],
            fill: Fill::default(),
        };
        if self.is_word("bool") {
            if !op.is_comparison() {
                return Err(self.error(self.token().start, "bool modifier can only be used on comparison operators"));
            }
            m.bool_result = true;
            self.skip();
        }
        if self.is_word("on") || self.is_word("ignoring") {
            let keep = self.is_word("on");
            self.skip();
            m.grouping = Some(Grouping { keep, labels: self.labels()? });
            self.group_modifier(op, &mut m)?;
        }
        while self.followed_by(b'(') {
            let at = self.token().start;
            let (left, right) = match self.word().to_ascii_lowercase().as_str() {
                "fill" => (true, true),
                "fill_left" => (true, false),
                "fill_right" => (false, true),
                _ => break,
            };
            if op.is_set() {
                return Err(self.error(at, "filling in missing series not allowed for set operators"));
            }
            if left && m.fill.left.is_some() || right && m.fill.right.is_some() {
                return Err(self.error(at, "fill modifiers of one side may not be set multiple times"));
            }
            self.skip();
            let value = Some(self.fill_value()?);
            m.fill.left = if left { value } else { m.fill.left };
            m.fill.right = if right { value } else { m.fill.right };
        }
        Ok(m)
    }

    fn group_modifier(&mut self, op: BinaryOp, m: &mut Modifiers) -> Parsed<()> {
        let at = self.token().start;
        m.cardinality = match self.word().to_ascii_lowercase().as_str() {
            "group_left" => Cardinality::ManyToOne,
            "group_right" => Cardinality::OneToMany,
            _ => return Ok(()),
        };
        if op.is_set() {
            return Err(self.error(at, format!("no grouping allowed for {:?} operation", op.symbol())));
        }
        self.skip();
        if self.token().kind == Kind::Mark(b'(') {
            m.include = self.labels()?;
        }
        let matched = m.grouping.as_ref().filter(|g| g.keep).map_or(&[][..], |g| &g.labels);
        match m.include.iter().find(|label| matched.contains(label)) {
            Some(twice) => {
                Err(self.error(at, format!("label {twice:?} must not occur in ON and GROUP clause at once")))
            }
            None => Ok(()),
        }
    }

    /// A number in parentheses.
    fn fill_value(&mut self) -> Parsed<f64> {
        self.expect(b'(', "fill modifier")?;
        let value = self.signed_number("fill modifier", "number")?;
        self.expect(b')', "fill modifier")?;
        Ok(value)
    }

    pub(super) fn binary(&self, op: BinaryOp, at: usize, m: Modifiers, lhs: Expr, rhs: Expr) -> Parsed<Expr> {
        let offset = lhs.offset;
        let operand = |k| matches!(k, ValueKind::Scalar | ValueKind::Vector);
        if !operand(lhs.kind) || !operand(rhs.kind) {
            let at = if operand(lhs.kind) { rhs.offset } else { lhs.offset };
            return Err(self.error(at, "binary expression must contain only scalar and instant vector types"));
        }
        let vectors = [lhs.kind, rhs.kind].iter().filter(|k| **k == ValueKind::Vector).count();
        let message = match op {
            _ if op.is_comparison() && vectors == 0 && !m.bool_result => {
                Some("comparisons between scalars must use BOOL modifier".to_owned())
            }
            _ if op.is_set() && vectors < 2 => {
                Some(format!("set operator {:?} not allowed in binary scalar expression", op.symbol()))
            }
            _ if vectors < 2 && m.grouping.is_some() => {
                Some("vector matching only allowed between instant vectors".to_owned())
            }
            _ if vectors < 2 && m.fill != Fill::default() => {
                Some("filling in missing series only allowed between instant vectors".to_owned())
            }
            _ => None,
        };
        if let Some(message) = message {
            return Err(self.error(if op.is_comparison() { offset } else { at }, message));
        }
        let grouping = m.grouping.unwrap_or(Grouping { keep: false, labels: vec![] });
        let kind = if vectors == 0 { ValueKind::Scalar } else { ValueKind::Vector };
        let Modifiers { bool_result, cardinality, include, fill, .. } = m;
        let binary = Binary { op, lhs, rhs, bool_result, cardinality, grouping, include, fill };
        Ok(Expr { kind, offset, node: Node::Binary(Box::new(binary)) })
    }
}
