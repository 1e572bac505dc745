//! Messages of Prometheus remote read, reduced to one query of samples; and matchers as a selector.

use std::fmt::Write as _;

use fabriclens_model::{MatchOp, Matcher};
use prost::Message;

use fabriclens_core::json_text::push_text;
use fabriclens_core::prompb::TimeSeries;

/// `prometheus.ReadRequest`. Without response types, the answer consists of samples.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ReadRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) queries: Vec<Query>,
}

/// `prometheus.Query`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Query {
    #[prost(int64, tag = "1")]
    pub(super) start_ms: i64,
    /// Inclusive.
    #[prost(int64, tag = "2")]
    pub(super) end_ms: i64,
    #[prost(message, repeated, tag = "3")]
    pub(super) matchers: Vec<LabelMatcher>,
}

/// `prometheus.LabelMatcher`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct LabelMatcher {
    /// 0 `=`, 1 `!=`, 2 `=~`, 3 `!~`.
    #[prost(int32, tag = "1")]
    pub(super) op: i32,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(string, tag = "3")]
    pub(super) value: String,
}

/// `prometheus.ReadResponse`
#[derive(Clone, PartialEq, Message)]
pub(super) struct ReadResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) results: Vec<QueryResult>,
}

/// `prometheus.QueryResult`
#[derive(Clone, PartialEq, Message)]
pub(super) struct QueryResult {
    #[prost(message, repeated, tag = "1")]
    pub(super) timeseries: Vec<TimeSeries>,
}

impl From<&Matcher> for LabelMatcher {
    fn from(m: &Matcher) -> Self {
        let op = match m.op {
            MatchOp::Equal => 0,
            MatchOp::NotEqual => 1,
            MatchOp::Regex => 2,
            MatchOp::NotRegex => 3,
        };
        Self { op, name: m.name.clone(), value: m.value.clone() }
    }
}

/// Formats matchers as a selector: `{a="b",c=~"d"}`.
pub(super) fn selector(matchers: &[Matcher]) -> String {
    let mut out = String::from("{");
    for (i, m) in matchers.iter().enumerate() {
        let op = match m.op {
            MatchOp::Equal => "=",
            MatchOp::NotEqual => "!=",
            MatchOp::Regex => "=~",
            MatchOp::NotRegex => "!~",
        };
        _ = write!(out, "{}{}{op}", if i > 0 { "," } else { "" }, m.name);
        push_text(&mut out, &m.value);
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_round_trip() {
        let text = "{__name__=\"m\",a!=\"q\\\"\\\\\\n\u{e9}\",b=~\"x.*|[0-9]+\",c!~\"\"}";
        let matchers = fabriclens_promql::selector(text, &mut fabriclens_model::Patterns::default()).unwrap();
        assert_eq!(selector(&matchers), text);
        let again =
            fabriclens_promql::selector(&selector(&matchers), &mut fabriclens_model::Patterns::default()).unwrap();
        assert!(matchers.iter().zip(&again).all(|(a, b)| LabelMatcher::from(a) == LabelMatcher::from(b)));
    }
}
