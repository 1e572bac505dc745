//! The query plan that the parser hands to the evaluator: parentheses removed, types checked, functions resolved to
//! rows of the function table.

use crate::value::ValueKind;
use fabriclens_model::Matcher;

/// One expression.
#[derive(Debug)]
pub(crate) struct Expr {
    pub kind: ValueKind,
    /// Byte offset of its first token in the query text, for annotations.
    pub offset: usize,
    pub node: Node,
}

/// Index of a row in the function table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionId(pub usize);

#[derive(Debug)]
pub(crate) enum Node {
    Number(f64),
    Text(String),
    /// An instant vector selector.
    Select(Selector),
    /// A range vector selector: `foo[5m]`.
    Range(Selector, i64),
    Subquery(Box<Subquery>),
    Call(FunctionId, Vec<Expr>),
    Negate(Box<Expr>),
    Binary(Box<Binary>),
    Aggregate(Box<Aggregate>),
}

/// The `@` modifier of a selector or subquery.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum At {
    /// Unix milliseconds.
    Time(i64),
    /// Start of the whole query.
    Start,
    /// End of the whole query.
    End,
}

/// The `offset` and `@` modifiers of a selector or subquery.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shift {
    /// Milliseconds into the past; negative looks ahead.
    pub offset: i64,
    pub at: Option<At>,
}

#[derive(Debug)]
pub(crate) struct Selector {
    pub matchers: Vec<Matcher>,
    pub shift: Shift,
}

#[derive(Debug)]
pub(crate) struct Subquery {
    pub expr: Expr,
    /// Milliseconds.
    pub range: i64,
    /// Milliseconds; `None`: the engine's default.
    pub step: Option<i64>,
    pub shift: Shift,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Atan2,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
    Unless,
}

impl BinaryOp {
    pub fn is_comparison(self) -> bool {
        use BinaryOp::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        matches!(self, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
    }

    pub fn is_set(self) -> bool {
        matches!(self, Self::And | Self::Or | Self::Unless)
    }
}

/// Which side may have several series per match group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cardinality {
    OneToOne,
    /// `group_left`
    ManyToOne,
    /// `group_right`
    OneToMany,
}

#[derive(Debug)]
pub(crate) struct Binary {
    pub op: BinaryOp,
    pub lhs: Expr,
    pub rhs: Expr,
    /// `bool`: 0 or 1 instead of filtering.
    pub bool_result: bool,
    pub cardinality: Cardinality,
    /// Labels of `on` or `ignoring`.
    pub grouping: Grouping,
    /// Labels that `group_left` or `group_right` copies from the "one" side.
    pub include: Vec<String>,
}

/// Labels to keep (`by`, `on`) or to drop (`without`, `ignoring`).
#[derive(Debug, Clone)]
pub(crate) struct Grouping {
    pub keep: bool,
    pub labels: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateOp {
    Sum,
    Avg,
    Count,
    Min,
    Max,
    Group,
    Stddev,
    Stdvar,
    TopK,
    BottomK,
    CountValues,
    Quantile,
}

#[derive(Debug)]
pub(crate) struct Aggregate {
    pub op: AggregateOp,
    pub expr: Expr,
    pub param: Option<Expr>,
    pub grouping: Grouping,
}
