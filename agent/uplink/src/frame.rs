//! Encodes a gRPC message: flag, length, and the request, compressed or not.
//!
//! tonic can compress too, but would create a context and three copies per request; here one context is reused. Called
//! once per request.

use crate::config::Compression;
use bytes::Bytes;
use fabriclens_wire::{decode, encode};
use std::io::{self, Read as _, Write as _};

/// Bytes of flag and length before a message.
const HEAD: usize = 5;
/// Size limit of an uncompressed request: requests of an agent are far smaller, and damaged data on disk must not fill
/// the memory.
pub(crate) const LARGEST: u64 = 64 << 20;
/// Fastest regular level: the next ones take twice the time for a tenth less.
const LEVEL: i32 = 1;

/// An encoded message.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub bytes: Bytes,
    pub compression: Compression,
}

/// Compressions by their code in the spool.
const CODES: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Zstd];

impl Frame {
    /// Frame from spooled bytes and their [`Frame::code`].
    pub(crate) fn kept(bytes: Vec<u8>, code: u8) -> Self {
        Self { bytes: bytes.into(), compression: CODES.get(usize::from(code)).copied().unwrap_or(Compression::None) }
    }

    /// Code of the compression in the spool.
    pub(crate) fn code(&self) -> u8 {
        CODES.iter().position(|c| *c == self.compression).unwrap_or(0) as u8
    }

    /// Same message, uncompressed.
    ///
    /// # Errors
    /// When the bytes are not a frame of [`Framer::frame`].
    pub(crate) fn plain(&self) -> io::Result<Self> {
        Ok(plain(&self.body()?))
    }

    /// Splits the message into two uncompressed ones, if it has more than one part.
    pub(crate) fn halves(&self) -> Option<[Self; 2]> {
        let body = self.body().ok()?;
        encode::halves(&body).map(|(first, second)| [plain(first), plain(second)])
    }

    /// Number of points, as a receiver counts them.
    pub(crate) fn points(&self) -> u64 {
        let rows = self.body().ok().and_then(|body| decode::Decoder::default().bytes(&body).ok());
        rows.map_or(0, |rows| rows.samples() as u64)
    }

    /// Uncompressed request.
    fn body(&self) -> io::Result<Vec<u8>> {
        let body = self.bytes.get(HEAD..).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut plain = Vec::new();
        let most = LARGEST + 1;
        match self.compression {
            Compression::None => body.take(most).read_to_end(&mut plain)?,
            Compression::Gzip => flate2::read::GzDecoder::new(body).take(most).read_to_end(&mut plain)?,
            Compression::Zstd => zstd::stream::read::Decoder::new(body)?.take(most).read_to_end(&mut plain)?,
        };
        if plain.len() as u64 > LARGEST { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(plain) }
    }
}

/// Encoder of frames.
#[derive(Default)]
pub(crate) struct Framer {
    zstd: Option<zstd::bulk::Compressor<'static>>,
    /// Buffer for compressed bytes, before their length is known.
    room: Vec<u8>,
}

impl std::fmt::Debug for Framer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Framer")
    }
}

impl Framer {
    /// Encodes one message.
    ///
    /// # Errors
    /// When compression fails, which happens only for lack of memory.
    pub(crate) fn frame(&mut self, body: &[u8], compression: Compression) -> io::Result<Frame> {
        match compression {
            Compression::None => return Ok(plain(body)),
            Compression::Gzip => {
                self.room.clear();
                let mut encoder = flate2::write::GzEncoder::new(&mut self.room, flate2::Compression::fast());
                encoder.write_all(body)?;
                encoder.finish()?;
            }
            Compression::Zstd => {
                let zstd = match &mut self.zstd {
                    Some(zstd) => zstd,
                    none => none.insert(zstd::bulk::Compressor::new(LEVEL)?),
                };
                self.room.resize(zstd::zstd_safe::compress_bound(body.len()), 0);
                let len = zstd.compress_to_buffer(body, &mut self.room[..])?;
                self.room.truncate(len);
            }
        }
        Ok(Frame { bytes: message(1, &self.room), compression })
    }
}

/// Encodes a message uncompressed.
pub(crate) fn plain(body: &[u8]) -> Frame {
    Frame { bytes: message(0, body), compression: Compression::None }
}

fn message(flag: u8, body: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(HEAD + body.len());
    out.push(flag);
    // The ring holds less than 4 GiB, and larger requests are split before.
    out.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(body);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_request_cannot_fill_memory() {
        let bomb = zstd::stream::encode_all(io::repeat(0).take(LARGEST * 4), LEVEL).unwrap();
        let frame = Frame::kept([&[1; HEAD][..], &bomb].concat(), 2);
        assert_eq!(frame.plain().unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(frame.halves().is_none() && frame.points() == 0);
    }

    #[test]
    fn each_compression_round_trips_repeatedly() {
        let mut framer = Framer::default();
        for text in [vec![], b"counter ".repeat(10_000), vec![3; 7], b"other ".repeat(20_000)] {
            for compression in [Compression::Zstd, Compression::None, Compression::Gzip, Compression::Zstd] {
                let frame = framer.frame(&text, compression).unwrap();
                let (head, body) = frame.bytes.split_at(HEAD);
                assert_eq!(head[0] == 1, compression != Compression::None);
                assert_eq!(head[1..], (body.len() as u32).to_be_bytes());
                let magic = [&[][..], &[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd]][usize::from(frame.code())];
                assert!(body.starts_with(magic), "{compression:?}");
                let kept = Frame::kept(frame.bytes.to_vec(), frame.code());
                assert_eq!(kept.compression, compression);
                assert_eq!(kept.plain().unwrap().bytes[HEAD..], text);
            }
        }
    }
}
