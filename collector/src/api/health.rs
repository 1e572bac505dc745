//! Whether it lives, whether it can take samples, and its own metrics.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::Api;

/// The process answers.
pub(super) async fn alive() -> &'static str {
    "Fabriclens is healthy.\n"
}

/// Samples are taken and queries answered; otherwise 503 and why.
pub(super) async fn ready(State(api): State<Arc<Api>>) -> Response {
    let no = |why: String| (StatusCode::SERVICE_UNAVAILABLE, why + "\n").into_response();
    if *api.stopping.borrow() {
        return no("stopping".to_owned());
    }
    if let Some(failure) = api.store.stats().log_failure.or_else(|| api.sink.failure()) {
        return no(format!("samples cannot be stored: {failure}"));
    }
    "Fabriclens is ready.\n".into_response()
}

/// The collector's own metrics in Prometheus' text format.
pub(super) async fn metrics(State(api): State<Arc<Api>>) -> Response {
    api.telemetry.observe_store(&api.store.stats());
    match api.telemetry.text() {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot encode metrics: {e}\n")).into_response(),
    }
}
