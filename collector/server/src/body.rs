//! Request bodies: bounded before and after decompression, so that neither 100 MB nor a small bomb fills memory.

use std::io::Read as _;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;

/// How long a sender may take to deliver a request's body.
pub const BODY_TIME: Duration = Duration::from_secs(30);

/// Objects and lists of a request in JSON. A point is several, and `{}` is one that takes a hundred times its size.
pub const JSON_PARTS: usize = 1 << 18;

/// Values that follow another in a list or object of a request in JSON: a number is two bytes of text, and eight or more,
/// several times, when it is read.
pub const JSON_VALUES: usize = 1 << 20;

/// Why a body was not taken; `Display` names the limit and the remedy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// More than the limit, before or after decompression.
    #[error(
        "request {when} exceeds {limit} bytes; send smaller requests, or raise ingest.message_size in the collector's config"
    )]
    TooLarge {
        /// `body` or `decompressed`.
        when: &'static str,
        /// The limit.
        limit: usize,
    },
    /// JSON that would take many times its size.
    #[error(
        "a request in JSON has {JSON_PARTS} objects and lists, and {JSON_VALUES} values, at most; send smaller requests, or protobuf"
    )]
    Parts,
    /// `content-encoding` that is not understood.
    #[error("content-encoding {0:?} is not supported; use {1}")]
    Encoding(String, &'static str),
    /// Bytes that do not decompress.
    #[error("request body is not valid {0}: {1}; compress it again or send it as it is")]
    Corrupt(&'static str, String),
    /// The connection ended.
    #[error("request body ended early: {0}")]
    Cut(String),
}

impl BodyError {
    /// What an HTTP client is told.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } | Self::Parts => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Encoding(..) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Corrupt(..) | Self::Cut(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// Word for the `reason` label of rejected requests.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } | Self::Parts => "too_large",
            Self::Encoding(..) => "encoding",
            Self::Corrupt(..) => "compression",
            Self::Cut(_) => "cut",
        }
    }
}

/// Reads at most `limit` bytes; refuses at once when `content-length` is more. `room` is asked for each stretch before it
/// is kept.
///
/// # Errors
/// [`BodyError::TooLarge`], or [`BodyError::Cut`] when the sender goes away; and those of `room`.
pub async fn read<E: From<BodyError>>(
    headers: &HeaderMap,
    mut body: Body,
    limit: usize,
    mut room: impl FnMut(usize) -> Result<(), E>,
) -> Result<Bytes, E> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|n| n > limit as u64) {
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
        room(data.len())?;
        // Most bodies are one stretch, which need not be copied.
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

/// Reads so many bytes more and drops them: who still sends would not see an answer, but a broken connection.
async fn drain(mut body: Body, mut bytes: usize) {
    while let Some(Ok(frame)) = body.frame().await {
        match bytes.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(left) => bytes = left,
            None => return,
        }
    }
}

/// `content-encoding`, lower case; `identity` when there is none.
pub fn encoding(headers: &HeaderMap) -> String {
    headers
        .get(header::CONTENT_ENCODING)
        .and_then(|v| v.to_str().ok())
        .map_or_else(|| "identity".to_owned(), str::to_ascii_lowercase)
}

/// Undoes gzip; stops as soon as the output exceeds `limit`.
///
/// # Errors
/// [`BodyError`] for other encodings, damage, or too much.
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

/// As [`gunzip`], of bytes that are known to be gzip, into an empty buffer.
///
/// # Errors
/// [`BodyError`] for damage or too much.
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

/// Refuses JSON with more than [`JSON_PARTS`] or [`JSON_VALUES`]; brackets and commas in text count too, which are few.
///
/// # Errors
/// [`BodyError::Parts`]
pub fn few_parts(json: &[u8]) -> Result<(), BodyError> {
    let (parts, values) = json.iter().fold((0, 0), |(parts, values), b| match b {
        b'{' | b'[' => (parts + 1, values),
        b',' => (parts, values + 1),
        _ => (parts, values),
    });
    if parts > JSON_PARTS || values > JSON_VALUES { Err(BodyError::Parts) } else { Ok(()) }
}

/// Undoes a snappy block, whose header says how large it becomes.
///
/// # Errors
/// [`BodyError`] for damage or too much.
pub fn unsnap(encoding: &str, body: &[u8], limit: usize) -> Result<Vec<u8>, BodyError> {
    if !matches!(encoding, "snappy" | "identity") {
        return Err(BodyError::Encoding(encoding.to_owned(), "snappy"));
    }
    let corrupt = |e: snap::Error| BodyError::Corrupt("snappy", e.to_string());
    if snap::raw::decompress_len(body).map_err(corrupt)? > limit {
        return Err(BodyError::TooLarge { when: "decompressed", limit });
    }
    snap::raw::Decoder::new().decompress_vec(body).map_err(corrupt)
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
        // A header that promises 4 GiB and holds nothing.
        assert!(matches!(unsnap("snappy", &[0xff, 0xff, 0xff, 0xff, 0x0f], 1 << 20), Err(BodyError::TooLarge { .. })));
    }

    #[tokio::test]
    async fn what_is_too_much_is_read_to_its_end_so_that_the_answer_is_seen() {
        let left_of = async |stretches: usize| {
            let left = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(stretches));
            let told = left.clone();
            let all = (0..stretches).map(move |_| {
                told.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                Ok::<_, std::io::Error>(Bytes::from_static(&[0; 10]))
            });
            let body = Body::from_stream(futures_util::stream::iter(all));
            let answer = read(&HeaderMap::new(), body, 50, |_| Ok::<_, BodyError>(())).await;
            assert_eq!(answer, Err(BodyError::TooLarge { when: "body", limit: 50 }));
            left.load(std::sync::atomic::Ordering::Relaxed)
        };
        assert_eq!((left_of(6).await, left_of(11).await), (0, 0));
        assert_eq!(left_of(1000).await, 988, "as much again and no more");
    }

    #[test]
    fn json_that_would_take_many_times_its_size_is_refused() {
        let lists = |n: usize| few_parts("[]".repeat(n).as_bytes());
        assert_eq!((lists(JSON_PARTS), lists(JSON_PARTS + 1)), (Ok(()), Err(BodyError::Parts)));
        let numbers = |n: usize| few_parts(format!("[0{}]", ",1".repeat(n)).as_bytes());
        assert_eq!((numbers(JSON_VALUES), numbers(JSON_VALUES + 1)), (Ok(()), Err(BodyError::Parts)));
    }

    #[test]
    fn damage_is_named_and_good_bytes_pass() {
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
