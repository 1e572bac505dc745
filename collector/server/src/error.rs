//! Errors of the Prometheus API: type, HTTP code and text as Prometheus gives them.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use fabriclens_core::json_text::push_text;

/// Prometheus' `errorType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request is wrong: 400.
    BadData,
    /// The expression cannot be evaluated: 422.
    Execution,
    /// It took too long: 503.
    Timeout,
    /// The client went away: 499.
    Canceled,
    /// The server is stopping or overloaded: 503.
    Unavailable,
    /// No such thing: 404.
    NotFound,
    /// Who asks may not: 403, unless whoever makes it says otherwise.
    Denied,
    /// The store failed: 500.
    Internal,
}

impl Kind {
    /// As in `errorType`.
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

/// An answer that says no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// Decides `errorType` and the HTTP code.
    pub kind: Kind,
    /// For the person who asked.
    pub message: String,
}

impl ApiError {
    /// Of any kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// `invalid parameter "name": message`, 400.
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
