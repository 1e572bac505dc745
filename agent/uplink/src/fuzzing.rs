//! Entry point for `fuzz`: spooled requests with arbitrary bytes, as a damaged disk may return them.

use crate::frame::{Frame, LARGEST};

/// Decodes a spooled request with a valid or invalid compression code.
pub fn kept(bytes: &[u8]) {
    let [code, bytes @ ..] = bytes else { return };
    let frame = Frame::kept(bytes.to_vec(), *code);
    if let Ok(plain) = frame.plain() {
        assert!(plain.bytes.len() as u64 <= LARGEST + 5, "no request is larger than its limit");
        assert_eq!(plain.points(), frame.points(), "it is the same request");
    }
    if let Some(halves) = frame.halves() {
        let points: u64 = halves.iter().map(Frame::points).sum();
        // A request that is damaged as a whole may have an intact half.
        assert!(points >= frame.points(), "none is lost by halving");
    }
}
