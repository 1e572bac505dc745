//! Series selectors of `match[]` to the store's matchers.

use fabriclens_model::{MatchOp, Matcher};
use promql_parser::label;
use promql_parser::parser::{Expr, VectorSelector, parse};

use super::error::{ApiError, Kind};
use super::params::Params;

/// One list of matchers for each `match[]`; a series fits when it fits any of them.
///
/// # Errors
/// 400 when one is no selector, or selects everything.
pub(super) fn all(params: &Params) -> Result<Vec<Vec<Matcher>>, ApiError> {
    params.all("match[]").map(|text| selector(text).map_err(|e| ApiError::parameter("match[]", e))).collect()
}

/// As [`all`], for endpoints that need at least one.
///
/// # Errors
/// As [`all`], and when there is none.
pub(super) fn some(params: &Params) -> Result<Vec<Vec<Matcher>>, ApiError> {
    let found = all(params)?;
    if found.is_empty() {
        return Err(ApiError::new(Kind::BadData, "no match[] parameter provided"));
    }
    Ok(found)
}

fn selector(text: &str) -> Result<Vec<Matcher>, String> {
    match parse(text) {
        Ok(Expr::VectorSelector(v)) => matchers(&v),
        Ok(_) => Err(format!("1:1: parse error: {text:?} is not a series selector")),
        Err(e) => Err(format!("1:1: parse error: {e}")),
    }
}

fn matchers(v: &VectorSelector) -> Result<Vec<Matcher>, String> {
    if !v.matchers.or_matchers.is_empty() {
        return Err("alternatives with \"or\" are not part of PromQL; give several match[]".to_owned());
    }
    let mut out: Vec<Matcher> = v.name.iter().map(|name| Matcher::equal("__name__", name.as_str())).collect();
    for m in &v.matchers.matchers {
        let op = match &m.op {
            label::MatchOp::Equal => MatchOp::Equal,
            label::MatchOp::NotEqual => MatchOp::NotEqual,
            label::MatchOp::Re(_) => MatchOp::Regex,
            label::MatchOp::NotRe(_) => MatchOp::NotRegex,
        };
        out.push(Matcher::new(m.name.as_str(), op, m.value.as_str()).map_err(|e| e.to_string())?);
    }
    if out.iter().all(|m| m.matches_value("")) {
        return Err("1:1: parse error: vector selector must contain at least one non-empty matcher".to_owned());
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_become_matchers() {
        let m = selector(r#"up{job="x",host=~"a.*",port!="1",d!~"b"}"#).unwrap();
        let shown: Vec<String> = m.iter().map(|m| format!("{} {:?} {}", m.name, m.op, m.value)).collect();
        assert_eq!(shown[0], "__name__ Equal up");
        assert_eq!(m.len(), 5);
        for bad in ["", "{}", "{a=~\".*\"}", "rate(x[5m])", "up[5m]", "up{", "1", "{a=~\"(\"}"] {
            assert!(selector(bad).is_err(), "{bad}");
        }
    }
}
