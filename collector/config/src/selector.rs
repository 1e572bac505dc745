//! Series selectors of `match[]` and of `[[forward]]` as matchers of the store.

use fabriclens_model::Matcher;

/// The matchers of one selector, also for `[[forward]]`.
///
/// # Errors
/// Why it is none, or that it selects everything.
pub fn selector(text: &str) -> Result<Vec<Matcher>, String> {
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
