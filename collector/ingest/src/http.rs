//! OTLP over HTTP (`/v1/metrics`, protobuf or JSON) and Prometheus remote write (`/api/v1/write`).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message;
use tonic::Code;

use super::import::import;
use super::refusal::Refusal;
use super::reserved::FORWARDED;
use super::unpack::Compression;
use super::{Ingest, IngestError, Payload, Received, Report, direct, grpc, write_v2};
use fabriclens_config::WriteMessage;
use fabriclens_config::{Access, ServeRole};
use fabriclens_core::prompb_v2::SAMPLES_WRITTEN;
use fabriclens_core::protocol::Protocol;
use fabriclens_server::auth::Caller;
use fabriclens_server::body;
use fabriclens_server::retry::RpcStatus;
use fabriclens_server::route::{Route, route};

/// Routes of the OTLP/HTTP listener.
pub fn otlp_routes(role: ServeRole) -> Vec<Route<Arc<Ingest>>> {
    vec![match role {
        ServeRole::All | ServeRole::Ingest => route(Access::Ingest, &[Method::POST], "/v1/metrics", otlp),
        ServeRole::Judge => route(Access::Ingest, &[Method::POST], "/v1/metrics", direct::refuse),
    }]
}

/// Remote write and import, for the main listener; a judge has [`super::judge::routes`] instead.
pub fn write_routes() -> Vec<Route<Arc<Ingest>>> {
    vec![
        route(Access::Ingest, &[Method::POST], "/api/v1/write", remote_write),
        route(Access::Ingest, &[Method::POST], "/api/v1/import", import),
    ]
}

/// Encoding of an OTLP request and of its answer.
#[derive(Clone, Copy, PartialEq)]
enum Encoding {
    Protobuf,
    Json,
}

async fn otlp(
    State(ingest): State<Arc<Ingest>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let Some(encoding) = encoding_of(&headers) else {
        ingest.refused(Protocol::OtlpHttp, "encoding");
        let text = "content-type must be application/x-protobuf or application/json\n";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into_response();
    };
    match take_otlp(&ingest, caller, &headers, body, encoding).await {
        Ok(bytes) => answer(StatusCode::OK, encoding, bytes),
        Err(refusal) => refuse_otlp(refusal, encoding),
    }
}

async fn take_otlp(
    ingest: &Arc<Ingest>,
    caller: Caller,
    headers: &HeaderMap,
    body: Body,
    encoding: Encoding,
) -> Result<Vec<u8>, Refusal> {
    let count = |r: Refusal| {
        ingest.refused(Protocol::OtlpHttp, r.reason);
        r
    };
    let (compression, limit) = (body::encoding(headers), ingest.message_size());
    let packed = |bytes: &Bytes| match (encoding, compression.as_str()) {
        (Encoding::Protobuf, "identity" | "") => Some((Compression::None, bytes.clone())),
        (Encoding::Protobuf, "gzip" | "x-gzip") => Some((Compression::Gzip, bytes.clone())),
        _ => None,
    };
    let json = encoding == Encoding::Json;
    let received = ingest.receive(Protocol::OtlpHttp, &caller, headers, body, json, packed).await;
    let mut received = received.map_err(|e| count(e.into()))?;
    let (payload, json_permit) = (received.payload.clone(), received.json_permit.take());
    let plain = move || -> Result<Bytes, Refusal> {
        let _json_permit = json_permit;
        let plain = match payload {
            Payload::Plain(plain) => plain,
            Payload::Packed(bytes) => body::gunzip(&compression, bytes, limit)?,
        };
        if encoding == Encoding::Protobuf {
            return Ok(plain);
        }
        from_json(&plain)
    };
    let joined = tokio::task::spawn_blocking(plain).await;
    let plain = joined.unwrap_or_else(|e| Err(IngestError::Internal(e.to_string()).into())).map_err(count)?;
    let report = ingest.otlp(Protocol::OtlpHttp, caller, Compression::None, plain).await?;
    let response = grpc::answer(&report);
    match encoding {
        Encoding::Protobuf => Ok(response.encode_to_vec()),
        Encoding::Json => Ok(match response.partial_success {
            None => b"{}".to_vec(),
            Some(partial) => serde_json::json!({"partialSuccess": {
                // The JSON mapping of protobuf writes 64-bit integers as strings.
                "rejectedDataPoints": partial.rejected_data_points.to_string(),
                "errorMessage": partial.error_message,
            }})
            .to_string()
            .into_bytes(),
        }),
    }
}

/// Converts an OTLP request in JSON to protobuf.
pub(super) fn from_json(plain: &[u8]) -> Result<Bytes, Refusal> {
    body::limit_json(plain)?;
    let request: ExportMetricsServiceRequest = serde_json::from_slice(plain).map_err(|e| {
        IngestError::Malformed(format!(
            "malformed OTLP metrics request: {e}; send an ExportMetricsServiceRequest in JSON"
        ))
    })?;
    Ok(request.encode_to_vec().into())
}

fn encoding_of(headers: &HeaderMap) -> Option<Encoding> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    match kind.split(';').next().unwrap_or_default().trim() {
        "application/x-protobuf" | "application/protobuf" => Some(Encoding::Protobuf),
        "application/json" => Some(Encoding::Json),
        _ => None,
    }
}

fn refuse_otlp(refusal: Refusal, encoding: Encoding) -> Response {
    let code = match refusal.status {
        _ if refusal.after.is_some() => Code::Unavailable,
        StatusCode::REQUEST_TIMEOUT => Code::Unavailable,
        StatusCode::INTERNAL_SERVER_ERROR => Code::Internal,
        _ => Code::InvalidArgument,
    };
    let body = match encoding {
        Encoding::Protobuf => RpcStatus::new(code, &refusal.message, refusal.after).encode_to_vec(),
        Encoding::Json => serde_json::json!({"code": code as i32, "message": refusal.message}).to_string().into_bytes(),
    };
    refusal.answer(answer(refusal.status, encoding, body))
}

fn answer(status: StatusCode, encoding: Encoding, body: Vec<u8>) -> Response {
    let kind = match encoding {
        Encoding::Protobuf => "application/x-protobuf",
        Encoding::Json => "application/json",
    };
    (status, [(header::CONTENT_TYPE, kind)], body).into_response()
}

/// Answers unknown paths of the OTLP/HTTP listener.
pub async fn other() -> Response {
    let text = "this port takes OTLP metrics at /v1/metrics; queries and pages are on the main port (7470 unless configured)\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

async fn remote_write(
    State(ingest): State<Arc<Ingest>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let Some(kind) = message_of(&headers) else {
        ingest.refused(Protocol::RemoteWrite, "encoding");
        return Refusal {
            status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
            reason: "encoding",
            message: "the message that content-type names is unknown; set protobuf_message: prometheus.WriteRequest (1.0) or \
                      io.prometheus.write.v2.Request (2.0)"
                .to_owned(),
            after: None,
        }
        .into_text();
    };
    match take_remote_write(&ingest, caller, &headers, body, kind).await {
        Ok(report) => written(kind, &report),
        Err(refusal) => refusal.into_text(),
    }
}

/// The answer to a request of which samples may be stored. A sender of version 2.0 learns how many.
fn written(kind: WriteMessage, report: &Report) -> Response {
    let message = report.message();
    let mut response = match message.is_empty() {
        true => StatusCode::NO_CONTENT.into_response(),
        // All valid samples are stored. With status 400 the sender does not retry the rest.
        false => (StatusCode::BAD_REQUEST, format!("{message}\n")).into_response(),
    };
    if kind == WriteMessage::Version2 {
        let counts = [report.accepted - report.histograms, report.histograms, 0];
        for (name, count) in WRITTEN_HEADERS.into_iter().zip(counts) {
            response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from(count));
        }
    }
    response
}

/// Headers of an answer to remote write 2.0: samples, histograms and exemplars that were stored.
const WRITTEN_HEADERS: [&str; 3] =
    [SAMPLES_WRITTEN, "x-prometheus-remote-write-histograms-written", "x-prometheus-remote-write-exemplars-written"];

/// The message of remote write that `content-type` names, that of 1.0 if it names none; `None` if it is unknown.
fn message_of(headers: &HeaderMap) -> Option<WriteMessage> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let mut parameters = kind.split(';').skip(1).filter_map(|parameter| parameter.trim().split_once('='));
    let named = parameters.find(|(name, _)| name.eq_ignore_ascii_case("proto"));
    named.map_or(Some(WriteMessage::default()), |(_, message)| WriteMessage::by_name(message.trim_matches('"')))
}

async fn take_remote_write(
    ingest: &Arc<Ingest>,
    caller: Caller,
    headers: &HeaderMap,
    body: Body,
    kind: WriteMessage,
) -> Result<Report, Refusal> {
    let (mut plain, _received) = plain_remote_write(ingest, &caller, headers, body).await?;
    if kind == WriteMessage::Version2 {
        let limit = ingest.message_size();
        let joined = tokio::task::spawn_blocking(move || write_v2::to_version_1(&plain, limit)).await;
        plain = joined.unwrap_or_else(|e| Err(IngestError::Internal(e.to_string()))).map_err(|e| {
            let refusal = Refusal::from(e);
            ingest.refused(Protocol::RemoteWrite, refusal.reason);
            refusal
        })?;
    }
    let forwarded = headers.contains_key(FORWARDED);
    Ok(ingest.remote_write(Protocol::RemoteWrite, caller, forwarded, plain).await?)
}

/// The decompressed body of a remote-write request, with its permit.
pub(super) async fn plain_remote_write(
    ingest: &Arc<Ingest>,
    caller: &Caller,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Bytes, Received), Refusal> {
    let count = |r: Refusal| {
        ingest.refused(Protocol::RemoteWrite, r.reason);
        r
    };
    let (encoding, limit) = (body::encoding(headers), ingest.message_size());
    let is_snappy = matches!(encoding.as_str(), "snappy" | "identity");
    let packed = |bytes: &Bytes| is_snappy.then(|| (Compression::Snappy, bytes.clone()));
    let received = ingest
        .receive(Protocol::RemoteWrite, caller, headers, body, false, packed)
        .await
        .map_err(|e| count(e.into()))?;
    let plain = match received.payload.clone() {
        Payload::Plain(plain) => plain,
        Payload::Packed(bytes) => {
            let buffers = ingest.buffers.clone();
            let joined = tokio::task::spawn_blocking(move || buffers.unsnap(&encoding, &bytes, limit)).await;
            let plain = joined.map_err(|e| count(IngestError::Internal(e.to_string()).into()))?;
            plain.map_err(|e| count(e.into()))?
        }
    };
    Ok((plain, received))
}
