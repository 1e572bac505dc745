//! Series selectors of `match[]` to the store's matchers.

use fabriclens_model::Matcher;

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

/// The matchers of one selector, also for `[[forward]]`.
///
/// # Errors
/// Why it is none, or that it selects everything.
pub(crate) fn selector(text: &str) -> Result<Vec<Matcher>, String> {
    let matchers = fabriclens_promql::selector(text).map_err(|e| e.to_string())?;
    if matchers.iter().all(|m| m.matches_value("")) {
        return Err("match[] must contain at least one non-empty matcher".to_owned());
    }
    Ok(matchers)
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
        // Deep enough to overflow a thread's stack, were it not counted first.
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
