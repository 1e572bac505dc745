//! The command channel between a test and its guest: one TCP connection per request, little-endian frames.
//!
//! The guest's PID 1 (`main.rs`) answers it; the host's side is `fabriclens_tests::lab::exec`. Both use this file.

#![forbid(unsafe_code)]

use std::io::{self, Read, Write};

/// TCP port inside the guest.
pub const PORT: u16 = 2222;

/// Line on the serial console once the guest answers on [`PORT`]; the test waits for it.
pub const READY: &str = "LAB-READY";

/// Longest string or frame accepted; larger means that the peer does not speak this protocol.
pub const MAX_FRAME: u32 = 64 << 20;

/// Operation of a connection: its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// Run a shell script: string. Answered by [`Frame`]s.
    Exec = 1,
    /// Write a file: string (path), u32 (mode), bytes until the end of the stream. Answered by [`Frame`]s.
    Put = 2,
    /// Set the wall clock: u64 nanoseconds since 1970. Answered by [`Frame`]s.
    Clock = 3,
    /// Read the wall clock. Answered by [`Frame::Out`] with the nanoseconds since 1970 as text.
    Now = 4,
}

impl Op {
    /// Operation of a byte.
    ///
    /// # Errors
    /// `InvalidData` for a byte that no version ever sent.
    pub fn from_byte(byte: u8) -> io::Result<Self> {
        match byte {
            1 => Ok(Self::Exec),
            2 => Ok(Self::Put),
            3 => Ok(Self::Clock),
            4 => Ok(Self::Now),
            other => Err(io::Error::new(io::ErrorKind::InvalidData, format!("unknown operation {other}"))),
        }
    }
}

/// Parts of the answer to a request, in order of time; `Exit` is the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Bytes of standard output.
    Out(Vec<u8>),
    /// Bytes of standard error.
    Err(Vec<u8>),
    /// Exit status, or 128 + the signal's number.
    Exit(i32),
}

impl Frame {
    /// Writes one frame.
    ///
    /// # Errors
    /// When the stream fails.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (kind, bytes) = match self {
            Self::Out(bytes) => (b'o', bytes.clone()),
            Self::Err(bytes) => (b'e', bytes.clone()),
            Self::Exit(status) => (b'x', status.to_le_bytes().to_vec()),
        };
        to.write_all(&[kind])?;
        write_bytes(to, &bytes)
    }

    /// Reads one frame.
    ///
    /// # Errors
    /// When the stream fails; `InvalidData` if it has no valid frame.
    pub fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut kind = [0];
        from.read_exact(&mut kind)?;
        let bytes = read_bytes(from)?;
        match kind[0] {
            b'o' => Ok(Self::Out(bytes)),
            b'e' => Ok(Self::Err(bytes)),
            b'x' => bytes
                .try_into()
                .map(|status| Self::Exit(i32::from_le_bytes(status)))
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "exit frame is not 4 bytes")),
            other => Err(io::Error::new(io::ErrorKind::InvalidData, format!("unknown frame {other}"))),
        }
    }
}

/// Writes a length and the bytes.
///
/// # Errors
/// When the stream fails.
pub fn write_bytes(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&(bytes.len() as u32).to_le_bytes())?;
    to.write_all(bytes)?;
    to.flush()
}

/// Reads a length and that many bytes.
///
/// # Errors
/// When the stream fails; `InvalidData` beyond [`MAX_FRAME`].
pub fn read_bytes(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let length = read_u32(from)?;
    if length > MAX_FRAME {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("frame of {length} bytes is over the limit of {MAX_FRAME}"),
        ));
    }
    let mut bytes = vec![0; length as usize];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads a little-endian u32.
///
/// # Errors
/// When the stream fails.
pub fn read_u32(from: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip() {
        let frames = [Frame::Out(b"a\0b".to_vec()), Frame::Err(vec![]), Frame::Exit(-7)];
        let mut wire = Vec::new();
        for frame in &frames {
            frame.write(&mut wire).unwrap();
        }
        let mut from = wire.as_slice();
        for frame in &frames {
            assert_eq!(&Frame::read(&mut from).unwrap(), frame);
        }
        assert!(Frame::read(&mut from).is_err(), "nothing is left");
    }

    #[test]
    fn oversized_length_is_rejected() {
        assert!(Op::from_byte(0).is_err());
        assert!(Frame::read(&mut b"x\x02\0\0\0ab".as_slice()).is_err());
        let error = Frame::read(&mut b"o\xff\xff\xff\xff".as_slice()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
