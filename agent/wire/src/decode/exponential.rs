//! Points of exponential histograms, which are no rows of floats: their buckets are counted together or not at all.

use super::cache::{Cache, Part};
use super::destination::{Into, NO_TIME};
use super::rows::ExponentialPoint;
use crate::proto::{DecodeError, Field, Reader};
use fabriclens_rows::names::LABELS;

/// Decodes one point. The inner error is the reason for a rejection.
pub(super) fn read<'a>(
    body: &'a [u8],
    metric: u32,
    attributes: &mut Vec<&'a [u8]>,
    cache: &mut Cache,
    into: &mut Into<'_>,
) -> Result<Result<(), String>, DecodeError> {
    let (mut point, mut nanoseconds) = (ExponentialPoint::default(), 0);
    let most = into.limits.buckets;
    for field in Reader::new(body) {
        match field? {
            // One more than any limit is enough to refuse the point.
            (1, Field::Bytes(b)) if attributes.len() <= LABELS => attributes.push(b),
            (3, Field::Fixed64(v)) => nanoseconds = v,
            (4, Field::Fixed64(v)) => point.count = v,
            (5, Field::Fixed64(v)) => point.sum = Some(f64::from_bits(v)),
            (6, Field::Varint(v)) => point.scale = signed(v),
            (7, Field::Fixed64(v)) => point.zero_count = v,
            (8, Field::Bytes(b)) => buckets(b, most, &mut point.positive)?,
            (9, Field::Bytes(b)) => buckets(b, most, &mut point.negative)?,
            (10, Field::Varint(v)) => point.stale = v & 1 != 0,
            (14, Field::Fixed64(v)) => point.zero_threshold = f64::from_bits(v),
            _ => {}
        }
    }
    if nanoseconds == 0 {
        return Ok(Err(NO_TIME.to_owned()));
    }
    point.time = (nanoseconds / 1_000_000) as i64;
    let listed = point.positive.1.len() + point.negative.1.len();
    if listed > most {
        return Ok(Err(format!("it has more than {most} buckets; set a lower max_size")));
    }
    if *into.room <= listed {
        let limit = into.limits.points;
        return Ok(Err(format!("the request has more than {limit} samples; send smaller requests")));
    }
    *into.room -= 1 + listed;
    let index = cache.series(into.resource, metric, Part::Whole, attributes, into.limits, into.sink)?;
    Ok(index.map(|index| {
        point.labels = into.sink.labels()[index as usize].clone();
        into.rows.histograms.push(point);
    }))
}

/// The `Buckets` of one side; of more than `most` only one more is kept.
fn buckets(body: &[u8], most: usize, side: &mut (i32, Vec<u64>)) -> Result<(), DecodeError> {
    for field in Reader::new(body) {
        match field? {
            (1, Field::Varint(v)) => side.0 = signed(v),
            (2, Field::Varint(v)) if side.1.len() <= most => side.1.push(v),
            (2, Field::Bytes(b)) => {
                let mut list = Reader::new(b);
                while side.1.len() <= most {
                    match list.packed() {
                        Some(count) => side.1.push(count?),
                        None => break,
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A `sint32`.
fn signed(zigzag: u64) -> i32 {
    let v = zigzag as u32;
    (v >> 1).cast_signed() ^ -(v & 1).cast_signed()
}
