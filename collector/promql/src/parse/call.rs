//! Calls of functions and aggregations, with the types of their arguments.

use super::Parser;
use super::lex::{Kind, Parsed};
use crate::functions::{self, Function};
use crate::plan::{AGGREGATIONS, Aggregate, AggregateOp, Expr, Grouping, Node};
use crate::value::ValueKind;

/// Maximum labels of a grouping.
const MAX_LABELS: usize = 128;

impl Parser<'_, '_> {
    pub(super) fn call(&mut self) -> Parsed<Expr> {
        self.operand()?;
        let offset = self.token().start;
        let written = self.word();
        // Words that are keywords elsewhere are so in any case.
        let lower = written.to_ascii_lowercase();
        let name = if matches!(lower.as_str(), "start" | "end" | "step" | "range") { &lower } else { written };
        let id =
            functions::find(name).ok_or_else(|| self.error(offset, format!("unknown function with name {name:?}")))?;
        self.skip();
        let function = functions::get(id);
        let args = self.arguments(|parser, at| {
            if function.name == "info" && at == 1 { parser.label_selector() } else { parser.expression(0) }
        })?;
        self.check_arguments(function, &args, offset)?;
        Ok(Expr { kind: function.result, offset, node: Node::Call(id, args) })
    }

    /// Arguments in parentheses.
    fn arguments(&mut self, argument: impl Fn(&mut Self, usize) -> Parsed<Expr>) -> Parsed<Vec<Expr>> {
        self.expect(b'(', "call")?;
        let mut args = vec![];
        if self.take(b')') {
            return Ok(args);
        }
        loop {
            args.push(argument(self, args.len())?);
            let comma = self.token().start;
            if !self.take(b',') {
                self.expect(b')', "")?;
                return Ok(args);
            }
            if self.token().kind == Kind::Mark(b')') {
                return Err(self.error(comma, "trailing commas not allowed in function call args"));
            }
        }
    }

    fn check_arguments(&self, f: &Function, args: &[Expr], offset: usize) -> Parsed<()> {
        let (name, got) = (f.name, args.len());
        let message = match (f.min_args, f.max_args) {
            (least, Some(most)) if least == most && got != least => {
                format!("expected {least} argument(s) in call to {name:?}, got {got}")
            }
            (least, _) if got < least => {
                format!("expected at least {least} argument(s) in call to {name:?}, got {got}")
            }
            (_, Some(most)) if got > most => {
                format!("expected at most {most} argument(s) in call to {name:?}, got {got}")
            }
            _ => {
                for (i, a) in args.iter().enumerate() {
                    let Some(want) = f.args.get(i).or(f.args.last()) else { break };
                    self.expect_type(*want, a, &format!("call to function {name:?}"))?;
                }
                return Ok(());
            }
        };
        Err(self.error(offset, message))
    }

    fn expect_type(&self, want: ValueKind, e: &Expr, place: &str) -> Parsed<()> {
        if e.kind == want {
            return Ok(());
        }
        let (want, got) = (want.documented(), e.kind.documented());
        Err(self.error(e.offset, format!("expected type {want} in {place}, got {got}")))
    }

    /// The aggregation that a word begins here; the same word may be a metric.
    pub(super) fn aggregation(&self, word: &str) -> Option<AggregateOp> {
        let found = AGGREGATIONS.iter().find(|(name, _)| *name == word).map(|(_, op)| *op)?;
        let next = self.tokens.get(self.at + 1)?;
        let grouped = next.kind == Kind::Word
            && ["by", "without"].iter().any(|word| next.text(self.query).eq_ignore_ascii_case(word));
        (next.kind == Kind::Mark(b'(') || grouped).then_some(found)
    }

    pub(super) fn aggregate(&mut self, op: AggregateOp) -> Parsed<Expr> {
        self.operand()?;
        let offset = self.token().start;
        self.skip();
        let before = self.aggregate_grouping()?;
        if self.token().kind != Kind::Mark(b'(') {
            return Err(self.unexpected("aggregation", ""));
        }
        let mut args = self.arguments(|parser, _| parser.expression(0))?;
        let after = if before.is_none() { self.aggregate_grouping()? } else { None };
        let grouping = before.or(after).unwrap_or(Grouping { keep: true, labels: vec![] });
        let wanted = 1 + usize::from(op.param().is_some());
        if args.is_empty() {
            return Err(self.error(offset, "no arguments for aggregate expression provided"));
        }
        let got = args.len();
        let (Some(expr), true) = (args.pop(), got == wanted) else {
            let message =
                format!("wrong number of arguments for aggregate expression provided, expected {wanted}, got {got}");
            return Err(self.error(offset, message));
        };
        let param = args.pop();
        self.expect_type(ValueKind::Vector, &expr, "aggregation expression")?;
        if let (Some(p), Some(want)) = (&param, op.param()) {
            self.expect_type(want, p, "aggregation parameter")?;
        }
        let node = Node::Aggregate(Box::new(Aggregate { op, expr, param, grouping }));
        Ok(Expr { kind: ValueKind::Vector, offset, node })
    }

    fn aggregate_grouping(&mut self) -> Parsed<Option<Grouping>> {
        let keep = self.is_word("by");
        if !keep && !self.is_word("without") {
            return Ok(None);
        }
        self.skip();
        Ok(Some(Grouping { keep, labels: self.labels()? }))
    }

    /// A list of labels in parentheses.
    pub(super) fn labels(&mut self) -> Parsed<Vec<String>> {
        let open = self.token().start;
        self.expect(b'(', "grouping opts")?;
        let (mut labels, mut more) = (vec![], true);
        while !self.take(b')') {
            let token = self.token();
            match token.kind {
                _ if !more => return Err(self.unexpected("grouping opts", "\",\" or \")\"")),
                Kind::Word if !self.word().contains(':') => {
                    labels.push(self.word().to_owned());
                    self.skip();
                }
                Kind::Text => match self.text()? {
                    name if name.is_empty() => {
                        return Err(self.error(token.start, "invalid label name \"\" in grouping opts"));
                    }
                    name => labels.push(name),
                },
                _ => return Err(self.unexpected("grouping opts", "label")),
            }
            if labels.len() > MAX_LABELS {
                return Err(self.error(open, format!("more than {MAX_LABELS} labels in grouping opts")));
            }
            more = self.take(b',');
        }
        Ok(labels)
    }
}
