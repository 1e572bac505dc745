//! Decompresses OTLP requests with reused contexts and buffers, which would otherwise cost hundreds of kilobytes per
//! request.

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation as _, OutBuffer};

use fabriclens_server::body;
use fabriclens_server::body::BodyError;

/// Bytes the buffer keeps between two requests.
const KEPT: usize = 1 << 20;
/// Bytes by which the buffer grows at least.
const STEP: usize = 64 << 10;
/// Log2 of the largest zstd window, which bounds what a hostile sender can make a decoder allocate.
const WINDOW: u32 = 24;

/// Compression of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// None.
    None,
    /// Gzip.
    Gzip,
    /// Zstandard.
    Zstd,
    /// Snappy block.
    Snappy,
}

/// Decompressor with reused memory.
#[derive(Default)]
pub(super) struct Unpacker {
    out: Vec<u8>,
    zstd: Option<Decoder<'static>>,
}

impl Unpacker {
    /// Returns the decompressed request, at most `limit` bytes.
    ///
    /// # Errors
    /// [`BodyError`] for corrupt data or too much output.
    pub(super) fn unpack<'a>(
        &'a mut self,
        compression: Compression,
        body: &'a [u8],
        limit: usize,
    ) -> Result<&'a [u8], BodyError> {
        self.out.clear();
        self.out.shrink_to(KEPT);
        match compression {
            Compression::None if body.len() > limit => return Err(BodyError::TooLarge { when: "body", limit }),
            Compression::None => return Ok(body),
            Compression::Gzip => body::gunzip_into(&mut self.out, body, limit)?,
            Compression::Zstd => self.unzstd(body, limit)?,
            Compression::Snappy => _ = body::unsnap_into(&mut self.out, "snappy", body, limit)?,
        }
        Ok(&self.out)
    }

    fn unzstd(&mut self, body: &[u8], limit: usize) -> Result<(), BodyError> {
        let corrupt = |what: &str| BodyError::Corrupt("zstd", what.to_owned());
        let failed = |e: std::io::Error| corrupt(&e.to_string());
        let decoder = match &mut self.zstd {
            Some(decoder) => {
                decoder.reinit().map_err(failed)?;
                decoder
            }
            none => {
                let mut new = Decoder::new().map_err(failed)?;
                new.set_parameter(DParameter::WindowLogMax(WINDOW)).map_err(failed)?;
                none.insert(new)
            }
        };
        let out = &mut self.out;
        let mut input = InBuffer::around(body);
        let mut missing = 0;
        while missing > 0 || input.pos() < body.len() {
            if out.len() == out.capacity() {
                if out.len() > limit {
                    return Err(BodyError::TooLarge { when: "decompressed", limit });
                }
                out.reserve(out.len().max(STEP));
            }
            let (read, written) = (input.pos(), out.len());
            let mut output = OutBuffer::around_pos(out, written);
            missing = decoder.run(&mut input, &mut output).map_err(failed)?;
            if input.pos() == read && out.len() == written {
                return Err(corrupt("the data ends early"));
            }
        }
        if out.len() > limit {
            return Err(BodyError::TooLarge { when: "decompressed", limit });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        zstd::bulk::compress(bytes, 1).unwrap()
    }

    #[test]
    fn decoder_recovers_after_corrupt_input() {
        let mut unpacker = Unpacker::default();
        let noise: Vec<u8> = (0..300_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for _ in 0..3 {
            for size in [0, 1, 70_000, 300_000] {
                let (body, limit) = (packed(&noise[..size]), 300_000);
                assert!(unpacker.unpack(Compression::Zstd, &body, limit).unwrap() == &noise[..size], "{size}");
            }
            // Without content size, and as two frames.
            let mut body = zstd::stream::encode_all(&noise[..70_000], 3).unwrap();
            body.extend(packed(&noise[70_000..]));
            assert!(unpacker.unpack(Compression::Zstd, &body, 300_000).unwrap() == noise);
            for cut in [1, 5, 100, body.len() - 1] {
                let cut = unpacker.unpack(Compression::Zstd, &body[..cut], 300_000).unwrap_err();
                assert_eq!(cut.to_string().split(':').next(), Some("request body is not valid zstd"));
            }
            assert!(matches!(unpacker.unpack(Compression::Zstd, b"no zstd at all", 99), Err(BodyError::Corrupt(..))));
            assert_eq!(unpacker.unpack(Compression::None, b"abc", 3).unwrap(), b"abc");
            assert!(unpacker.unpack(Compression::None, b"abcd", 3).is_err());
        }
    }

    #[test]
    fn bombs_stop_at_the_limit_and_free_memory() {
        let mut unpacker = Unpacker::default();
        let bomb = packed(&vec![0; 50 << 20]);
        let limit = 2 << 20;
        let error = unpacker.unpack(Compression::Zstd, &bomb, limit).unwrap_err();
        assert_eq!(error, BodyError::TooLarge { when: "decompressed", limit });
        assert!(unpacker.out.capacity() <= 4 * limit, "{}", unpacker.out.capacity());
        assert_eq!(unpacker.unpack(Compression::Zstd, &packed(b"abc"), 3).unwrap(), b"abc");
        assert!(unpacker.out.capacity() <= KEPT, "{}", unpacker.out.capacity());
    }
}
