//! Decodes responses of a collector.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message as _;
use tonic::Status;
use tonic::codec::{DecodeBuf, Decoder};

/// Decoder of `ExportMetricsServiceResponse`.
pub(crate) struct Answer;

impl Decoder for Answer {
    type Item = ExportMetricsServiceResponse;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        // The gRPC status tells success from failure; a malformed body does not turn success into failure.
        Ok(Some(ExportMetricsServiceResponse::decode(buffer).unwrap_or_default()))
    }
}
