//! Netlink: builds requests, parses replies and exchanges them with the kernel. Used by every netlink family here.
//!
//! Parsing accepts any bytes without a panic; a payload never exceeds its message or parent attribute.

use std::io;

use super::error::{call_error, malformed};
use super::sys::Socket;
use crate::CallError;

/// Receive buffer in bytes. Dump datagrams have at most 32 KiB, others the size of one message.
const BUFFER: usize = 128 << 10;
/// Attempts for a dump that changes of the list interrupt.
const DUMP_ATTEMPTS: usize = 4;
const HEADER: usize = 16;
const NESTED: u16 = 0x8000;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const OVERRUN: u16 = 4;

/// A request under construction.
#[derive(Debug)]
pub struct Request(Vec<u8>);

impl Request {
    /// Request of type `kind`; `header` is the fixed header of the family.
    pub fn new(kind: u16, dump: bool, header: &[u8]) -> Self {
        let flags = libc::NLM_F_REQUEST | if dump { libc::NLM_F_DUMP } else { 0 };
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(u16::try_from(flags).unwrap_or(1).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(header);
        Self(bytes)
    }

    /// Appends an attribute.
    pub fn put(mut self, kind: u16, payload: &[u8]) -> Self {
        let length = u16::try_from(payload.len() + 4).unwrap_or(4);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(payload.iter().take(usize::from(length) - 4));
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Appends a 32-bit attribute.
    pub fn put_u32(self, kind: u16, value: u32) -> Self {
        self.put(kind, &value.to_ne_bytes())
    }

    /// Appends a NUL-terminated string attribute.
    pub fn put_text(self, kind: u16, text: &str) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.put(kind, &bytes)
    }

    /// Appends a nested attribute with the attributes that `inner` adds.
    pub fn put_nest(mut self, kind: u16, inner: impl FnOnce(Self) -> Self) -> Self {
        let start = self.0.len();
        self.0.extend([0; 2]);
        self.0.extend((kind | NESTED).to_ne_bytes());
        let mut all = inner(self);
        let length = u16::try_from(all.0.len() - start).unwrap_or(4);
        all.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        all
    }

    /// The whole message, for tests that simulate the kernel.
    #[cfg(test)]
    pub fn finished(mut self) -> Vec<u8> {
        self.finish(0).to_vec()
    }

    /// Bytes so far, for tests that simulate the kernel.
    #[cfg(test)]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn finish(&mut self, sequence: u32) -> &[u8] {
        let length = u32::try_from(self.0.len()).unwrap_or(0);
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        &self.0
    }
}

/// Message of a reply or notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Message type.
    pub kind: u16,
    flags: u16,
    sequence: u32,
    /// Bytes after the netlink header.
    pub payload: &'a [u8],
}

/// Messages of a datagram, up to the first with an invalid length.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
        let payload = bytes.get(HEADER..length)?;
        let message =
            Message { kind: u16_at(bytes, 4)?, flags: u16_at(bytes, 6)?, sequence: u32_at(bytes, 8)?, payload };
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// Attributes in `bytes`, type flags removed, up to the first with an invalid length.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & 0x3fff;
        let payload = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// Payload of the first attribute of type `kind`.
pub fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(k, _)| *k == kind).map(|(_, payload)| payload)
}

/// Integer at `offset`, in host byte order.
pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..)?.first_chunk().copied()?))
}

/// Integer at `offset`, in host byte order.
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..)?.first_chunk().copied()?))
}

/// Integer at `offset`, in host byte order.
pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(offset..)?.first_chunk().copied()?))
}

/// Variable-width integer: the kernel sends 32 bits if the value fits, else 64.
pub fn uint(bytes: &[u8]) -> Option<u64> {
    u64_at(bytes, 0).or_else(|| u32_at(bytes, 0).map(u64::from))
}

/// Text up to its NUL. Control characters and invalid UTF-8 become `_`.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).replace(|c: char| c.is_control() || c == char::REPLACEMENT_CHARACTER, "_")
}

/// Netlink socket with its sequence number and receive buffer.
#[derive(Debug)]
pub struct Channel {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

/// Reason why an exchange failed.
#[derive(Debug)]
pub enum ExchangeError {
    /// The kernel rejected the request; the channel stays usable.
    Rejected(io::Error),
    /// The channel must be closed, because a reply may still arrive.
    Broken(io::Error),
    /// Changes interrupted every attempt of a dump.
    DumpInterrupted,
}

impl Channel {
    /// Opens a socket of a netlink protocol.
    pub fn open(protocol: i32) -> io::Result<Self> {
        Ok(Self { socket: Socket::netlink(protocol)?, sequence: 0, buffer: vec![0; BUFFER] })
    }

    /// Sends `request` and passes each message of the reply to `each`. If a change interrupts a dump, `each` gets
    /// `None` to discard the messages so far, and the dump starts again.
    fn exchange(
        &mut self,
        mut request: Request,
        dump: bool,
        each: &mut dyn FnMut(Option<&[u8]>),
    ) -> Result<(), ExchangeError> {
        for _ in 0..DUMP_ATTEMPTS {
            self.sequence = self.sequence.wrapping_add(1);
            self.socket.send(request.finish(self.sequence)).map_err(ExchangeError::Broken)?;
            match self.receive(dump, each)? {
                Dump::Whole => return Ok(()),
                Dump::Interrupted => each(None),
            }
        }
        Err(ExchangeError::DumpInterrupted)
    }

    fn receive(&mut self, dump: bool, each: &mut dyn FnMut(Option<&[u8]>)) -> Result<Dump, ExchangeError> {
        let mut state = Dump::Whole;
        loop {
            let datagram = self.socket.receive(&mut self.buffer, true).map_err(ExchangeError::Broken)?;
            if !datagram.from_kernel {
                continue;
            }
            for message in messages(datagram.bytes).filter(|m| m.sequence == self.sequence) {
                if i32::from(message.flags) & libc::NLM_F_DUMP_INTR != 0 {
                    state = Dump::Interrupted;
                }
                match message.kind {
                    ERROR | DONE => {
                        let number = u32_at(message.payload, 0).map_or(0, u32::cast_signed);
                        return match number {
                            0 => Ok(state),
                            number => {
                                Err(ExchangeError::Rejected(io::Error::from_raw_os_error(number.saturating_neg())))
                            }
                        };
                    }
                    OVERRUN => return Err(ExchangeError::Broken(io::Error::from_raw_os_error(libc::ENOBUFS))),
                    _ => each(Some(message.payload)),
                }
                if !dump {
                    return Ok(state);
                }
            }
        }
    }
}

enum Dump {
    Whole,
    Interrupted,
}

/// Channel that is opened at first use and reopened after a failure. Its calls are serialized.
#[derive(Debug)]
pub struct ReopeningChannel {
    protocol: i32,
    channel: std::sync::Mutex<Option<Channel>>,
}

impl ReopeningChannel {
    /// Channel for a netlink protocol. Does not open the socket yet.
    pub const fn new(protocol: i32) -> Self {
        Self { protocol, channel: std::sync::Mutex::new(None) }
    }

    /// Sends `request` and parses its only reply. Fails if `parse` returns `None`.
    pub fn get<T>(&self, what: &str, request: Request, parse: impl FnOnce(&[u8]) -> Option<T>) -> Result<T, CallError> {
        let mut answer = None;
        self.exchange(what, request, false, &mut |payload| answer = payload.map(<[u8]>::to_vec))?;
        answer.as_deref().and_then(parse).ok_or_else(|| malformed(what, "the reply lacks a required attribute"))
    }

    /// Sends a dump request and parses each reply. Replies for which `parse` returns `None` are skipped.
    pub fn dump<T>(
        &self,
        what: &str,
        request: Request,
        mut parse: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, CallError> {
        let mut all = Vec::new();
        self.exchange(what, request, true, &mut |payload| match payload {
            Some(payload) => all.extend(parse(payload)),
            None => all.clear(),
        })?;
        Ok(all)
    }

    fn exchange(
        &self,
        what: &str,
        request: Request,
        dump: bool,
        each: &mut dyn FnMut(Option<&[u8]>),
    ) -> Result<(), CallError> {
        // After a panic in `each` a reply may be partly read, so the channel is closed.
        let mut slot = self.channel.lock().unwrap_or_else(|poisoned| {
            let mut slot = poisoned.into_inner();
            *slot = None;
            slot
        });
        let channel = match &mut *slot {
            Some(channel) => channel,
            empty => empty.insert(Channel::open(self.protocol).map_err(|e| call_error(what, e))?),
        };
        match channel.exchange(request, dump, each) {
            Ok(()) => Ok(()),
            Err(ExchangeError::Rejected(error)) => Err(call_error(what, error)),
            Err(ExchangeError::DumpInterrupted) => Err(call_error(what, io::Error::from_raw_os_error(libc::EAGAIN))),
            Err(ExchangeError::Broken(error)) => {
                *slot = None;
                Err(match error.kind() {
                    io::ErrorKind::WouldBlock => call_error(what, io::ErrorKind::TimedOut.into()),
                    _ => call_error(what, error),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_attributes_are_parsed() {
        let mut request = Request::new(0x1405, true, &[9, 8, 7, 6])
            .put_u32(1, 77)
            .put_nest(2, |nest| nest.put_text(3, "eth0").put(4, &[1]))
            .put(5, &5_u64.to_ne_bytes());
        let bytes = request.finish(42).to_vec();
        let all: Vec<_> = messages(&bytes).collect();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].kind, all[0].sequence, all[0].flags), (0x1405, 42, 0x301));
        let body = &all[0].payload[4..];
        assert_eq!(attribute(body, 1).and_then(uint), Some(77));
        assert_eq!(attribute(body, 5).and_then(uint), Some(5));
        let nest = attribute(body, 2).unwrap();
        assert_eq!(text(attribute(nest, 3).unwrap()), "eth0");
        assert_eq!(attributes(nest).count(), 2);
    }

    #[test]
    fn invalid_lengths_end_the_iteration() {
        let attribute_of_200 = [200, 0, 1, 0, 5, 5];
        assert_eq!(attributes(&attribute_of_200).count(), 0);
        let shorter_than_its_header = [3, 0, 1, 0, 5, 5, 5, 5];
        assert_eq!(attributes(&shorter_than_its_header).count(), 0);
        let unpadded_last = [5, 0, 1, 0, 7];
        assert_eq!(attributes(&unpadded_last).collect::<Vec<_>>(), [(1, &[7][..])]);
        let mut request = Request::new(1, false, &[]).put_u32(1, 2);
        let bytes = request.finish(1);
        assert_eq!(messages(&bytes[..bytes.len() - 1]).count(), 0);
    }

    #[test]
    fn text_is_one_line() {
        assert_eq!(text(b"mlx5_0\0junk"), "mlx5_0");
        assert_eq!(text(b"a\nb\xff"), "a_b_");
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            for message in messages(&bytes) {
                proptest::prop_assert!(message.payload.len() <= bytes.len());
            }
            for (_, payload) in attributes(&bytes) {
                let _ = (uint(payload), text(payload), attributes(payload).count());
            }
        }
    }
}
