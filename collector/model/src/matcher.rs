//! Label matchers with Prometheus' semantics: regular expressions are anchored, an absent label is `""`.

use std::collections::BTreeSet;

use crate::{Labels, Pattern, PatternError, Patterns};

/// How a matcher compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchOp {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `=~`
    Regex,
    /// `!~`
    NotRegex,
}

/// `name OP value`.
#[derive(Clone, Debug)]
pub struct Matcher {
    /// Label name; `__name__` for the metric.
    pub name: String,
    /// Comparison.
    pub op: MatchOp,
    /// Text or pattern as written.
    pub value: String,
    pattern: Option<Pattern>,
}

/// A refused regular expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("label matcher {name}: {source}")]
pub struct MatcherError {
    name: String,
    /// Why it was refused.
    pub source: PatternError,
}

impl Matcher {
    /// Builds a matcher. Patterns match the whole value; `.` matches newlines too (as in Prometheus 3).
    ///
    /// # Errors
    /// [`MatcherError`] for an invalid or too large regular expression.
    pub fn new(name: impl Into<String>, op: MatchOp, value: impl Into<String>) -> Result<Self, MatcherError> {
        Self::compiled(name, op, value, &mut Patterns::default())
    }

    /// The same, as one of the patterns of a request.
    ///
    /// # Errors
    /// See [`Self::new`]; also if the request has too many patterns, or used up its budget.
    pub fn compiled(
        name: impl Into<String>,
        op: MatchOp,
        value: impl Into<String>,
        patterns: &mut Patterns<'_>,
    ) -> Result<Self, MatcherError> {
        let (name, value) = (name.into(), value.into());
        let pattern = match op {
            MatchOp::Equal | MatchOp::NotEqual => None,
            MatchOp::Regex | MatchOp::NotRegex => match patterns.compile(&value) {
                Ok(pattern) => Some(pattern),
                Err(source) => return Err(MatcherError { name, source }),
            },
        };
        Ok(Self { name, op, value, pattern })
    }

    /// `name="value"`.
    pub fn equal(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), op: MatchOp::Equal, value: value.into(), pattern: None }
    }

    /// `name!="value"`.
    pub fn not_equal(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), op: MatchOp::NotEqual, value: value.into(), pattern: None }
    }

    /// Matches any of these values. Duplicates count once.
    ///
    /// # Errors
    /// [`MatcherError`] if there are so many that the pattern is too large.
    pub fn one_of<'a>(
        name: impl Into<String>,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, MatcherError> {
        let literal = |text: &str| -> String {
            let escape = |c: char| (!c.is_alphanumeric() && c != '_').then_some('\\').into_iter().chain([c]);
            text.chars().flat_map(escape).collect()
        };
        let values: BTreeSet<String> = values.into_iter().map(literal).collect();
        Self::new(name, MatchOp::Regex, values.into_iter().collect::<Vec<_>>().join("|"))
    }

    /// Whether a label value satisfies it (`""` if the label is absent).
    pub fn matches_value(&self, value: &str) -> bool {
        let pattern = || self.pattern.as_ref().is_some_and(|p| p.matches(value));
        match self.op {
            MatchOp::Equal => value == self.value,
            MatchOp::NotEqual => value != self.value,
            MatchOp::Regex => pattern(),
            MatchOp::NotRegex => !pattern(),
        }
    }

    /// Whether a label set satisfies it.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_value(labels.get(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_anchored_and_absent_labels_are_empty() {
        let l = Labels::new([("device", "mlx5_0")]);
        let m = |op, v: &str| Matcher::new("device", op, v).unwrap().matches(&l);
        assert!(m(MatchOp::Regex, "mlx5_.") && !m(MatchOp::Regex, "mlx5"));
        assert!(m(MatchOp::NotRegex, "mlx4|mlx5") && !m(MatchOp::NotEqual, "mlx5_0"));
        assert!(Matcher::new("port", MatchOp::Regex, "|1").unwrap().matches(&l));
        assert!(Matcher::new("port", MatchOp::Regex, "(").is_err());
    }
}
