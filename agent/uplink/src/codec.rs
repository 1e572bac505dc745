//! Decodes responses of a collector.

use prost::Message;
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{DecodeBuf, Decoder};

/// Decoder of a response message.
pub(crate) struct Answer<M>(PhantomData<M>);

impl<M> Default for Answer<M> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<M: Message + Default> Decoder for Answer<M> {
    type Item = M;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        // The gRPC status tells success from failure; a malformed body does not turn success into failure.
        Ok(Some(M::decode(buffer).unwrap_or_default()))
    }
}
