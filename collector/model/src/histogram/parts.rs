//! The parts from which a histogram is made, as wire formats send them, and their checks.

use super::buckets::{Bucket, index_range};
use super::schema::{CUSTOM_SCHEMA, EXPONENTIAL_SCHEMAS, MAX_BUCKETS};
use super::{Histogram, HistogramError, ResetHint};

/// Adjacent buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Index of the first bucket for the first span; for others the number of buckets left out before it.
    pub offset: i32,
    /// Number of buckets.
    pub length: u32,
}

/// The positive or the negative buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// Which buckets there are.
    pub spans: Vec<Span>,
    /// Observations in each bucket of the spans.
    pub counts: Vec<f64>,
}

/// What a histogram is made from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramParts {
    /// See [`Histogram::schema`].
    pub schema: i32,
    /// See [`Histogram::zero_threshold`].
    pub zero_threshold: f64,
    /// See [`Histogram::zero_count`].
    pub zero_count: f64,
    /// See [`Histogram::count`].
    pub count: f64,
    /// See [`Histogram::sum`].
    pub sum: f64,
    /// Buckets above the zero bucket, upwards; those of the custom schema.
    pub positive: Side,
    /// Buckets below the zero bucket, downwards.
    pub negative: Side,
    /// See [`Histogram::custom_bounds`].
    pub custom_bounds: Vec<f64>,
    /// See [`Histogram::hint`].
    pub hint: ResetHint,
}

impl Histogram {
    /// A histogram of these parts. Counts may be negative; [`Self::check_counts`] refuses them.
    ///
    /// # Errors
    /// [`HistogramError`] if they do not fit together or there are too many.
    pub fn new(parts: HistogramParts) -> Result<Self, HistogramError> {
        let unknown = HistogramError::Schema(parts.schema);
        let schema = i8::try_from(parts.schema).map_err(|_| unknown.clone())?;
        let custom = schema == CUSTOM_SCHEMA;
        if !custom && !EXPONENTIAL_SCHEMAS.contains(&schema) {
            return Err(unknown);
        }
        let unexpected = [
            (custom && (parts.zero_threshold != 0.0 || parts.zero_count != 0.0), "a zero bucket"),
            (custom && !parts.negative.counts.is_empty(), "negative buckets"),
            (!custom && !parts.custom_bounds.is_empty(), "custom bounds"),
        ];
        if let Some((_, what)) = unexpected.iter().find(|(found, _)| *found) {
            return Err(HistogramError::Unexpected(schema, what));
        }
        if !(0.0..f64::INFINITY).contains(&parts.zero_threshold) {
            return Err(HistogramError::ZeroThreshold(parts.zero_threshold));
        }
        let bounds = &parts.custom_bounds;
        if bounds.len() > MAX_BUCKETS {
            return Err(HistogramError::TooManyBuckets(bounds.len() as u64));
        }
        if !bounds.is_sorted_by(|a, b| a < b) || bounds.iter().any(|b| !b.is_finite()) {
            return Err(HistogramError::Bounds);
        }
        let indexes = if custom { 0..=bounds.len() as i64 } else { index_range(schema) };
        Ok(Self {
            schema,
            zero_threshold: parts.zero_threshold,
            zero_count: parts.zero_count,
            count: parts.count,
            sum: parts.sum,
            positive: buckets("positive", &parts.positive, &indexes)?,
            negative: buckets("negative", &parts.negative, &indexes)?,
            bounds: parts.custom_bounds.into(),
            hint: parts.hint,
        })
    }

    /// Refuses what no sender can have counted.
    ///
    /// # Errors
    /// [`HistogramError::NegativeCount`].
    pub fn check_counts(&self) -> Result<(), HistogramError> {
        let counts = self.positive.iter().chain(&self.negative).map(|b| b.count);
        if counts.chain([self.zero_count, self.count]).any(|c| c < 0.0) {
            return Err(HistogramError::NegativeCount);
        }
        Ok(())
    }

    /// The parts of which [`Self::new`] makes the same histogram.
    pub fn parts(&self) -> HistogramParts {
        HistogramParts {
            schema: self.schema.into(),
            zero_threshold: self.zero_threshold,
            zero_count: self.zero_count,
            count: self.count,
            sum: self.sum,
            positive: side(&self.positive),
            negative: side(&self.negative),
            custom_bounds: self.bounds.to_vec(),
            hint: self.hint,
        }
    }
}

fn side(buckets: &[Bucket]) -> Side {
    let mut out = Side::default();
    let mut next = 0;
    for b in buckets {
        match out.spans.last_mut() {
            Some(last) if next == b.index => last.length += 1,
            _ => out.spans.push(Span { offset: b.index - next, length: 1 }),
        }
        next = b.index + 1;
        out.counts.push(b.count);
    }
    out
}

fn buckets(
    name: &'static str,
    side: &Side,
    indexes: &std::ops::RangeInclusive<i64>,
) -> Result<Vec<Bucket>, HistogramError> {
    let total: u64 = side.spans.iter().map(|s| u64::from(s.length)).sum();
    let listed = total.max(side.spans.len() as u64);
    if listed > MAX_BUCKETS as u64 {
        return Err(HistogramError::TooManyBuckets(listed));
    }
    if total != side.counts.len() as u64 {
        return Err(HistogramError::Counts { side: name, spans: total, counts: side.counts.len() });
    }
    let mut out = Vec::with_capacity(side.counts.len());
    let mut counts = side.counts.iter();
    let mut index = 0_i64;
    for (i, span) in side.spans.iter().enumerate() {
        if i > 0 && span.offset < 0 {
            return Err(HistogramError::Spans { side: name });
        }
        index += i64::from(span.offset);
        for count in counts.by_ref().take(span.length as usize) {
            let inside = Some(index).filter(|i| indexes.contains(i)).and_then(|i| i32::try_from(i).ok());
            let index_of = inside.ok_or(HistogramError::Spans { side: name })?;
            out.push(Bucket { index: index_of, count: *count });
            index += 1;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(spans: &[(i32, u32)], counts: &[f64]) -> Side {
        let span = |(offset, length): &(i32, u32)| Span { offset: *offset, length: *length };
        Side { spans: spans.iter().map(span).collect(), counts: counts.to_vec() }
    }

    fn refused(parts: HistogramParts) -> String {
        Histogram::new(parts).unwrap_err().to_string()
    }

    #[test]
    fn parts_round_trip() {
        let parts = HistogramParts {
            schema: 3,
            zero_threshold: 0.001,
            zero_count: 2.0,
            count: 12.0,
            sum: -1.5,
            positive: spans(&[(-3, 2), (4, 1)], &[1.0, 0.0, 3.0]),
            negative: spans(&[(0, 1)], &[6.0]),
            custom_bounds: vec![],
            hint: ResetHint::Gauge,
        };
        let histogram = Histogram::new(parts.clone()).unwrap();
        assert_eq!(histogram.parts(), parts);
        assert_eq!(histogram.positive.iter().map(|b| b.index).collect::<Vec<_>>(), [-3, -2, 3]);
        assert_eq!(histogram.bytes(), size_of::<Histogram>() + 4 * 16);
        // Spans without buckets, and adjacent ones, are no other histogram.
        let same = Histogram::new(HistogramParts {
            positive: spans(&[(-5, 0), (2, 1), (0, 1), (1, 0), (3, 1)], &[1.0, 0.0, 3.0]),
            ..parts
        });
        assert_eq!(same.unwrap(), histogram);
    }

    #[test]
    fn malformed_parts_are_refused() {
        let of = |schema| HistogramParts { schema, ..HistogramParts::default() };
        for schema in [-5, 9, 300, i32::MIN, -52] {
            assert!(refused(of(schema)).starts_with("schema "), "{schema}");
        }
        let positive = |spans, counts| HistogramParts { positive: self::spans(spans, counts), ..of(0) };
        for (parts, want) in [
            (positive(&[(0, 2)], &[1.0]), "need 2 counts"),
            (positive(&[(0, u32::MAX)], &[1.0]), "4294967295 buckets"),
            (positive(&[(0, u32::MAX); 2], &[]), "8589934590 buckets"),
            (positive(&[(5, 1), (-1, 1)], &[1.0; 2]), "out of order"),
            (positive(&[(i32::MAX, 1), (i32::MAX, 1)], &[1.0; 2]), "out of range"),
            (positive(&[(1025, 2)], &[1.0; 2]), "out of range"),
            (positive(&[(-1076, 1)], &[1.0]), "out of range"),
            (HistogramParts { custom_bounds: vec![1.0], ..of(0) }, "cannot have custom bounds"),
            (HistogramParts { zero_threshold: f64::NAN, ..of(0) }, "zero threshold NaN"),
            (HistogramParts { zero_threshold: -1.0, ..of(0) }, "zero threshold -1"),
            (HistogramParts { zero_count: 1.0, ..of(-53) }, "cannot have a zero bucket"),
            (HistogramParts { negative: spans(&[(0, 1)], &[1.0]), ..of(-53) }, "cannot have negative buckets"),
            (HistogramParts { custom_bounds: vec![1.0, 1.0], ..of(-53) }, "ascending"),
            (HistogramParts { custom_bounds: vec![1.0, f64::INFINITY], ..of(-53) }, "ascending"),
            (HistogramParts { custom_bounds: vec![f64::NAN], ..of(-53) }, "ascending"),
            (HistogramParts { custom_bounds: vec![0.0; MAX_BUCKETS + 1], ..of(-53) }, "65537 buckets"),
            (
                HistogramParts { custom_bounds: vec![1.0], positive: spans(&[(0, 3)], &[1.0; 3]), ..of(-53) },
                "out of range",
            ),
        ] {
            let got = refused(parts);
            assert!(got.contains(want), "{got} for {want}");
        }
        let negative = Histogram::new(positive(&[(0, 1)], &[-1.0])).unwrap();
        assert_eq!(negative.check_counts(), Err(HistogramError::NegativeCount));
    }
}
