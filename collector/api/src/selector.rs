//! Parses the `match[]` parameters of a request.

use fabriclens_config::selector::{MAX_SELECTORS, selector};
use fabriclens_model::{Budget, Matcher, Patterns};
use fabriclens_promql::QueryError;

use super::params::Params;
use fabriclens_server::error::{ApiError, Kind};

/// The `match[]` of a request, as written: patterns are compiled within the budget of its query.
pub(super) struct Selectors(Vec<String>);

impl Selectors {
    /// Takes all `match[]`.
    ///
    /// # Errors
    /// 400 if there are too many.
    pub(super) fn all(params: &Params) -> Result<Self, ApiError> {
        let all: Vec<String> = params.all("match[]").map(str::to_owned).collect();
        if all.len() > MAX_SELECTORS {
            let message = format!("more than {MAX_SELECTORS} selectors; combine them by regular expressions");
            return Err(ApiError::parameter("match[]", message));
        }
        Ok(Self(all))
    }

    /// The same for endpoints that require at least one.
    ///
    /// # Errors
    /// 400 as for [`Self::all`], and if there is none.
    pub(super) fn some(params: &Params) -> Result<Self, ApiError> {
        let found = Self::all(params)?;
        if found.0.is_empty() {
            return Err(ApiError::new(Kind::BadData, "no match[] parameter provided"));
        }
        Ok(found)
    }

    /// Matchers of each selector; a series matches if any of them matches.
    ///
    /// # Errors
    /// If one is not a selector, or selects everything; those of `budget`.
    pub(super) fn matchers(&self, budget: &dyn Budget) -> Result<Vec<Vec<Matcher>>, QueryError> {
        let mut patterns = Patterns::new(budget);
        let parse = |text: &String| match selector(text, &mut patterns) {
            Err(e @ (QueryError::Parse { .. } | QueryError::BadRequest(_))) => {
                Err(QueryError::BadRequest(ApiError::parameter("match[]", e).message))
            }
            parsed => parsed,
        };
        self.0.iter().map(parse).collect()
    }
}
