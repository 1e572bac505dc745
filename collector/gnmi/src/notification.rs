//! Reads messages of a target, without building them: a message of 4 MiB costs no more memory than that, whatever it
//! holds.

use std::borrow::Cow;

use fabriclens_wire::decode::DecodeError;
use fabriclens_wire::proto::{Field, Reader, text};

use crate::json::Walk;
use crate::leaf::{Dialect, Receiver, Scalar};
use crate::path::FlatPath;

/// Most values of one message. A switch of 512 ports with 120 counters each has 61,440.
const LEAVES: usize = 200_000;
/// Difference to this host's clock beyond which a time stamp is replaced by the time of arrival: the target's clock is
/// not set, or the value has not changed for long, and is what holds now.
const SKEW_MS: i64 = 60_000;

/// What one message was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Values that were passed on.
    pub(crate) leaves: usize,
    /// Updates that could not be read, or were more than a message may hold.
    pub(crate) unread: usize,
    /// Whether it said that all paths were sent once.
    pub(crate) sync: bool,
}

/// Reads a `SubscribeResponse`.
///
/// # Errors
/// [`DecodeError`] if it is no such message; values before the error were passed on.
pub(crate) fn read(
    message: &[u8],
    dialect: Dialect,
    now_ms: i64,
    receiver: &mut dyn Receiver,
) -> Result<Outcome, DecodeError> {
    let mut outcome = Outcome::default();
    for field in Reader::new(message) {
        match field? {
            (1, Field::Bytes(notification)) => {
                self::notification(notification, dialect, now_ms, receiver, &mut outcome)?
            }
            (3, Field::Varint(1)) => outcome.sync = true,
            _ => {}
        }
    }
    receiver.end();
    if outcome.sync {
        receiver.synced();
    }
    Ok(outcome)
}

fn notification(
    bytes: &[u8],
    dialect: Dialect,
    now_ms: i64,
    receiver: &mut dyn Receiver,
    outcome: &mut Outcome,
) -> Result<(), DecodeError> {
    let mut path = FlatPath::new(dialect == Dialect::OpenConfig);
    let mut time_ms = 0;
    // Fields may come in any order.
    for field in Reader::new(bytes) {
        match field? {
            (1, Field::Varint(ns)) => time_ms = (ns as i64) / 1_000_000,
            (2, Field::Bytes(prefix)) => path.add(prefix)?,
            _ => {}
        }
    }
    if (time_ms - now_ms).abs() > SKEW_MS {
        time_ms = now_ms;
    }
    let prefix = path.length();
    for field in Reader::new(bytes) {
        if let (5, Field::Bytes(deleted)) = field? {
            path.add(deleted)?;
            let (name, keys) = crate::json::deleted(dialect, &path);
            receiver.delete(&name, &keys, time_ms);
            path.cut(prefix);
        }
    }
    let left = LEAVES.saturating_sub(outcome.leaves);
    let mut walk = Walk::new(dialect, path, time_ms, left, receiver);
    for field in Reader::new(bytes) {
        if let (4, Field::Bytes(update)) = field? {
            walk.path.cut(prefix);
            outcome.unread += usize::from(!self::update(update, &mut walk)?);
        }
    }
    outcome.leaves += left - walk.left();
    Ok(())
}

/// Reads one update; returns whether its value was understood.
fn update(bytes: &[u8], walk: &mut Walk<'_>) -> Result<bool, DecodeError> {
    let mut value: &[u8] = &[];
    for field in Reader::new(bytes) {
        match field? {
            (1, Field::Bytes(path)) => walk.path.add(path)?,
            (3, Field::Bytes(typed)) => value = typed,
            _ => {}
        }
    }
    walk.start();
    let Some(field) = Reader::new(value).next() else { return Ok(false) };
    Ok(match field? {
        (1 | 12, Field::Bytes(bytes)) => walk.text(text(bytes)?),
        (2, Field::Varint(int)) => walk.scalar(Scalar::Number(int as i64 as f64)),
        (3, Field::Varint(uint)) => walk.scalar(Scalar::Number(uint as f64)),
        (4, Field::Varint(bool)) => walk.scalar(Scalar::Number(f64::from(u8::from(bool != 0)))),
        // SONiC and others put IEEE 754 of 4 bytes into `bytes`; openconfig types such as `ieeefloat32` are that.
        (5, Field::Bytes(&[a, b, c, d])) => walk.scalar(Scalar::Number(f64::from(f32::from_be_bytes([a, b, c, d])))),
        (6, Field::Fixed32(bits)) => walk.scalar(Scalar::Number(f64::from(f32::from_bits(bits)))),
        (7, Field::Bytes(decimal)) => walk.scalar(Scalar::Number(self::decimal(decimal)?)),
        (10 | 11, Field::Bytes(json)) => walk.json(json),
        (14, Field::Fixed64(bits)) => walk.scalar(Scalar::Number(f64::from_bits(bits))),
        _ => false,
    })
}

fn decimal(bytes: &[u8]) -> Result<f64, DecodeError> {
    let (mut digits, mut precision) = (0i64, 0u64);
    for field in Reader::new(bytes) {
        match field? {
            (1, Field::Varint(n)) => digits = n as i64,
            (2, Field::Varint(n)) => precision = n,
            _ => {}
        }
    }
    Ok(digits as f64 / 10f64.powi(i32::try_from(precision.min(400)).unwrap_or(400)))
}

/// Text of a target for the log: one line, bounded.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    const BYTES: usize = 300;
    if text.len() <= BYTES && !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter(|c| !c.is_control()).take(BYTES).collect())
}

#[cfg(test)]
mod tests;
