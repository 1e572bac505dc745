//! Bounded reader of an answer, by byte and by line.

use super::RasError;
use std::io::{ErrorKind, Read};

/// Bytes that are read at once.
const BLOCK: usize = 16 << 10;
/// Longest line that is kept, bytes; the rest of a longer line is dropped.
const LINE: usize = 4096;

/// Buffered input that ends with an error beyond its limit.
pub struct Input<R> {
    from: R,
    block: Box<[u8]>,
    at: usize,
    end: usize,
    left: u64,
    limit: u64,
}

impl<R: Read> Input<R> {
    /// Reads at most `limit` bytes.
    pub fn new(from: R, limit: u64) -> Self {
        Self { from, block: vec![0; BLOCK].into(), at: 0, end: 0, left: limit, limit }
    }

    /// Next byte without taking it; `None` at the end.
    pub fn peek(&mut self) -> Result<Option<u8>, RasError> {
        while self.at == self.end {
            if self.left == 0 {
                return Err(RasError::TooLarge(self.limit));
            }
            let most = usize::try_from(self.left).unwrap_or(BLOCK).min(BLOCK);
            match self.from.read(&mut self.block[..most]) {
                Ok(0) => return Ok(None),
                Ok(read) => {
                    (self.at, self.end) = (0, read);
                    self.left -= read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(self.block[self.at]))
    }

    /// Takes the next byte; `None` at the end.
    pub fn next(&mut self) -> Result<Option<u8>, RasError> {
        let byte = self.peek()?;
        self.at += usize::from(byte.is_some());
        Ok(byte)
    }

    /// Takes the next byte; [`RasError::Cut`] at the end.
    pub fn must(&mut self) -> Result<u8, RasError> {
        self.next()?.ok_or(RasError::Cut)
    }

    /// Takes a line; [`RasError::Denied`] if it says that the service does not answer now.
    pub fn refusal(&mut self) -> Option<RasError> {
        refusal(&self.line().ok()??)
    }

    /// Takes a line without its end; `None` at the end of the answer.
    pub fn line(&mut self) -> Result<Option<String>, RasError> {
        let mut line = Vec::new();
        loop {
            match self.next()? {
                Some(b'\n') => break,
                Some(byte) if line.len() < LINE => line.push(byte),
                Some(_) => {}
                None if line.is_empty() => return Ok(None),
                None => break,
            }
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(Some(String::from_utf8_lossy(&line).into_owned()))
    }
}

/// The error of a line that stands in place of a status: the command is unknown, or diagnostics run.
pub fn refusal(line: &str) -> Option<RasError> {
    let is_refused = ["ERROR:", "BUSY:"].iter().any(|begin| line.starts_with(begin));
    is_refused.then(|| RasError::Denied(line.chars().take(60).collect()))
}
