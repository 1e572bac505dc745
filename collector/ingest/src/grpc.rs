//! The gRPC listener: OTLP, the lease of subnets, their forwarding tables, plans and reports of probes. Each method has one message in each direction, so the framing is
//! handled here: a request stays as received until a decoder decompresses it into reused memory.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsPartialSuccess, ExportMetricsServiceResponse};
use tonic::Status;

use super::agent_methods::AgentMethod;
use super::grpc_frame::{self, message};
use super::grpc_status::status_of;
use super::{Compression, Ingest, Payload, Report, direct, relay};
use fabriclens_config::{Access, ServeRole};
use fabriclens_core::protocol::Protocol;
use fabriclens_server::auth::{Caller, Hosts};
use fabriclens_server::route::{Route, route};
use fabriclens_wire::troubled_jobs;

const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Routes of the gRPC listener.
pub fn routes(role: ServeRole) -> Vec<Route<Arc<Ingest>>> {
    let samples = match role {
        ServeRole::All | ServeRole::Ingest => route(Access::Ingest, &[Method::POST], EXPORT, export),
        ServeRole::Judge => route(Access::Ingest, &[Method::POST], EXPORT, direct::refuse_grpc),
    };
    std::iter::once(samples).chain(AgentMethod::ALL.map(|method| agent_route(method, role))).collect()
}

fn agent_route(method: AgentMethod, role: ServeRole) -> Route<Arc<Ingest>> {
    let handler = move |State(ingest): State<Arc<Ingest>>, Extension(caller): Extension<Caller>, request: Request| async move {
        match role {
            ServeRole::Ingest => relay::pass_on(method, ingest, caller, request).await,
            ServeRole::All | ServeRole::Judge => method.answer(ingest, caller, request).await,
        }
    };
    route(Access::Ingest, &[Method::POST], method.path(), handler)
}

async fn export(State(ingest): State<Arc<Ingest>>, Extension(caller): Extension<Caller>, request: Request) -> Response {
    let jobs = match &caller.hosts {
        Hosts::Any => ingest.telemetry.troubled_jobs.of_all(),
        Hosts::Only(own) => ingest.telemetry.troubled_jobs.of_host(own),
    };
    match take(&ingest, caller, request).await {
        Ok(report) => {
            let mut reply = grpc_frame::reply(&answer(&report));
            let jobs = jobs.and_then(|jobs| HeaderValue::from_str(&jobs).ok());
            reply.headers_mut().extend(jobs.map(|jobs| (HeaderName::from_static(troubled_jobs::HEADER), jobs)));
            reply
        }
        Err(status) => status.into_http::<Body>(),
    }
}

async fn take(ingest: &Arc<Ingest>, caller: Caller, request: Request) -> Result<Report, Status> {
    let refuse = |reason: &str, status: Status| {
        ingest.refused(Protocol::OtlpGrpc, reason);
        status
    };
    let compression = compression(request.headers()).map_err(|status| refuse("encoding", status))?;
    let (parts, body) = request.into_parts();
    let packed = |framed: &Bytes| {
        let (compressed, message) = message(framed.clone()).ok()?;
        match (compressed, compression) {
            (true, Compression::None) => None,
            (true, compression) => Some((compression, message)),
            (false, _) => Some((Compression::None, message)),
        }
    };
    let received = ingest.receive(Protocol::OtlpGrpc, &caller, &parts.headers, body, false, packed).await;
    let received = received.map_err(|e| refuse(e.reason(), status_of(&e)))?;
    let framed = match received.payload.clone() {
        Payload::Plain(plain) => Ok((false, plain)),
        Payload::Packed(framed) => message(framed),
    };
    let (compressed, message) = framed.map_err(|e| refuse(e.reason(), status_of(&e.into())))?;
    let compression = match (compressed, compression) {
        (true, Compression::None) => {
            let text = "the message is compressed, but grpc-encoding is missing; set it to zstd or gzip";
            return Err(refuse("encoding", Status::internal(text)));
        }
        (true, compression) => compression,
        (false, _) => Compression::None,
    };
    ingest.otlp(Protocol::OtlpGrpc, caller, compression, message).await.map_err(|e| status_of(&e))
}

/// Compression of compressed messages.
fn compression(headers: &HeaderMap) -> Result<Compression, Status> {
    match headers.get("grpc-encoding").map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(Compression::None),
        Some(b"gzip") => Ok(Compression::Gzip),
        Some(b"zstd") => Ok(Compression::Zstd),
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

/// Answers unknown methods and requests that are not gRPC.
pub async fn other(request: Request) -> Response {
    let grpc =
        request.headers().get(header::CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"));
    if grpc {
        let text = format!("unknown method {}; this collector accepts metrics only ({EXPORT})", request.uri().path());
        return Status::unimplemented(text).into_http::<Body>();
    }
    let text = "this port speaks OTLP over gRPC; OTLP over HTTP is on its own port (4318 unless configured)\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

/// The OTLP answer; partial success if points were rejected.
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
    use tonic::Code;

    #[test]
    fn unknown_compression_is_refused() {
        let of = |name: &'static str| {
            compression(&HeaderMap::from_iter([("grpc-encoding".parse().unwrap(), HeaderValue::from_static(name))]))
        };
        assert_eq!(of("zstd").unwrap(), Compression::Zstd);
        assert_eq!(of("gzip").unwrap(), Compression::Gzip);
        assert_eq!(
            (of("identity").unwrap(), compression(&HeaderMap::new()).unwrap()),
            (Compression::None, Compression::None)
        );
        let status = of("deflate").unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(status.message().contains("deflate") && status.message().contains("use zstd, gzip or none"));
        assert_eq!(status.metadata().get("grpc-accept-encoding").unwrap(), "zstd,gzip,identity");
    }
}
