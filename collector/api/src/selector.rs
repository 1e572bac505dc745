//! Parses the `match[]` parameters of a request.

use fabriclens_config::selector::selector;
use fabriclens_model::Matcher;

use super::params::Params;
use fabriclens_server::error::{ApiError, Kind};

/// Matchers of each `match[]`; a series matches if any of them matches.
///
/// # Errors
/// 400 if one is not a selector, or selects everything.
pub(super) fn all(params: &Params) -> Result<Vec<Vec<Matcher>>, ApiError> {
    params.all("match[]").map(|text| selector(text).map_err(|e| ApiError::parameter("match[]", e))).collect()
}

/// The same for endpoints that require at least one.
///
/// # Errors
/// 400 as for [`all`], and if there is none.
pub(super) fn some(params: &Params) -> Result<Vec<Vec<Matcher>>, ApiError> {
    let found = all(params)?;
    if found.is_empty() {
        return Err(ApiError::new(Kind::BadData, "no match[] parameter provided"));
    }
    Ok(found)
}
