//! A door for `fuzz`: bodies of requests, as they are read before anything is stored.

use super::unpack::{Packing, Unpacker};
use super::{http, import, remote};
use fabriclens_server::body;

/// Bytes that one body may become.
const LIMIT: usize = 1 << 20;

/// A body of remote write: compressed, or already plain.
pub fn remote_write(bytes: &[u8]) {
    let plain = body::unsnap("snappy", bytes, LIMIT);
    let mut decoder = remote::Decoder::default();
    let body = plain.as_deref().unwrap_or(bytes);
    let first = decoder.decode(body).is_ok();
    assert_eq!(first, decoder.decode(body).is_ok(), "a request that is known is read like a new one");
}

/// A gzip body.
pub fn gunzip(bytes: &[u8]) {
    let mut out = Vec::new();
    if body::gunzip_into(&mut out, bytes, LIMIT).is_ok() {
        assert!(out.len() <= LIMIT, "no body is larger than its limit");
    }
}

/// A zstd body, twice: contexts are used again, whatever was in the one before.
pub fn unzstd(bytes: &[u8]) {
    let mut unpacker = Unpacker::default();
    let mut unpack = || unpacker.unpack(Packing::Zstd, bytes, LIMIT).map(<[u8]>::to_vec).ok();
    let (first, second) = (unpack(), unpack());
    assert_eq!(first, second, "a context that was used reads the same");
    assert!(first.is_none_or(|plain| plain.len() <= LIMIT), "no body is larger than its limit");
}

/// OTLP in JSON; what it becomes.
pub fn json(bytes: &[u8]) -> Option<bytes::Bytes> {
    http::from_json(bytes).ok()
}

/// JSON lines of an import.
pub fn lines(bytes: &[u8]) {
    if let Ok(request) = import::parse(bytes, 0) {
        remote::Decoder::default().decode(&request).expect("what import makes of lines is a request");
    }
}
