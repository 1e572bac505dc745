//! Answers of a judge to samples that come directly and not by an ingest collector: they are refused, and their senders keep them.

use std::time::Duration;

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use fabriclens_server::retry;
use tonic::Code;

/// When a sender that should use an ingest collector tries again.
const AGAIN: Duration = Duration::from_secs(30);
const DIRECT: &str =
    "this collector judges (role = \"judge\") and takes samples from ingest collectors only; send to one of them";

/// Refuses samples over HTTP; senders keep them and retry.
pub(super) async fn refuse() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, retry::seconds(AGAIN))], format!("{DIRECT}\n"))
        .into_response()
}

/// Refuses samples over gRPC; agents keep them and use their next collector.
pub(super) async fn refuse_grpc() -> Response {
    retry::later(Code::Unavailable, DIRECT, AGAIN).into_http::<Body>()
}
