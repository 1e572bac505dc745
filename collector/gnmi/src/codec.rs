//! Codec of the method `Subscribe`: requests are encoded, responses stay bytes.

use bytes::{Buf as _, Bytes};
use prost::Message as _;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::proto::SubscribeRequest;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SubscribeCodec;

impl Codec for SubscribeCodec {
    type Encode = SubscribeRequest;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for SubscribeCodec {
    type Item = SubscribeRequest;
    type Error = Status;

    fn encode(&mut self, request: SubscribeRequest, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        request.encode(buffer).map_err(|e| Status::internal(e.to_string()))
    }
}

impl Decoder for SubscribeCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
