//! Security headers of every answer: content security policy, no sniffing, no referrer, no caching.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;

/// Sets security headers unless the handler did. No other site may read an answer: there is deliberately no CORS
/// header.
pub(crate) async fn set_security_headers(mut response: Response) -> Response {
    const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let defaults = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    let headers = response.headers_mut();
    if headers.get(header::CONTENT_TYPE).is_none_or(|kind| !kind.as_bytes().starts_with(b"application/grpc")) {
        for (name, value) in defaults {
            headers.entry(name).or_insert(HeaderValue::from_static(value));
        }
    }
    response
}
