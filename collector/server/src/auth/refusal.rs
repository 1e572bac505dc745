//! Answers that refuse a request, in the format of its listener.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use tonic::{Code, Status};

use super::Denied;
use crate::error::{ApiError, Kind};
use crate::retry;

/// Retry delay when no place is left for a connection.
const CONNECTIONS_DELAY: Duration = Duration::from_secs(5);

/// Format of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorFormat {
    /// Error envelope of the HTTP API.
    Http,
    /// gRPC status.
    Grpc,
}

/// Refuses a request. Browsers are told to ask for a password, unless a script sent the request: the console asks itself.
pub(super) fn refuse(denied: &Denied, format: ErrorFormat, asked: &HeaderMap) -> Response {
    let after = match denied {
        Denied::RateLimit { after, .. } => Some(*after),
        Denied::Connections => Some(CONNECTIONS_DELAY),
        _ => None,
    };
    let text = denied.to_string();
    match (format, denied) {
        (ErrorFormat::Grpc, Denied::RateLimit { after, .. }) => {
            retry::later(Code::ResourceExhausted, &text, *after).into_http::<Body>()
        }
        (ErrorFormat::Grpc, Denied::Connections) => {
            retry::later(Code::Unavailable, &text, CONNECTIONS_DELAY).into_http::<Body>()
        }
        (ErrorFormat::Grpc, Denied::MissingRole { .. } | Denied::CrossSite { .. } | Denied::ForeignHost { .. }) => {
            Status::permission_denied(text).into_http::<Body>()
        }
        (ErrorFormat::Grpc, _) => Status::unauthenticated(text).into_http::<Body>(),
        (ErrorFormat::Http, _) => {
            let status = match denied {
                Denied::RateLimit { .. } => StatusCode::TOO_MANY_REQUESTS,
                Denied::MissingRole { .. } | Denied::CrossSite { .. } => StatusCode::FORBIDDEN,
                Denied::ForeignHost { .. } => StatusCode::MISDIRECTED_REQUEST,
                Denied::Connections => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::UNAUTHORIZED,
            };
            let mut response = answer(status, Kind::Denied, text);
            let headers = response.headers_mut();
            if status == StatusCode::UNAUTHORIZED {
                // Makes browsers ask for a password, which is the token.
                let ask = HeaderValue::from_static(
                    "Basic realm=\"fabriclens (the token is the password)\", charset=\"UTF-8\"",
                );
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"fabriclens\""));
                if asked.get("sec-fetch-dest").is_none_or(|dest| dest != "empty") {
                    headers.append(header::WWW_AUTHENTICATE, ask);
                }
            }
            if let Some(after) = after {
                set_retry_after(&mut response, after);
            }
            response
        }
    }
}

/// Sets `Retry-After`.
pub(super) fn set_retry_after(response: &mut Response, after: Duration) {
    if let Ok(seconds) = HeaderValue::try_from(retry::seconds(after)) {
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
}

/// An error envelope with its own status.
pub(super) fn answer(status: StatusCode, kind: Kind, text: String) -> Response {
    let mut response = ApiError::new(kind, text).into_response();
    *response.status_mut() = status;
    response
}
