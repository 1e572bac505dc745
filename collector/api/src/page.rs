//! The start page at `/`: version, senders, and a query box. It loads everything it shows from the API.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::Api;

const PAGE: &str = include_str!("page.html");

/// The page loads nothing from elsewhere and runs nothing that senders name.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves the page.
pub(super) async fn page(State(api): State<Arc<Api>>) -> Response {
    let listen = api.config.listen;
    let page = PAGE
        .replace("{{version}}", env!("CARGO_PKG_VERSION"))
        .replace("{{retention}}", &fabriclens_base::duration::format(api.config.retention.age))
        .replace("{{otlp_grpc}}", &listen.otlp_grpc.to_string())
        .replace("{{otlp_http}}", &listen.otlp_http.to_string());
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, page).into_response()
}
