//! Parses the series selectors of `match[]` and `[[forward]]`.

use fabriclens_model::{Matcher, Patterns};
use fabriclens_promql::QueryError;

/// Most selectors of one request, and of one `[[forward]]`.
pub const MAX_SELECTORS: usize = 100;

/// Parses a selector into matchers; `patterns` are those of the request.
///
/// # Errors
/// If the text is not a selector, or selects every series; also if the budget of the patterns ends.
pub fn selector(text: &str, patterns: &mut Patterns<'_>) -> Result<Vec<Matcher>, QueryError> {
    let matchers = fabriclens_promql::selector(text, patterns)?;
    if matchers.iter().all(|m| m.matches_value("")) {
        return Err(QueryError::BadRequest("match[] must contain at least one non-empty matcher".to_owned()));
    }
    Ok(matchers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(text: &str) -> Result<Vec<Matcher>, String> {
        super::selector(text, &mut Patterns::default()).map_err(|e| e.to_string())
    }

    #[test]
    fn selectors_parse_to_matchers() {
        let m = selector(r#"up{job="x",host=~"a.*",port!="1",d!~"b"}"#).unwrap();
        let shown: Vec<String> = m.iter().map(|m| format!("{} {:?} {}", m.name, m.op, m.value)).collect();
        assert_eq!(shown[0], "__name__ Equal up");
        assert_eq!(m.len(), 5);
        // Nested deep enough to overflow a thread's stack, if depth were not limited first.
        let (deep, signs) = (format!("{}up{}", "(".repeat(200_000), ")".repeat(200_000)), "-".repeat(200_000) + "up");
        for bad in [&deep, &signs] {
            let error = selector(bad).unwrap_err();
            assert!(error.contains("parse error"), "{error:.300}");
        }
        let error = selector("up{a=~\"(\"}").unwrap_err();
        assert!(error.contains("invalid regular expression \"(\""), "{error}");
        for bad in ["up offset 5m", "", "{}", "{a=~\".*\"}", "rate(x[5m])", "up[5m]", "up{", "1", "{a=~\"(\"}"] {
            assert!(selector(bad).is_err(), "{bad}");
        }
    }
}
