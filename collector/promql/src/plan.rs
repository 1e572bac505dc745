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

/// Step and length of a query, ms; both are 0 at a single instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolution {
    pub step: i64,
    pub range: i64,
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

/// What a selector does at the ends of its range, or where no sample is at its instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Edges {
    /// Only samples within the range count.
    #[default]
    Plain,
    /// `anchored`: the last sample before the range counts as its start.
    Anchored,
    /// `smoothed`: values at the ends are interpolated.
    Smoothed,
}

#[derive(Debug)]
pub(crate) struct Selector {
    pub matchers: Vec<Matcher>,
    pub shift: Shift,
    pub edges: Edges,
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
    /// `</`: the observations of a histogram below a value.
    TrimUpper,
    /// `>/`: those above it.
    TrimLower,
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

    /// Whether it computes another quantity, so that the name is dropped.
    pub fn is_arithmetic(self) -> bool {
        !self.is_set() && !self.is_comparison() && !self.is_trim()
    }

    pub fn is_trim(self) -> bool {
        matches!(self, Self::TrimUpper | Self::TrimLower)
    }

    /// As queries write it.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Mod => "%",
            Self::Pow => "^",
            Self::Atan2 => "atan2",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::TrimUpper => "</",
            Self::TrimLower => ">/",
            Self::And => "and",
            Self::Or => "or",
            Self::Unless => "unless",
        }
    }

    /// Precedence: a higher level binds tighter.
    pub fn level(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And | Self::Unless => 2,
            Self::Add | Self::Sub => 4,
            Self::Mul | Self::Div | Self::Mod | Self::Atan2 => 5,
            Self::Pow => 6,
            _ => 3,
        }
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
    pub fill: Fill,
}

/// Values that `fill`, `fill_left` and `fill_right` put in place of missing series.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Fill {
    pub left: Option<f64>,
    pub right: Option<f64>,
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
    LimitK,
    LimitRatio,
    CountValues,
    Quantile,
}

/// Aggregations with their names.
pub(crate) const AGGREGATIONS: [(&str, AggregateOp); 14] = [
    ("sum", AggregateOp::Sum),
    ("avg", AggregateOp::Avg),
    ("count", AggregateOp::Count),
    ("min", AggregateOp::Min),
    ("max", AggregateOp::Max),
    ("group", AggregateOp::Group),
    ("stddev", AggregateOp::Stddev),
    ("stdvar", AggregateOp::Stdvar),
    ("topk", AggregateOp::TopK),
    ("bottomk", AggregateOp::BottomK),
    ("limitk", AggregateOp::LimitK),
    ("limit_ratio", AggregateOp::LimitRatio),
    ("count_values", AggregateOp::CountValues),
    ("quantile", AggregateOp::Quantile),
];

impl AggregateOp {
    /// Whether histograms are aggregated too.
    pub fn takes_histograms(self) -> bool {
        use AggregateOp::{Avg, Count, CountValues, Group, LimitK, LimitRatio, Sum};
        matches!(self, Sum | Avg | Count | Group | LimitK | LimitRatio | CountValues)
    }

    /// Whether results have no labels of the series but those by which it groups.
    pub fn drops_labels(self) -> bool {
        !matches!(self, Self::TopK | Self::BottomK | Self::LimitK | Self::LimitRatio | Self::CountValues)
    }

    /// Type of the parameter before the expression.
    pub fn param(self) -> Option<ValueKind> {
        match self {
            Self::CountValues => Some(ValueKind::String),
            Self::TopK | Self::BottomK | Self::LimitK | Self::LimitRatio | Self::Quantile => Some(ValueKind::Scalar),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Aggregate {
    pub op: AggregateOp,
    pub expr: Expr,
    pub param: Option<Expr>,
    pub grouping: Grouping,
}
