//! The answer to a refused request over HTTP, with its retry delay.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::IngestError;
use fabriclens_server::body::BodyError;
use fabriclens_server::retry;

/// A refused request: the answer to its client.
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// Retry delay, if a retry can help.
    pub(super) after: Option<Duration>,
}

impl Refusal {
    /// No data for `limit`.
    pub(super) fn slow(limit: Duration) -> Self {
        Self {
            message: format!("the request was not complete within {} s; retry", limit.as_secs()),
            ..IngestError::Slow.into()
        }
    }

    /// Plain text, for senders other than OTLP.
    pub(super) fn into_text(self) -> Response {
        // By default Prometheus drops samples on 429 and retries on 503.
        let status = if self.after.is_some() { StatusCode::SERVICE_UNAVAILABLE } else { self.status };
        self.answer((status, format!("{}\n", self.message)).into_response())
    }

    /// Adds the retry delay.
    pub(super) fn answer(&self, mut response: Response) -> Response {
        let value = self.after.and_then(|after| HeaderValue::try_from(retry::seconds(after)).ok());
        if let Some(value) = value {
            response.headers_mut().insert(header::RETRY_AFTER, value);
        }
        response
    }
}

impl From<BodyError> for Refusal {
    fn from(e: BodyError) -> Self {
        IngestError::from(e).into()
    }
}

impl From<IngestError> for Refusal {
    fn from(e: IngestError) -> Self {
        let status = match &e {
            IngestError::Malformed(_) => StatusCode::BAD_REQUEST,
            IngestError::Body(e) => e.status(),
            IngestError::Rejected { .. } => StatusCode::TOO_MANY_REQUESTS,
            IngestError::Unavailable(_) | IngestError::Slow => StatusCode::SERVICE_UNAVAILABLE,
            IngestError::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { status, reason: e.reason(), message: e.to_string(), after: e.after() }
    }
}
