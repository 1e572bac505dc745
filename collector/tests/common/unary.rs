//! Calls of gRPC methods with one prost message in each direction.

use prost::Message;
use prost::bytes::Buf as _;
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;

/// Calls a method.
pub async fn unary<A: Message + 'static, B: Message + Default + 'static>(
    channel: &Channel,
    method: &'static str,
    message: A,
) -> Result<B, Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.map_err(|e| Status::unavailable(e.to_string()))?;
    let path = tonic::codegen::http::uri::PathAndQuery::from_static(method);
    let answer = client.unary(tonic::Request::new(message), path, Prost(PhantomData)).await?;
    Ok(answer.into_inner())
}

struct Prost<A, B>(PhantomData<(A, B)>);

impl<A: Message + 'static, B: Message + Default + 'static> Codec for Prost<A, B> {
    type Encode = A;
    type Decode = B;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self(PhantomData)
    }

    fn decoder(&mut self) -> Self {
        Self(PhantomData)
    }
}

impl<A: Message, B> Encoder for Prost<A, B> {
    type Item = A;
    type Error = Status;

    fn encode(&mut self, message: A, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(out).map_err(|e| Status::internal(e.to_string()))
    }
}

impl<A, B: Message + Default> Decoder for Prost<A, B> {
    type Item = B;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<B>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        B::decode(bytes).map(Some).map_err(|e| Status::internal(e.to_string()))
    }
}
