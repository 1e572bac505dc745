//! Exponential histograms of OTLP as native histograms, by the rules of Prometheus: bucket `i` is bucket `i + 1` there, and
//! a scale above the highest schema is lowered to it.

use fabriclens_model::{EXPONENTIAL_SCHEMAS, Histogram, HistogramColumns, HistogramError, HistogramParts, Side, Span};
use fabriclens_wire::decode::{ExponentialPoint, Rows};

use super::Report;

/// Zero threshold of a point that names none, as in Prometheus.
const ZERO_THRESHOLD: f64 = 1e-128;

/// Moves the histograms of a request to its row groups.
pub(super) fn to_rows(rows: &mut Rows, columns: &mut HistogramColumns, report: &mut Report) {
    for point in std::mem::take(&mut rows.histograms) {
        let row = histogram_of(&point).and_then(|h| columns.row(&point.labels, point.time, &h));
        match row {
            Ok(row) => rows.groups.push(row),
            Err(why) => report.reject("unusable", 1, format!("{}: {why}", point.labels.metric())),
        }
    }
}

fn histogram_of(point: &ExponentialPoint) -> Result<Histogram, HistogramError> {
    if point.stale {
        return Ok(Histogram::stale());
    }
    let schema = point.scale.min((*EXPONENTIAL_SCHEMAS.end()).into());
    let by = point.scale.saturating_sub(schema).min(63).cast_unsigned();
    let histogram = Histogram::new(HistogramParts {
        schema,
        zero_threshold: if point.zero_threshold == 0.0 { ZERO_THRESHOLD } else { point.zero_threshold },
        zero_count: point.zero_count as f64,
        count: point.count as f64,
        sum: point.sum.unwrap_or(0.0),
        positive: side(&point.positive, by),
        negative: side(&point.negative, by),
        ..HistogramParts::default()
    })?;
    histogram.check_counts()?;
    Ok(histogram)
}

/// The populated buckets of a side, at a scale that is lower `by` so much.
fn side((offset, counts): &(i32, Vec<u64>), by: u32) -> Side {
    let mut buckets: Vec<(i64, f64)> = Vec::new();
    for (index, count) in (i64::from(*offset)..).zip(counts).filter(|(_, count)| **count > 0) {
        let (index, count) = ((index >> by) + 1, *count as f64);
        match buckets.last_mut() {
            Some((last, sum)) if *last == index => *sum += count,
            _ => buckets.push((index, count)),
        }
    }
    let mut side = Side::default();
    let mut next = 0;
    for (index, count) in buckets {
        match side.spans.last_mut() {
            Some(last) if next == index => last.length += 1,
            // An index that does not fit is out of the range of any schema, which the histogram refuses.
            _ => side.spans.push(Span { offset: i32::try_from(index - next).unwrap_or(i32::MAX), length: 1 }),
        }
        next = index + 1;
        side.counts.push(count);
    }
    side
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(scale: i32, offset: i32, counts: &[u64]) -> ExponentialPoint {
        let count = counts.iter().sum();
        ExponentialPoint { scale, count, sum: Some(1.5), positive: (offset, counts.to_vec()), ..Default::default() }
    }

    fn intervals(point: &ExponentialPoint) -> Vec<(f64, f64, f64)> {
        let histogram = histogram_of(point).unwrap();
        histogram.intervals().map(|b| (b.lower, b.upper, b.count)).collect()
    }

    #[test]
    fn buckets_have_the_bounds_of_otlp() {
        assert_eq!(intervals(&point(0, -1, &[1, 0, 3])), [(0.5, 1.0, 1.0), (2.0, 4.0, 3.0)]);
        // Scale 10 has 1,024 buckets for each power of two, schema 8 has 256.
        let fine = intervals(&point(10, 1021, &[1, 1, 1, 2, 4]));
        assert_eq!(fine.iter().map(|b| b.2).collect::<Vec<_>>(), [3.0, 6.0]);
        assert_eq!(fine[1].0, 2.0);
        assert_eq!(intervals(&point(70, -1, &[1, 1])).len(), 2);
    }

    #[test]
    fn what_no_schema_has_is_refused() {
        assert_eq!(histogram_of(&point(-5, 0, &[1])), Err(HistogramError::Schema(-5)));
        for offset in [i32::MAX, i32::MIN, 2000] {
            assert!(histogram_of(&point(0, offset, &[1, 1])).is_err(), "{offset}");
        }
        assert!(histogram_of(&ExponentialPoint { stale: true, ..Default::default() }).unwrap().is_stale());
    }
}
