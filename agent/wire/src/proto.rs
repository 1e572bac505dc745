//! Minimal protobuf: a writer for `encode`, and a borrowing reader for `decode` and the collector's other inputs.
//! Neither allocates per field.

/// A request that cannot be decoded at all. Nothing of it is stored; a retry cannot help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not a valid message.
    #[error("malformed OTLP metrics request: {0}; send an ExportMetricsServiceRequest in protobuf")]
    Malformed(&'static str),
}

/// Appends fields of a message.
#[derive(Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Overwrites a used buffer.
    pub(crate) fn over(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self(buffer)
    }

    /// Appends to a buffer.
    pub(crate) fn after(buffer: Vec<u8>) -> Self {
        Self(buffer)
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.0.push(v as u8 | 0x80);
            v >>= 7;
        }
        self.0.push(v as u8);
    }

    pub(crate) fn varint_field(&mut self, field: u32, v: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(v);
    }

    pub(crate) fn fixed64(&mut self, field: u32, v: u64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    /// A packed `repeated fixed64` or `double`.
    pub(crate) fn packed64(&mut self, field: u32, values: impl ExactSizeIterator<Item = u64>) {
        self.head(field, values.len() * 8);
        values.for_each(|v| self.0.extend_from_slice(&v.to_le_bytes()));
    }

    /// Tag and length of a field of `len` bytes, whose content follows.
    pub(crate) fn head(&mut self, field: u32, len: usize) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(len as u64);
    }

    fn bytes(&mut self, field: u32, v: &[u8]) {
        self.head(field, v.len());
        self.0.extend_from_slice(v);
    }

    /// A string; empty strings are omitted, as in proto3.
    pub(crate) fn string(&mut self, field: u32, v: &str) {
        if !v.is_empty() {
            self.bytes(field, v.as_bytes());
        }
    }

    pub(crate) fn message(&mut self, field: u32, body: &Self) {
        self.bytes(field, &body.0);
    }

    /// Appends encoded fields.
    pub(crate) fn append(&mut self, fields: &[u8]) {
        self.0.extend_from_slice(fields);
    }

    /// A `KeyValue` with a string value.
    pub(crate) fn attribute(&mut self, field: u32, key: &str, value: &str, pair: &mut Self, any: &mut Self) {
        any.clear();
        any.bytes(1, value.as_bytes());
        pair.clear();
        pair.string(1, key);
        pair.message(2, any);
        self.message(field, pair);
    }
}

/// Encoded length of a field with `len` content bytes and a field number below 16.
pub(crate) fn field_len(len: usize) -> usize {
    let bits = (usize::BITS - (len | 1).leading_zeros()) as usize;
    1 + bits.div_ceil(7) + len
}

/// The value of a field, by its wire type.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    /// Integers, enumerations and booleans.
    Varint(u64),
    /// `fixed64`, and the bits of a `double`.
    Fixed64(u64),
    /// Strings, messages and packed lists.
    Bytes(&'a [u8]),
    /// `fixed32`, and the bits of a `float`.
    Fixed32(u32),
}

/// Iterates over the fields of a message.
///
/// Yields field number and value; after an error it ends.
#[derive(Clone)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads `message` from its start.
    pub fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// The bytes after the last field read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next number of a packed list of integers.
    pub fn packed(&mut self) -> Option<Result<u64, DecodeError>> {
        (!self.0.is_empty()).then(|| self.varint())
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, DecodeError> {
        // Tags and lengths of points are nearly always below 128.
        match self.0 {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.0 = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for (i, &byte) in self.0.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.0 = &self.0[i + 1..];
                return Ok(value);
            }
        }
        Err(DecodeError::Malformed(if self.0.len() < 10 { "it ends within a varint" } else { "a varint is too long" }))
    }

    #[inline]
    fn take(&mut self, n: u64) -> Result<&'a [u8], DecodeError> {
        let n = usize::try_from(n).ok().filter(|n| *n <= self.0.len());
        let (head, tail) = self.0.split_at(n.ok_or(DecodeError::Malformed("a field is longer than its message"))?);
        self.0 = tail;
        Ok(head)
    }

    #[inline]
    fn field(&mut self) -> Result<(u32, Field<'a>), DecodeError> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|n| *n != 0);
        let number = number.ok_or(DecodeError::Malformed("a field has no valid number"))?;
        let field = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(le64(self.take(8)?)),
            2 => {
                let n = self.varint()?;
                Field::Bytes(self.take(n)?)
            }
            5 => Field::Fixed32(self.take(4)?.iter().rev().fold(0, |v, b| v << 8 | u32::from(*b))),
            _ => return Err(DecodeError::Malformed("a field has an unknown wire type")),
        };
        Ok((number, field))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<(u32, Field<'a>), DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// Appends a `repeated fixed64` or `double` field, packed or not, to `out`.
pub(crate) fn repeated64(field: Field<'_>, out: &mut Vec<u64>) -> Result<(), DecodeError> {
    match field {
        Field::Fixed64(v) => out.push(v),
        Field::Bytes(b) if b.len() % 8 == 0 => out.extend(b.chunks_exact(8).map(le64)),
        _ => return Err(DecodeError::Malformed("a list of 64-bit values has another type")),
    }
    Ok(())
}

/// The UTF-8 text of a field.
///
/// # Errors
/// [`DecodeError::Malformed`] if it is not UTF-8.
pub fn text(bytes: &[u8]) -> Result<&str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|_| DecodeError::Malformed("a text is not UTF-8"))
}

/// Eight little-endian bytes; missing ones count as zero.
#[inline]
pub(crate) fn le64(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => bytes.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b)),
    }
}
