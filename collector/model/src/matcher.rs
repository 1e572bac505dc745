//! Label matchers with Prometheus' semantics: regular expressions are anchored, an absent label is `""`.

use crate::Labels;

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
    regex: Option<regex::Regex>,
}

/// An invalid regular expression.
#[derive(Debug, thiserror::Error)]
#[error("label matcher {name}: invalid regular expression {pattern:?}")]
pub struct MatcherError {
    name: String,
    pattern: String,
    source: regex::Error,
}

impl Matcher {
    /// Builds a matcher. Patterns match the whole value; `.` does not match newlines (as in Prometheus 2).
    ///
    /// # Errors
    /// [`MatcherError`] for an invalid regular expression.
    pub fn new(name: impl Into<String>, op: MatchOp, value: impl Into<String>) -> Result<Self, MatcherError> {
        let (name, value) = (name.into(), value.into());
        let regex = match op {
            MatchOp::Equal | MatchOp::NotEqual => None,
            MatchOp::Regex | MatchOp::NotRegex => {
                Some(regex::Regex::new(&format!("^(?:{value})$")).map_err(|source| MatcherError {
                    name: name.clone(),
                    pattern: value.clone(),
                    source,
                })?)
            }
        };
        Ok(Self { name, op, value, regex })
    }

    /// `name="value"`.
    pub fn equal(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), op: MatchOp::Equal, value: value.into(), regex: None }
    }

    /// Whether a label value satisfies it (`""` if the label is absent).
    pub fn matches_value(&self, value: &str) -> bool {
        let regex = || self.regex.as_ref().is_some_and(|r| r.is_match(value));
        match self.op {
            MatchOp::Equal => value == self.value,
            MatchOp::NotEqual => value != self.value,
            MatchOp::Regex => regex(),
            MatchOp::NotRegex => !regex(),
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
