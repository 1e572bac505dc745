//! OTLP over gRPC: one method with one message each way, so its framing is read and written here: a request stays the
//! bytes that came until a decoder unpacks it into memory that it uses again.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsPartialSuccess, ExportMetricsServiceResponse};
use prost::Message as _;
use tonic::{Code, Status};

use super::{Ingest, IngestError, Packing, Payload, Report};
use fabriclens_config::Needs;
use fabriclens_core::protocol::Protocol;
use fabriclens_server::auth::{Caller, Route, route};
use fabriclens_server::body::BodyError;
use fabriclens_server::retry;

const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
/// Whether a message is compressed, and its length in four bytes, stand before it.
const PREFIX: usize = 5;

/// What the gRPC listener serves.
pub fn routes() -> Vec<Route<Arc<Ingest>>> {
    vec![route(Needs::Ingest, &[Method::POST], EXPORT, export)]
}

async fn export(State(ingest): State<Arc<Ingest>>, Extension(caller): Extension<Caller>, request: Request) -> Response {
    match take(&ingest, caller, request).await {
        Ok(report) => answered(&report),
        Err(status) => status.into_http::<Body>(),
    }
}

async fn take(ingest: &Arc<Ingest>, caller: Caller, request: Request) -> Result<Report, Status> {
    let refuse = |reason: &str, status: Status| {
        ingest.refused(Protocol::OtlpGrpc, reason);
        status
    };
    let packing = packing(request.headers()).map_err(|status| refuse("encoding", status))?;
    let (parts, body) = request.into_parts();
    let packed = |framed: &Bytes| {
        let (compressed, message) = message(framed.clone()).ok()?;
        match (compressed, packing) {
            (true, Packing::None) => None,
            (true, packing) => Some((packing, message)),
            (false, _) => Some((Packing::None, message)),
        }
    };
    let received = ingest.receive(Protocol::OtlpGrpc, &caller, &parts.headers, body, false, packed).await;
    let received = received.map_err(|e| refuse(e.reason(), status_of(&e)))?;
    let framed = match received.payload.clone() {
        Payload::Plain(plain) => Ok((false, plain)),
        Payload::Packed(framed) => message(framed),
    };
    let (compressed, message) = framed.map_err(|e| refuse(e.reason(), status_of(&e.into())))?;
    let packing = match (compressed, packing) {
        (true, Packing::None) => {
            let text = "the message is compressed and grpc-encoding does not say how; name zstd or gzip";
            return Err(refuse("encoding", Status::internal(text)));
        }
        (true, packing) => packing,
        (false, _) => Packing::None,
    };
    ingest.otlp(Protocol::OtlpGrpc, caller, packing, message).await.map_err(|e| status_of(&e))
}

/// How a compressed message is compressed.
fn packing(headers: &HeaderMap) -> Result<Packing, Status> {
    match headers.get("grpc-encoding").map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(Packing::None),
        Some(b"gzip") => Ok(Packing::Gzip),
        Some(b"zstd") => Ok(Packing::Zstd),
        Some(other) => {
            let text = format!(
                "grpc-encoding {:?} is not supported; use zstd, gzip or none",
                other.escape_ascii().to_string()
            );
            let mut status = Status::unimplemented(text);
            let known = tonic::metadata::MetadataValue::from_static("zstd,gzip,identity");
            status.metadata_mut().insert("grpc-accept-encoding", known);
            Err(status)
        }
    }
}

/// The only message of a request, and whether it is compressed.
fn message(mut bytes: Bytes) -> Result<(bool, Bytes), BodyError> {
    let prefix: Option<[u8; PREFIX]> = bytes.first_chunk().copied();
    let Some([compressed @ 0..=1, a, b, c, d]) = prefix else {
        return Err(BodyError::Cut("it holds no gRPC message".to_owned()));
    };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    let message = bytes.split_off(PREFIX);
    if message.len() != length {
        return Err(BodyError::Cut(format!("its message is to have {length} bytes and has {}", message.len())));
    }
    Ok((compressed == 1, message))
}

/// All went well, but for what the report says.
fn answered(report: &Report) -> Response {
    let message = answer(report);
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX + length);
    bytes.put_u8(0);
    bytes.put_u32(length as u32);
    bytes.extend_from_slice(&message.encode_to_vec());
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(bytes.freeze()).with_trailers(std::future::ready(Some(Ok(trailers))));
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// Any other method, or no gRPC at all.
pub async fn other(request: Request) -> Response {
    let grpc =
        request.headers().get(header::CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"));
    if grpc {
        let text = format!("{} is not served here; this collector takes metrics only ({EXPORT})", request.uri().path());
        return Status::unimplemented(text).into_http::<Body>();
    }
    let text = "this port speaks OTLP over gRPC; OTLP over HTTP is on its own port (4318 unless configured)\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

fn status_of(e: &IngestError) -> Status {
    match (e, e.after()) {
        (_, Some(after)) => retry::later(Code::Unavailable, &e.to_string(), after),
        // Without a time to come back: who can sends less at a time, and nobody sends the same again.
        (IngestError::Body(BodyError::TooLarge { .. }), None) => Status::resource_exhausted(e.to_string()),
        // Sent again it would be the same.
        (IngestError::Malformed(_) | IngestError::Body(_), None) => Status::invalid_argument(e.to_string()),
        (_, None) => Status::internal(e.to_string()),
    }
}

/// The OTLP answer: partial success when points were not taken.
pub(super) fn answer(report: &Report) -> ExportMetricsServiceResponse {
    let partial = (report.rejected() > 0).then(|| ExportMetricsPartialSuccess {
        rejected_data_points: i64::try_from(report.rejected()).unwrap_or(i64::MAX),
        error_message: report.message(),
    });
    ExportMetricsServiceResponse { partial_success: partial }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_whole_or_refused() {
        let of = |bytes: &[u8]| message(Bytes::copy_from_slice(bytes)).map_err(|e| e.to_string());
        assert_eq!(of(b"\0\0\0\0\x03abc"), Ok((false, Bytes::from_static(b"abc"))));
        assert_eq!(of(b"\x01\0\0\0\0"), Ok((true, Bytes::new())));
        for bad in [&b""[..], b"\0\0\0\0", b"\x02\0\0\0\0"] {
            assert!(of(bad).unwrap_err().contains("no gRPC message"), "{bad:?}");
        }
        for bad in [&b"\0\0\0\0\x03ab"[..], b"\0\0\0\0\x03abcd", b"\0\xff\xff\xff\xffabc"] {
            assert!(of(bad).unwrap_err().contains("is to have"), "{bad:?}");
        }
    }

    #[test]
    fn an_unknown_compression_is_named_with_the_known_ones() {
        let of = |name: &'static str| {
            packing(&HeaderMap::from_iter([("grpc-encoding".parse().unwrap(), HeaderValue::from_static(name))]))
        };
        assert_eq!(of("zstd").unwrap(), Packing::Zstd);
        assert_eq!(of("gzip").unwrap(), Packing::Gzip);
        assert_eq!((of("identity").unwrap(), packing(&HeaderMap::new()).unwrap()), (Packing::None, Packing::None));
        let status = of("deflate").unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(status.message().contains("deflate") && status.message().contains("use zstd, gzip or none"));
        assert_eq!(status.metadata().get("grpc-accept-encoding").unwrap(), "zstd,gzip,identity");
    }
}
