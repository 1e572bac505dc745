//! Histograms of the store as messages of remote write, and back.

use crate::prompb::{BucketSpan, Histogram as Message};
use fabriclens_model::{Histogram, HistogramError, HistogramParts, ResetHint, Side, Span};

/// Longest message of a histogram, bytes. One with as many buckets as a store keeps takes less.
pub const MAX_HISTOGRAM_BYTES: usize = 64 << 10;

/// The histogram of a message.
///
/// # Errors
/// [`HistogramError`] if its parts do not fit together, or no sender can have counted it.
pub fn histogram_of(message: &Message) -> Result<Histogram, HistogramError> {
    if fabriclens_model::is_stale(message.sum) {
        return Ok(Histogram::stale());
    }
    let integers = message.count_int.is_some();
    let side = |spans: &[BucketSpan], deltas: &[i64], counts: &[f64]| Side {
        spans: spans.iter().map(|s| Span { offset: s.offset, length: s.length }).collect(),
        counts: if integers { from_deltas(deltas) } else { counts.to_vec() },
    };
    let number = |int: Option<u64>, float: Option<f64>| int.map_or(float.unwrap_or(0.0), |n| n as f64);
    let histogram = Histogram::new(HistogramParts {
        schema: message.schema,
        zero_threshold: message.zero_threshold,
        zero_count: number(message.zero_count_int, message.zero_count_float),
        count: number(message.count_int, message.count_float),
        sum: message.sum,
        positive: side(&message.positive_spans, &message.positive_deltas, &message.positive_counts),
        negative: side(&message.negative_spans, &message.negative_deltas, &message.negative_counts),
        custom_bounds: message.custom_values.clone(),
        hint: match message.reset_hint {
            1 => ResetHint::Reset,
            2 => ResetHint::NotReset,
            3 => ResetHint::Gauge,
            _ => ResetHint::Unknown,
        },
    })?;
    histogram.check_counts()?;
    Ok(histogram)
}

/// The message of a histogram, with counts as floats; time in Unix ms.
pub fn message_of(histogram: &Histogram, timestamp: i64) -> Message {
    let HistogramParts { schema, zero_threshold, zero_count, count, sum, positive, negative, custom_bounds, hint } =
        histogram.parts();
    let spans = |side: &Side| side.spans.iter().map(|s| BucketSpan { offset: s.offset, length: s.length }).collect();
    Message {
        count_float: Some(count),
        sum,
        schema,
        zero_threshold,
        zero_count_float: Some(zero_count),
        negative_spans: spans(&negative),
        negative_counts: negative.counts,
        positive_spans: spans(&positive),
        positive_counts: positive.counts,
        reset_hint: match hint {
            ResetHint::Unknown => 0,
            ResetHint::Reset => 1,
            ResetHint::NotReset => 2,
            ResetHint::Gauge => 3,
        },
        timestamp,
        custom_values: custom_bounds,
        ..Message::default()
    }
}

fn from_deltas(deltas: &[i64]) -> Vec<f64> {
    let sums = deltas.iter().scan(0i64, |sum, delta| {
        *sum = sum.saturating_add(*delta);
        Some(*sum as f64)
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_sums_of_differences_and_floats_are_themselves() {
        let message = Message {
            count_int: Some(16),
            zero_count_int: Some(4),
            sum: 18.5,
            schema: 1,
            zero_threshold: 0.001,
            positive_spans: vec![BucketSpan { offset: -1, length: 2 }, BucketSpan { offset: 3, length: 1 }],
            positive_deltas: vec![5, -2, 1],
            reset_hint: 3,
            timestamp: 7,
            ..Message::default()
        };
        let histogram = histogram_of(&message).unwrap();
        assert_eq!(histogram.parts().positive.counts, [5.0, 3.0, 4.0]);
        let floats = message_of(&histogram, 7);
        assert_eq!((floats.timestamp, floats.count_float, floats.positive_counts.len()), (7, Some(16.0), 3));
        assert_eq!(histogram_of(&floats).unwrap(), histogram);
        let negative = Message { positive_deltas: vec![5, -7, 1], ..message.clone() };
        assert_eq!(histogram_of(&negative), Err(HistogramError::NegativeCount));
        let stale = Message { sum: fabriclens_model::stale(), ..Message::default() };
        assert!(histogram_of(&stale).unwrap().is_stale());
    }
}
