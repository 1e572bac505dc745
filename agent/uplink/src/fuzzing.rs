//! A door for `fuzz`: requests as a spool gives them back, from a disk that may tell anything.

use crate::frame::{Frame, LARGEST};

/// A request kept with one of the numbers of compressions, or with none of them.
pub fn kept(bytes: &[u8]) {
    let [code, bytes @ ..] = bytes else { return };
    let frame = Frame::kept(bytes.to_vec(), *code);
    if let Ok(plain) = frame.plain() {
        assert!(plain.bytes.len() as u64 <= LARGEST + 5, "no request is larger than its limit");
        assert_eq!(plain.points(), frame.points(), "it is the same request");
    }
    if let Some(halves) = frame.halves() {
        let points: u64 = halves.iter().map(Frame::points).sum();
        // What is damaged as a whole may be whole in one half.
        assert!(points >= frame.points(), "none is lost by halving");
    }
}
