//! Encodes one data point. Its length is needed first, because protobuf writes it before the message.

use crate::Value;
use crate::proto::{Writer, field_len};

/// `DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK`.
const NO_RECORDED_VALUE: u64 = 1;
/// Bytes of a 64-bit field with its tag.
const FIXED: usize = 9;
/// Bytes of a flag with its tag.
const FLAG: usize = 2;

/// A `NumberDataPoint` or `HistogramDataPoint`.
pub(super) struct Point<'a> {
    pub histogram: bool,
    /// Unix ns; 0 for none.
    pub start: u64,
    /// Unix ns.
    pub time: u64,
    pub value: &'a Value,
    /// Attributes, encoded as fields of a point of this kind.
    pub attributes: &'a [u8],
}

impl Point<'_> {
    /// Encoded bytes; 0 if there is no point.
    #[inline]
    pub fn len(&self) -> usize {
        let value = match self.value {
            Value::Absent => return 0,
            // The sum is optional, but without it the receiver would not end its series.
            Value::Stale => FLAG + if self.histogram { FIXED } else { 0 },
            Value::Int(_) | Value::Float(_) => FIXED,
            Value::Histogram(h) => 2 * FIXED + field_len(h.counts.len() * 8) + field_len(h.bounds.len() * 8),
        };
        let start = if self.start == 0 { 0 } else { FIXED };
        start + FIXED + value + self.attributes.len()
    }

    /// Appends the message.
    #[inline]
    pub fn write(&self, out: &mut Writer) {
        if self.start != 0 {
            out.fixed64(2, self.start);
        }
        out.fixed64(3, self.time);
        match self.value {
            // `as_int` is signed; larger values must be sent as a double.
            Value::Int(v) => match i64::try_from(*v) {
                Ok(v) => out.fixed64(6, v.cast_unsigned()),
                Err(_) => out.fixed64(4, (*v as f64).to_bits()),
            },
            Value::Float(v) => out.fixed64(4, v.to_bits()),
            Value::Histogram(h) => {
                out.fixed64(4, h.count());
                out.fixed64(5, h.sum.to_bits());
                out.packed64(6, h.counts.iter().copied());
                out.packed64(7, h.bounds.iter().map(|b| b.to_bits()));
            }
            Value::Stale if self.histogram => out.fixed64(5, 0),
            Value::Stale | Value::Absent => {}
        }
        out.append(self.attributes);
        if *self.value == Value::Stale {
            out.varint_field(if self.histogram { 10 } else { 8 }, NO_RECORDED_VALUE);
        }
    }
}
