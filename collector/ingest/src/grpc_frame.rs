//! Framing of gRPC messages: a flag and the length in front of each request and reply.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::{BufMut as _, Bytes, BytesMut};
use fabriclens_server::body::BodyError;
use http_body_util::{BodyExt as _, Full};
use prost::Message;

/// A message is preceded by a compression flag and four bytes of length.
const PREFIX: usize = 5;

/// The only message of a request, and whether it is compressed.
pub(crate) fn message(mut bytes: Bytes) -> Result<(bool, Bytes), BodyError> {
    let prefix: Option<[u8; PREFIX]> = bytes.first_chunk().copied();
    let Some([compressed @ 0..=1, a, b, c, d]) = prefix else {
        return Err(BodyError::Cut("no gRPC message".to_owned()));
    };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    let message = bytes.split_off(PREFIX);
    if message.len() != length {
        return Err(BodyError::Cut(format!("the message should have {length} bytes and has {}", message.len())));
    }
    Ok((compressed == 1, message))
}

/// Success with a reply.
pub(crate) fn reply(message: &impl Message) -> Response {
    reply_encoded(&message.encode_to_vec())
}

/// Success with a reply that is encoded already.
pub(crate) fn reply_encoded(message: &[u8]) -> Response {
    let mut bytes = BytesMut::with_capacity(PREFIX + message.len());
    bytes.put_u8(0);
    bytes.put_u32(message.len() as u32);
    bytes.extend_from_slice(message);
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(bytes.freeze()).with_trailers(std::future::ready(Some(Ok(trailers))));
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_messages_are_refused() {
        let of = |bytes: &[u8]| message(Bytes::copy_from_slice(bytes)).map_err(|e| e.to_string());
        assert_eq!(of(b"\0\0\0\0\x03abc"), Ok((false, Bytes::from_static(b"abc"))));
        assert_eq!(of(b"\x01\0\0\0\0"), Ok((true, Bytes::new())));
        for bad in [&b""[..], b"\0\0\0\0", b"\x02\0\0\0\0"] {
            assert!(of(bad).unwrap_err().contains("no gRPC message"), "{bad:?}");
        }
        for bad in [&b"\0\0\0\0\x03ab"[..], b"\0\0\0\0\x03abcd", b"\0\xff\xff\xff\xffabc"] {
            assert!(of(bad).unwrap_err().contains("should have"), "{bad:?}");
        }
    }
}
