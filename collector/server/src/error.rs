//! The error envelope of the HTTP API, as Prometheus defines it: `{"status":"error","errorType":…,"error":…}`.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use fabriclens_core::json_text::push_text;

/// `errorType` of Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request is invalid: 400.
    BadData,
    /// The expression cannot be evaluated: 422.
    Execution,
    /// The query timed out: 503.
    Timeout,
    /// The client disconnected: 499.
    Canceled,
    /// The server is stopping or overloaded: 503.
    Unavailable,
    /// Not found: 404.
    NotFound,
    /// The caller may not do this: 403, or the status that the caller of the constructor sets.
    Denied,
    /// Internal failure, for instance of the store: 500.
    Internal,
}

impl Kind {
    /// Value of `errorType`.
    pub fn text(self) -> &'static str {
        match self {
            Self::BadData => "bad_data",
            Self::Execution => "execution",
            Self::Timeout => "timeout",
            Self::Canceled => "canceled",
            Self::Unavailable => "unavailable",
            Self::NotFound => "not_found",
            Self::Denied => "denied",
            Self::Internal => "internal",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::BadData => StatusCode::BAD_REQUEST,
            Self::Execution => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Timeout | Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Canceled => StatusCode::from_u16(499).unwrap_or(StatusCode::SERVICE_UNAVAILABLE),
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Denied => StatusCode::FORBIDDEN,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// Determines `errorType` and the HTTP status.
    pub kind: Kind,
    /// Message for the client.
    pub message: String,
}

impl ApiError {
    /// Creates an error.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Creates `invalid parameter "name": message` with status 400.
    pub fn parameter(name: &str, message: impl std::fmt::Display) -> Self {
        Self::new(Kind::BadData, format!("invalid parameter {name:?}: {message}"))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut body = format!("{{\"status\":\"error\",\"errorType\":\"{}\",\"error\":", self.kind.text());
        push_text(&mut body, &self.message);
        body.push('}');
        (self.kind.status(), [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}
