//! Reads and decompresses request bodies, bounded before and after decompression, so that neither a large body nor a
//! decompression bomb fills memory.

use std::io::Read as _;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;

/// Time a sender has to deliver the body of a request.
pub const BODY_TIME: Duration = Duration::from_secs(30);

/// Most objects and lists in a JSON request. A point consists of several, and an empty one (`{}`) takes a hundred times
/// its size in memory.
pub const JSON_PARTS: usize = 1 << 18;

/// Most values that follow another one in a list or object of a JSON request. A number takes two bytes of text, and
/// several times eight bytes in memory.
pub const JSON_VALUES: usize = 1 << 20;

/// A body is refused; `Display` names the limit and the remedy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Larger than the limit, before or after decompression.
    #[error(
        "request {when} exceeds {limit} bytes; send smaller requests, or raise ingest.message_size in the collector's config"
    )]
    TooLarge {
        /// `body` or `decompressed`.
        when: &'static str,
        /// Limit, bytes.
        limit: usize,
    },
    /// JSON that would take many times its size in memory.
    #[error(
        "a JSON request may have at most {JSON_PARTS} objects and lists and {JSON_VALUES} values; send smaller requests, or protobuf"
    )]
    Parts,
    /// Unsupported `content-encoding`, and the supported ones.
    #[error("content-encoding {0:?} is not supported; use {1}")]
    Encoding(String, &'static str),
    /// Decompression failed: format, cause.
    #[error("request body is not valid {0}: {1}; compress it again or send it as it is")]
    Corrupt(&'static str, String),
    /// The connection ended.
    #[error("request body ended early: {0}")]
    Cut(String),
}

impl BodyError {
    /// HTTP status of the refusal.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } | Self::Parts => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Encoding(..) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Corrupt(..) | Self::Cut(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// Value of the `reason` label of rejected requests.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } | Self::Parts => "too_large",
            Self::Encoding(..) => "encoding",
            Self::Corrupt(..) => "compression",
            Self::Cut(_) => "cut",
        }
    }
}

/// Reads at most `limit` bytes, and refuses at once if `content-length` exceeds it. `reserve` is called with the length
/// of each chunk before the chunk is kept.
///
/// # Errors
/// [`BodyError::TooLarge`], [`BodyError::Cut`] if the sender disconnects, and the errors of `reserve`.
pub async fn read<E: From<BodyError>>(
    headers: &HeaderMap,
    mut body: Body,
    limit: usize,
    mut reserve: impl FnMut(usize) -> Result<(), E>,
) -> Result<Bytes, E> {
    let content_length = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if content_length.is_some_and(|n| n > limit as u64) {
        return Err(BodyError::TooLarge { when: "body", limit }.into());
    }
    let (mut whole, mut first) = (BytesMut::new(), Bytes::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| BodyError::Cut(e.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + whole.len() + data.len() > limit {
            drop((first, whole));
            drain(body, limit).await;
            return Err(BodyError::TooLarge { when: "body", limit }.into());
        }
        reserve(data.len())?;
        // Most bodies are one chunk, which need not be copied.
        match (first.is_empty(), whole.is_empty()) {
            (true, true) => first = data,
            (false, true) => {
                whole.extend_from_slice(&std::mem::take(&mut first));
                whole.extend_from_slice(&data);
            }
            (_, false) => whole.extend_from_slice(&data),
        }
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

/// Reads and drops up to `bytes` more. A client that is still sending would see a broken connection instead of the
/// answer.
async fn drain(mut body: Body, mut bytes: usize) {
    while let Some(Ok(frame)) = body.frame().await {
        match bytes.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(left) => bytes = left,
            None => return,
        }
    }
}

/// `content-encoding` in lower case; `identity` by default.
pub fn encoding(headers: &HeaderMap) -> String {
    headers
        .get(header::CONTENT_ENCODING)
        .and_then(|v| v.to_str().ok())
        .map_or_else(|| "identity".to_owned(), str::to_ascii_lowercase)
}

/// Decompresses gzip; stops as soon as the output exceeds `limit`.
///
/// # Errors
/// [`BodyError`] for other encodings, corrupt data, or too much output.
pub fn gunzip(encoding: &str, body: Bytes, limit: usize) -> Result<Bytes, BodyError> {
    match encoding {
        "identity" | "" => return Ok(body),
        "gzip" | "x-gzip" => {}
        other => return Err(BodyError::Encoding(other.to_owned(), "gzip or none")),
    }
    let mut out = Vec::with_capacity((body.len() * 4).min(limit));
    gunzip_into(&mut out, &body, limit)?;
    Ok(out.into())
}

/// Decompresses gzip into an empty buffer.
///
/// # Errors
/// [`BodyError`] for corrupt data or too much output.
pub fn gunzip_into(out: &mut Vec<u8>, body: &[u8], limit: usize) -> Result<(), BodyError> {
    flate2::read::MultiGzDecoder::new(body)
        .take(limit as u64 + 1)
        .read_to_end(out)
        .map_err(|e| BodyError::Corrupt("gzip", e.to_string()))?;
    if out.len() > limit {
        return Err(BodyError::TooLarge { when: "decompressed", limit });
    }
    Ok(())
}

/// Refuses JSON with more than [`JSON_PARTS`] objects and lists or [`JSON_VALUES`] further values. Brackets and commas
/// inside strings count, too; there are few.
///
/// # Errors
/// [`BodyError::Parts`].
pub fn limit_json(json: &[u8]) -> Result<(), BodyError> {
    let (parts, values) = json.iter().fold((0, 0), |(parts, values), b| match b {
        b'{' | b'[' => (parts + 1, values),
        b',' => (parts, values + 1),
        _ => (parts, values),
    });
    if parts > JSON_PARTS || values > JSON_VALUES { Err(BodyError::Parts) } else { Ok(()) }
}

/// Decompresses a snappy block, whose header holds the decompressed length.
///
/// # Errors
/// [`BodyError`] for other encodings, corrupt data, or too much output.
pub fn unsnap(encoding: &str, body: &[u8], limit: usize) -> Result<Vec<u8>, BodyError> {
    let mut plain = Vec::new();
    unsnap_into(&mut plain, encoding, body, limit)?;
    Ok(plain)
}

/// The same into a buffer, which grows if it is too small; returns the length.
///
/// # Errors
/// As [`unsnap`].
pub fn unsnap_into(buffer: &mut Vec<u8>, encoding: &str, body: &[u8], limit: usize) -> Result<usize, BodyError> {
    if !matches!(encoding, "snappy" | "identity") {
        return Err(BodyError::Encoding(encoding.to_owned(), "snappy"));
    }
    let corrupt = |e: snap::Error| BodyError::Corrupt("snappy", e.to_string());
    let length = snap::raw::decompress_len(body).map_err(corrupt)?;
    if length > limit {
        return Err(BodyError::TooLarge { when: "decompressed", limit });
    }
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    snap::raw::Decoder::new().decompress(body, buffer).map_err(corrupt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn gzip(bytes: &[u8]) -> Bytes {
        let mut e = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        e.write_all(bytes).unwrap();
        e.finish().unwrap().into()
    }

    #[test]
    fn bombs_stop_at_the_limit() {
        let bomb = gzip(&vec![0; 50 << 20]);
        assert!(bomb.len() < 100_000);
        assert_eq!(gunzip("gzip", bomb, 1 << 20), Err(BodyError::TooLarge { when: "decompressed", limit: 1 << 20 }));
        let bomb = snap::raw::Encoder::new().compress_vec(&vec![0; 50 << 20]).unwrap();
        assert!(matches!(unsnap("snappy", &bomb, 1 << 20), Err(BodyError::TooLarge { .. })));
        // A header that promises 4 GiB, without data.
        assert!(matches!(unsnap("snappy", &[0xff, 0xff, 0xff, 0xff, 0x0f], 1 << 20), Err(BodyError::TooLarge { .. })));
    }

    #[tokio::test]
    async fn oversized_bodies_are_drained_before_the_answer() {
        let left_of = async |stretches: usize| {
            let left = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(stretches));
            let counter = left.clone();
            let all = (0..stretches).map(move |_| {
                counter.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                Ok::<_, std::io::Error>(Bytes::from_static(&[0; 10]))
            });
            let body = Body::from_stream(futures_util::stream::iter(all));
            let answer = read(&HeaderMap::new(), body, 50, |_| Ok::<_, BodyError>(())).await;
            assert_eq!(answer, Err(BodyError::TooLarge { when: "body", limit: 50 }));
            left.load(std::sync::atomic::Ordering::Relaxed)
        };
        assert_eq!((left_of(6).await, left_of(11).await), (0, 0));
        assert_eq!(left_of(1000).await, 988, "at most twice the limit is read");
    }

    #[test]
    fn json_that_expands_in_memory_is_refused() {
        let lists = |n: usize| limit_json("[]".repeat(n).as_bytes());
        assert_eq!((lists(JSON_PARTS), lists(JSON_PARTS + 1)), (Ok(()), Err(BodyError::Parts)));
        let numbers = |n: usize| limit_json(format!("[0{}]", ",1".repeat(n)).as_bytes());
        assert_eq!((numbers(JSON_VALUES), numbers(JSON_VALUES + 1)), (Ok(()), Err(BodyError::Parts)));
    }

    #[test]
    fn corrupt_bodies_are_refused() {
        assert_eq!(gunzip("gzip", gzip(b"abc"), 3).unwrap(), "abc");
        assert_eq!(gunzip("identity", "abc".into(), 3).unwrap(), "abc");
        let cut = gzip(b"abcdef").slice(..12);
        assert!(gunzip("gzip", cut, 10).unwrap_err().to_string().starts_with("request body is not valid gzip"));
        assert!(gunzip("br", "abc".into(), 3).unwrap_err().to_string().contains("use gzip or none"));
        assert!(matches!(unsnap("snappy", b"\x05nope", 100), Err(BodyError::Corrupt("snappy", _))));
    }

    #[tokio::test]
    async fn large_bodies_are_refused_before_and_while_reading() {
        let mut headers = HeaderMap::new();
        let big = || Body::from(vec![0; 2000]);
        async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, BodyError> {
            super::read(headers, body, limit, |_| Ok(())).await
        }
        let error = read(&headers, big(), 1000).await.unwrap_err();
        assert_eq!(error, BodyError::TooLarge { when: "body", limit: 1000 });
        headers.insert(header::CONTENT_LENGTH, "104857600".parse().unwrap());
        assert_eq!(read(&headers, Body::empty(), 1000).await.unwrap_err().status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(read(&HeaderMap::new(), Body::from("x"), 1000).await.unwrap(), "x");
    }
}
