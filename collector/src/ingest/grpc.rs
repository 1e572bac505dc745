//! OTLP over gRPC: one method, whose messages stay bytes until the decoder reads them.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::{Buf as _, Bytes};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsPartialSuccess, ExportMetricsServiceResponse};
use prost::Message as _;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Status};

use super::{BODY_TIME, Ingest, IngestError, Report, Way};
use crate::serve::listen::Peer;

const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// What the gRPC listener serves.
pub fn router(ingest: Arc<Ingest>) -> Router {
    Router::new().route(EXPORT, post(export)).fallback(other).with_state(ingest)
}

async fn export(State(ingest): State<Arc<Ingest>>, ConnectInfo(peer): ConnectInfo<Peer>, request: Request) -> Response {
    let limit = ingest.message_size();
    let _turn = match ingest.enter().await {
        Ok(turn) => turn,
        Err(e) => {
            ingest.refused(Way::OtlpGrpc, e.reason());
            return status_of(&e).into_http::<Body>();
        }
    };
    let mut grpc = tonic::server::Grpc::new(Raw)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Zstd)
        .max_decoding_message_size(limit);
    let call = Call { ingest: ingest.clone(), peer };
    let Ok(response) = tokio::time::timeout(BODY_TIME, grpc.unary(call, request)).await else {
        ingest.refused(Way::OtlpGrpc, "slow");
        let text = format!("the request was not complete within {} s; send it again", BODY_TIME.as_secs());
        return Status::unavailable(text).into_http::<Body>();
    };
    // Damage and size are found by the framing code, before a call begins; its words lack the remedy, and its codes
    // would make an exporter send the same request for ever.
    let (reason, status) = match Status::from_header_map(response.headers()) {
        Some(s) if matches!(s.code(), Code::OutOfRange | Code::ResourceExhausted) || over_limit(&s) => {
            let text = format!(
                "request exceeds {limit} bytes, compressed or not; send smaller batches, or raise ingest.message_size \
                 in the collector's config"
            );
            ("too_large", Status::invalid_argument(text))
        }
        Some(s) if s.message().starts_with("Error decompressing") => {
            let text = format!("request does not decompress: {}; compress it again or send it as it is", s.message());
            ("compression", Status::invalid_argument(text))
        }
        Some(s) if s.code() == Code::Unimplemented => ("encoding", s),
        _ => return response.map(Body::new),
    };
    ingest.refused(Way::OtlpGrpc, reason);
    status.into_http::<Body>()
}

fn over_limit(status: &Status) -> bool {
    status.message().contains("exceeded while decompressing")
}

/// Any other method, or no gRPC at all.
async fn other(request: Request) -> Response {
    let grpc =
        request.headers().get(header::CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"));
    if grpc {
        let text = format!("{} is not served here; this collector takes metrics only ({EXPORT})", request.uri().path());
        return Status::unimplemented(text).into_http::<Body>();
    }
    let text = "this port speaks OTLP over gRPC; OTLP over HTTP is on its own port (4318 unless configured)\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

/// One call.
struct Call {
    ingest: Arc<Ingest>,
    peer: Peer,
}

impl tonic::server::UnaryService<Bytes> for Call {
    type Response = ExportMetricsServiceResponse;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<tonic::Response<Self::Response>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let (ingest, peer) = (self.ingest.clone(), self.peer.0.ip());
        Box::pin(async move {
            match ingest.otlp(Way::OtlpGrpc, peer, request.into_inner()).await {
                Ok(report) => Ok(tonic::Response::new(answer(&report))),
                Err(e) => Err(status_of(&e)),
            }
        })
    }
}

fn status_of(e: &IngestError) -> Status {
    match e {
        IngestError::Malformed(_) => Status::invalid_argument(e.to_string()),
        IngestError::Unavailable(_) | IngestError::Busy { .. } => Status::unavailable(e.to_string()),
        IngestError::Internal(_) => Status::internal(e.to_string()),
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

/// Requests as they are, answers by protobuf.
#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = ExportMetricsServiceResponse;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = ExportMetricsServiceResponse;
    type Error = Status;

    fn encode(&mut self, item: Self::Item, dst: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(dst).map_err(|e| Status::internal(e.to_string()))
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(src.copy_to_bytes(src.remaining())))
    }
}
