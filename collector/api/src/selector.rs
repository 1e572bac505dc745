//! Series selectors of `match[]` to the store's matchers.

use fabriclens_config::selector::selector;
use fabriclens_model::Matcher;

use super::params::Params;
use fabriclens_server::error::{ApiError, Kind};

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
