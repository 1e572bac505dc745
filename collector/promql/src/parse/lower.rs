//! Lowers the grammar crate's syntax tree to the plan: resolves functions, checks types and arity as Prometheus does,
//! attaches positions. Visits operands in the order in which [`super::scan`] found them.

use super::pattern::from_go;
use super::scan::{Scanned, ScannedPattern};
use crate::error::{Position, QueryError};
use crate::functions::{self, Function};
use crate::plan::{
    Aggregate, AggregateOp, At, Binary, BinaryOp, Cardinality, Expr, Grouping, Node, Selector, Shift, Subquery,
};
use crate::value::ValueKind;
use fabriclens_model::{MatchOp, Matcher, PatternError, Patterns};
use promql_parser::label::{MatchOp as ParsedOp, Matchers};
use promql_parser::parser::{self as ast, LabelModifier, Offset, VectorMatchCardinality, token};
use std::time::{Duration, SystemTime};

pub(super) struct Lowering<'a, 'p> {
    query: &'a str,
    leaves: std::slice::Iter<'a, usize>,
    scanned: &'a [ScannedPattern],
    patterns: &'a mut Patterns<'p>,
}

type Lowered<T> = Result<T, QueryError>;

impl<'a, 'p> Lowering<'a, 'p> {
    pub fn new(query: &'a str, scanned: &'a Scanned, patterns: &'a mut Patterns<'p>) -> Self {
        Self { query, leaves: scanned.leaves.iter(), scanned: &scanned.patterns, patterns }
    }

    fn leaf(&mut self) -> usize {
        self.leaves.next().copied().unwrap_or(0)
    }

    fn error(&self, offset: usize, message: impl Into<String>) -> QueryError {
        QueryError::Parse { message: message.into(), position: Some(Position::of(self.query, offset)) }
    }

    pub fn expr(&mut self, tree: &ast::Expr) -> Lowered<Expr> {
        use ValueKind::{Matrix, Scalar, String, Vector};
        Ok(match tree {
            ast::Expr::NumberLiteral(n) => Expr { kind: Scalar, offset: self.leaf(), node: Node::Number(n.val) },
            ast::Expr::StringLiteral(s) => Expr { kind: String, offset: self.leaf(), node: Node::Text(s.val.clone()) },
            ast::Expr::VectorSelector(s) => {
                let offset = self.leaf();
                Expr { kind: Vector, offset, node: Node::Select(self.selector(s, offset)?) }
            }
            ast::Expr::MatrixSelector(m) => {
                let offset = self.leaf();
                let range = millis(m.range).ok_or_else(|| self.error(offset, "duration out of range"))?;
                Expr { kind: Matrix, offset, node: Node::Range(self.selector(&m.vs, offset)?, range) }
            }
            ast::Expr::Paren(p) => self.expr(&p.expr)?,
            ast::Expr::Unary(u) => self.unary(u)?,
            ast::Expr::Subquery(s) => self.subquery(s)?,
            ast::Expr::Call(c) => self.call(c)?,
            ast::Expr::Binary(b) => self.binary(b)?,
            ast::Expr::Aggregate(a) => self.aggregate(a)?,
            ast::Expr::Extension(_) => return Err(QueryError::parse("extension expressions are not supported")),
        })
    }

    fn selector(&mut self, s: &ast::VectorSelector, offset: usize) -> Lowered<Selector> {
        let mut matchers = vec![];
        if let Some(name) = &s.name {
            matchers.push(Matcher::equal("__name__", name.clone()));
        }
        matchers.extend(self.matchers(&s.matchers, offset)?);
        if matchers.iter().all(|m| m.matches_value("")) {
            return Err(QueryError::parse("vector selector must contain at least one non-empty matcher"));
        }
        Ok(Selector { matchers, shift: self.shift(s.offset.as_ref(), s.at.as_ref(), offset)? })
    }

    fn matchers(&mut self, parsed: &Matchers, offset: usize) -> Lowered<Vec<Matcher>> {
        if !parsed.or_matchers.is_empty() {
            return Err(self.error(offset, "unexpected <op:or> in label matching, expected \",\" or \"}\""));
        }
        let mut all = Vec::with_capacity(parsed.matchers.len());
        for m in &parsed.matchers {
            all.push(match &m.op {
                ParsedOp::Equal => Matcher::equal(m.name.clone(), m.value.clone()),
                ParsedOp::NotEqual => self.matcher(&m.name, MatchOp::NotEqual, &m.value, offset)?,
                ParsedOp::Re(_) => self.matcher(&m.name, MatchOp::Regex, self.pattern(&m.value), offset)?,
                ParsedOp::NotRe(_) => self.matcher(&m.name, MatchOp::NotRegex, self.pattern(&m.value), offset)?,
            });
        }
        Ok(all)
    }

    /// The regular expression that the scan replaced by a number.
    fn pattern(&self, number: &str) -> &'a str {
        number.trim_end_matches('|').parse().ok().and_then(|n: usize| self.scanned.get(n)).map_or("", |p| &p.text)
    }

    fn matcher(&mut self, name: &str, op: MatchOp, value: &str, offset: usize) -> Lowered<Matcher> {
        let pattern = matches!(op, MatchOp::Regex | MatchOp::NotRegex);
        let value = if pattern { from_go(value) } else { value.to_owned() };
        Matcher::compiled(name, op, value, self.patterns).map_err(|e| match e.source {
            PatternError::Ended(ended) => ended.into(),
            refused => self.error(offset, refused.to_string()),
        })
    }

    fn shift(&self, shift: Option<&Offset>, at: Option<&ast::AtModifier>, offset: usize) -> Lowered<Shift> {
        let far = || self.error(offset, "duration out of range");
        let ms = match shift {
            None => 0,
            Some(Offset::Pos(d)) => millis(*d).ok_or_else(far)?,
            Some(Offset::Neg(d)) => -millis(*d).ok_or_else(far)?,
        };
        let at = match at {
            None => None,
            Some(ast::AtModifier::Start) => Some(At::Start),
            Some(ast::AtModifier::End) => Some(At::End),
            Some(ast::AtModifier::At(t)) => {
                let time = match t.duration_since(SystemTime::UNIX_EPOCH) {
                    Ok(after) => millis(after),
                    Err(before) => millis(before.duration()).map(|v| -v),
                };
                Some(At::Time(time.ok_or_else(|| self.error(offset, "timestamp out of bounds for @ modifier"))?))
            }
        };
        Ok(Shift { offset: ms, at })
    }

    fn unary(&mut self, u: &ast::UnaryExpr) -> Lowered<Expr> {
        let inner = self.expr(&u.expr)?;
        if !matches!(inner.kind, ValueKind::Scalar | ValueKind::Vector) {
            let got = inner.kind.documented();
            let message =
                format!("unary expression only allowed on expressions of type scalar or instant vector, got {got:?}");
            return Err(self.error(inner.offset, message));
        }
        Ok(Expr { kind: inner.kind, offset: inner.offset, node: Node::Negate(Box::new(inner)) })
    }

    fn subquery(&mut self, s: &ast::SubqueryExpr) -> Lowered<Expr> {
        let expr = self.expr(&s.expr)?;
        if expr.kind != ValueKind::Vector {
            let got = expr.kind.documented();
            return Err(
                self.error(expr.offset, format!("subquery is only allowed on instant vector, got {got} instead"))
            );
        }
        let offset = expr.offset;
        let far = || self.error(offset, "duration out of range");
        let range = millis(s.range).ok_or_else(far)?;
        let step = s.step.map(|d| millis(d).ok_or_else(far)).transpose()?;
        let shift = self.shift(s.offset.as_ref(), s.at.as_ref(), offset)?;
        let node = Node::Subquery(Box::new(Subquery { expr, range, step, shift }));
        Ok(Expr { kind: ValueKind::Matrix, offset, node })
    }

    fn call(&mut self, c: &ast::Call) -> Lowered<Expr> {
        let offset = self.leaf();
        let name = c.func.name;
        let id =
            functions::find(name).ok_or_else(|| self.error(offset, format!("unknown function with name {name:?}")))?;
        let function = functions::get(id);
        let args = c.args.args.iter().map(|a| self.expr(a)).collect::<Lowered<Vec<_>>>()?;
        self.check_arguments(function, &args, offset)?;
        Ok(Expr { kind: function.result, offset, node: Node::Call(id, args) })
    }

    fn check_arguments(&self, f: &Function, args: &[Expr], offset: usize) -> Lowered<()> {
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
                    self.expect(*want, a, &format!("call to function {name:?}"))?;
                }
                return Ok(());
            }
        };
        Err(self.error(offset, message))
    }

    fn expect(&self, want: ValueKind, e: &Expr, place: &str) -> Lowered<()> {
        if e.kind == want {
            return Ok(());
        }
        let (want, got) = (want.documented(), e.kind.documented());
        Err(self.error(e.offset, format!("expected type {want} in {place}, got {got}")))
    }

    fn binary(&mut self, b: &ast::BinaryExpr) -> Lowered<Expr> {
        let lhs = self.expr(&b.lhs)?;
        let rhs = self.expr(&b.rhs)?;
        let offset = lhs.offset;
        let op = binary_op(b.op.id()).ok_or_else(|| self.error(offset, format!("unknown operator {}", b.op)))?;
        let default = ast::BinModifier::default();
        let m = b.modifier.as_ref().unwrap_or(&default);
        if m.fill_values.lhs.is_some() || m.fill_values.rhs.is_some() {
            return Err(self.error(offset, "unexpected fill modifier, it is unknown to Prometheus 2.53"));
        }
        let operand = |k| matches!(k, ValueKind::Scalar | ValueKind::Vector);
        if !operand(lhs.kind) || !operand(rhs.kind) {
            let at = if operand(lhs.kind) { rhs.offset } else { lhs.offset };
            return Err(self.error(at, "binary expression must contain only scalar and instant vector types"));
        }
        let scalars = lhs.kind == ValueKind::Scalar && rhs.kind == ValueKind::Scalar;
        if scalars && op.is_comparison() && !m.return_bool {
            return Err(self.error(offset, "comparisons between scalars must use BOOL modifier"));
        }
        let (cardinality, include) = match &m.card {
            VectorMatchCardinality::ManyToOne(l) => (Cardinality::ManyToOne, l.labels.clone()),
            VectorMatchCardinality::OneToMany(l) => (Cardinality::OneToMany, l.labels.clone()),
            _ => (Cardinality::OneToOne, vec![]),
        };
        let grouping = grouping(m.matching.as_ref());
        let kind = if scalars { ValueKind::Scalar } else { ValueKind::Vector };
        let binary = Binary { op, lhs, rhs, bool_result: m.return_bool, cardinality, grouping, include };
        Ok(Expr { kind, offset, node: Node::Binary(Box::new(binary)) })
    }

    fn aggregate(&mut self, a: &ast::AggregateExpr) -> Lowered<Expr> {
        let offset = self.leaf();
        let op = aggregate_op(a.op.id())
            .ok_or_else(|| self.error(offset, format!("unknown function with name {:?}", a.op.to_string())))?;
        let param = a.param.as_ref().map(|p| self.expr(p)).transpose()?;
        let expr = self.expr(&a.expr)?;
        let want = match op {
            AggregateOp::CountValues => ValueKind::String,
            _ => ValueKind::Scalar,
        };
        if let Some(p) = &param {
            self.expect(want, p, "aggregation parameter")?;
        }
        self.expect(ValueKind::Vector, &expr, "aggregation expression")?;
        let grouping = match &a.modifier {
            None => Grouping { keep: true, labels: vec![] },
            m => grouping(m.as_ref()),
        };
        let node = Node::Aggregate(Box::new(Aggregate { op, expr, param, grouping }));
        Ok(Expr { kind: ValueKind::Vector, offset, node })
    }
}

fn grouping(m: Option<&LabelModifier>) -> Grouping {
    match m {
        Some(LabelModifier::Include(l)) => Grouping { keep: true, labels: l.labels.clone() },
        Some(LabelModifier::Exclude(l)) => Grouping { keep: false, labels: l.labels.clone() },
        None => Grouping { keep: false, labels: vec![] },
    }
}

fn millis(d: Duration) -> Option<i64> {
    // Far beyond any data, and small enough that sums of a few never overflow.
    i64::try_from(d.as_millis()).ok().filter(|v| *v < i64::MAX / 64)
}

fn binary_op(id: token::TokenId) -> Option<BinaryOp> {
    Some(match id {
        token::T_ADD => BinaryOp::Add,
        token::T_SUB => BinaryOp::Sub,
        token::T_MUL => BinaryOp::Mul,
        token::T_DIV => BinaryOp::Div,
        token::T_MOD => BinaryOp::Mod,
        token::T_POW => BinaryOp::Pow,
        token::T_ATAN2 => BinaryOp::Atan2,
        token::T_EQLC => BinaryOp::Equal,
        token::T_NEQ => BinaryOp::NotEqual,
        token::T_LSS => BinaryOp::Less,
        token::T_LTE => BinaryOp::LessEqual,
        token::T_GTR => BinaryOp::Greater,
        token::T_GTE => BinaryOp::GreaterEqual,
        token::T_LAND => BinaryOp::And,
        token::T_LOR => BinaryOp::Or,
        token::T_LUNLESS => BinaryOp::Unless,
        _ => return None,
    })
}

fn aggregate_op(id: token::TokenId) -> Option<AggregateOp> {
    Some(match id {
        token::T_SUM => AggregateOp::Sum,
        token::T_AVG => AggregateOp::Avg,
        token::T_COUNT => AggregateOp::Count,
        token::T_MIN => AggregateOp::Min,
        token::T_MAX => AggregateOp::Max,
        token::T_GROUP => AggregateOp::Group,
        token::T_STDDEV => AggregateOp::Stddev,
        token::T_STDVAR => AggregateOp::Stdvar,
        token::T_TOPK => AggregateOp::TopK,
        token::T_BOTTOMK => AggregateOp::BottomK,
        token::T_COUNT_VALUES => AggregateOp::CountValues,
        token::T_QUANTILE => AggregateOp::Quantile,
        // limitk and limit_ratio were added in 2.54.
        _ => return None,
    })
}
