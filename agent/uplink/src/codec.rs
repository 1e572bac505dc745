//! Reads the answers of a collector.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message as _;
use tonic::Status;
use tonic::codec::{DecodeBuf, Decoder};

/// Decodes an `ExportMetricsServiceResponse`.
pub(crate) struct Answer;

impl Decoder for Answer {
    type Item = ExportMetricsServiceResponse;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        // What cannot be read was still accepted: the status, not the body, says so.
        Ok(Some(ExportMetricsServiceResponse::decode(buffer).unwrap_or_default()))
    }
}
