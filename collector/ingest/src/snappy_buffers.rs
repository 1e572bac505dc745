//! Buffers for decompressed remote-write requests. A request has megabytes; the allocator would give the pages of a freed buffer
//! back to the kernel and fetch zeroed ones for the next, which costs more than to decompress into them.

use std::sync::Arc;

use bytes::Bytes;
use fabriclens_server::body::{self, BodyError};
use parking_lot::Mutex;

/// Most buffers that are kept, and largest one, bytes.
const KEPT: usize = 4;
const LARGEST: usize = 4 << 20;

/// Buffers that no request is in.
#[derive(Clone, Default)]
pub(super) struct SnappyBuffers(Arc<Mutex<Vec<Vec<u8>>>>);

/// A buffer in use; returns when it is dropped.
struct Lent {
    bytes: Vec<u8>,
    /// Length of the request.
    len: usize,
    from: SnappyBuffers,
}

impl SnappyBuffers {
    /// The decompressed request, at most `limit` bytes.
    ///
    /// # Errors
    /// [`BodyError`] for other encodings, corrupt data, or too much output.
    pub(super) fn unsnap(&self, encoding: &str, packed: &[u8], limit: usize) -> Result<Bytes, BodyError> {
        let bytes = self.0.lock().pop().unwrap_or_default();
        let mut lent = Lent { bytes, len: 0, from: self.clone() };
        lent.len = body::unsnap_into(&mut lent.bytes, encoding, packed, limit)?;
        Ok(Bytes::from_owner(lent))
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut kept = self.from.0.lock();
        if kept.len() < KEPT && self.bytes.capacity() <= LARGEST {
            kept.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_and_bounded() {
        let buffers = SnappyBuffers::default();
        let packed = |bytes: &[u8]| snap::raw::Encoder::new().compress_vec(bytes).unwrap();
        let plain = |bytes: &[u8]| buffers.unsnap("snappy", &packed(bytes), 8 << 20).unwrap();
        let sizes = || buffers.0.lock().iter().map(Vec::len).collect::<Vec<_>>();
        let (long, short) = (plain(&[7; 1000]), plain(b"short"));
        assert_eq!((&long[..], &short[..], sizes()), (&[7; 1000][..], &b"short"[..], vec![]));
        let part = long.slice(..10);
        drop(long);
        assert_eq!(sizes(), [0; 0], "a part is still used");
        drop(part);
        assert_eq!(plain(b"again"), "again");
        assert_eq!(sizes(), [1000]);
        assert!(buffers.unsnap("snappy", b"\x05nope", 100).is_err());
        assert!(buffers.unsnap("gzip", &packed(b"x"), 100).is_err());
        assert!(buffers.unsnap("snappy", &packed(b"too long"), 7).is_err());
        assert_eq!(sizes(), [1000]);
        drop(plain(&vec![0; LARGEST + 1]));
        assert_eq!(sizes(), [0; 0], "a large buffer is given back");
        let all: Vec<Bytes> = (0..KEPT + 3).map(|_| plain(b"x")).collect();
        drop(all);
        assert_eq!(sizes().len(), KEPT);
    }
}
