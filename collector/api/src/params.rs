//! Request parameters: URL query and POST form combined, repeated names, times, steps, limits.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, Method, header};

use fabriclens_core::time;
use fabriclens_server::error::{ApiError, Kind};

/// Longest form, bytes.
const FORM_BYTES: usize = 4 << 20;
/// Most parameters: each takes at least a hundred bytes, however short it is.
const MAX_PARAMETERS: usize = 1000;

/// Names and values as sent; form before URL query, as in Prometheus.
#[derive(Clone, Debug, Default)]
pub struct Params(Vec<(String, String)>);

impl Params {
    /// Parses the query of a URL.
    ///
    /// # Errors
    /// 400 if it is invalid.
    pub fn decode(query: &[u8]) -> Result<Self, ApiError> {
        decode(query).map(Self)
    }

    /// All parameters except these.
    #[must_use]
    pub fn without(&self, names: &[&str]) -> Self {
        Self(self.0.iter().filter(|(name, _)| !names.contains(&name.as_str())).cloned().collect())
    }

    /// First value of a parameter; empty counts as absent, as in Prometheus.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }

    /// All values of a parameter (`match[]`).
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// A time in Unix ms, or the default.
    ///
    /// # Errors
    /// 400 if it is not a time.
    pub fn time_or(&self, name: &str, default: i64) -> Result<i64, ApiError> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let bad = || format!("Invalid time value for '{name}': cannot parse {text:?} to a valid timestamp");
        time::parse_time(text).ok_or_else(|| ApiError::parameter(name, bad()))
    }

    /// A required time in Unix ms.
    ///
    /// # Errors
    /// 400 if it is missing or not a time.
    pub fn time(&self, name: &str) -> Result<i64, ApiError> {
        let text = self.get(name).unwrap_or_default();
        let bad = || format!("cannot parse {text:?} to a valid timestamp");
        time::parse_time(text).ok_or_else(|| ApiError::parameter(name, bad()))
    }

    /// A duration; a plain number is seconds.
    ///
    /// # Errors
    /// 400 if it is not a duration.
    pub fn duration(&self, name: &str) -> Result<Option<Duration>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        time::parse_duration(text)
            .map(Some)
            .ok_or_else(|| ApiError::parameter(name, format!("cannot parse {text:?} to a valid duration")))
    }

    /// `limit`: most entries to return; absent or 0 for no limit.
    ///
    /// # Errors
    /// 400 if it is not a whole number.
    pub fn limit(&self) -> Result<usize, ApiError> {
        let Some(text) = self.get("limit") else { return Ok(usize::MAX) };
        match text.parse::<i64>() {
            Err(_) => Err(ApiError::parameter("limit", format!("{text:?} is not a whole number"))),
            Ok(n) if n < 0 => Err(ApiError::parameter("limit", "limit must be non-negative")),
            Ok(0) => Ok(usize::MAX),
            Ok(n) => Ok(usize::try_from(n).unwrap_or(usize::MAX)),
        }
    }

    /// `limit` of a list that is returned by page; absent or 0 for the default.
    ///
    /// # Errors
    /// 400 if it is not a whole number.
    pub fn limit_or(&self, default: usize) -> Result<usize, ApiError> {
        self.limit().map(|limit| if limit == usize::MAX { default } else { limit })
    }

    /// `offset` in a list that is returned by page; absent for 0.
    ///
    /// # Errors
    /// 400 if it is not a whole number.
    pub fn offset(&self) -> Result<usize, ApiError> {
        let Some(text) = self.get("offset") else { return Ok(0) };
        text.parse().map_err(|_| ApiError::parameter("offset", format!("{text:?} is not a whole number")))
    }
}

impl<S: Send + Sync> FromRequest<S> for Params {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let mut pairs = Vec::new();
        if parts.method == Method::POST && is_form(&parts.headers) {
            pairs = form(body).await?;
        }
        pairs.extend(decode(parts.uri.query().unwrap_or_default().as_bytes())?);
        Ok(Self(pairs))
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .is_some_and(|v| v.starts_with("application/x-www-form-urlencoded"))
}

async fn form(body: Body) -> Result<Vec<(String, String)>, ApiError> {
    let bytes = axum::body::to_bytes(body, FORM_BYTES).await.map_err(|e| {
        ApiError::new(Kind::BadData, format!("error parsing form values: {e}; at most {FORM_BYTES} bytes"))
    })?;
    decode(&bytes)
}

fn decode(text: &[u8]) -> Result<Vec<(String, String)>, ApiError> {
    if text.iter().filter(|b| **b == b'&').count() >= MAX_PARAMETERS {
        return Err(ApiError::new(Kind::BadData, format!("more than {MAX_PARAMETERS} parameters")));
    }
    serde_urlencoded::from_bytes(text)
        .map_err(|e| ApiError::new(Kind::BadData, format!("error parsing form values: {e}")))
}
