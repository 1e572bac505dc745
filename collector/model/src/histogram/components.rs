//! A histogram as a row of numbers, one per component: the form in which a store keeps it, next to its other columns.
//!
//! A row has the [`Component`]s of the whole histogram and one per bucket. The list of components repeats from sample to
//! sample: buckets are listed in blocks of [`BLOCK`] adjacent ones, so that a histogram gets a new list only when its
//! observations reach a new block. A bucket that is in the list and not in the histogram is absent in the row.

use super::buckets::Bucket;
use super::{Histogram, HistogramError, ResetHint};
use crate::names::COMPONENT;
use crate::{Labels, absent, is_absent};
use std::fmt;
use std::sync::Arc;

/// Maximum buckets of a stored histogram, both sides together.
pub const MAX_STORED_BUCKETS: usize = 1024;
/// Adjacent buckets that are listed together.
const BLOCK: i32 = 8;
/// Buckets that may be listed in addition to twice those that the histogram has.
const SPARE: usize = 64;

/// A number of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// [`Histogram::count`]; in every row, so that it says when there are samples.
    Count,
    /// [`Histogram::sum`].
    Sum,
    /// [`Histogram::schema`].
    Schema,
    /// [`Histogram::zero_threshold`]; not of custom buckets.
    ZeroThreshold,
    /// [`Histogram::zero_count`]; not of custom buckets.
    ZeroCount,
    /// [`Histogram::hint`]: 0 unknown, 1 reset, 3 gauge, as in remote write.
    Hint,
    /// Number of buckets in the row. A row that has another number of them is not used: it was mixed from two.
    Buckets,
    /// Observations of the bucket with this index above the zero bucket.
    Positive(i32),
    /// The same below the zero bucket.
    Negative(i32),
    /// Observations of the custom bucket up to a bound, given as its bits.
    Bound(u64),
}

impl Component {
    /// Value of the label [`COMPONENT`] in the series that counts samples.
    pub const COUNT: &'static str = "count";

    /// The component of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            Self::COUNT => Self::Count,
            "sum" => Self::Sum,
            "schema" => Self::Schema,
            "zero_threshold" => Self::ZeroThreshold,
            "zero_count" => Self::ZeroCount,
            "hint" => Self::Hint,
            "buckets" => Self::Buckets,
            _ => {
                let (kind, rest) = name.split_once(':')?;
                match kind {
                    "p" => Self::Positive(rest.parse().ok()?),
                    "n" => Self::Negative(rest.parse().ok()?),
                    "le" => Self::Bound(rest.parse::<f64>().ok()?.to_bits()),
                    _ => return None,
                }
            }
        })
    }

    /// Labels of the series of this component of a histogram series.
    pub fn labels(self, of: &Labels) -> Labels {
        let own: (Arc<str>, Arc<str>) = (COMPONENT.into(), self.to_string().into());
        let (metric, others) = of.parts();
        let (before, after) = others.split_at(others.partition_point(|(name, _)| **name < *COMPONENT));
        Labels::from_parts(metric.cloned(), [before, &[own], after].concat().into())
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count => f.write_str(Self::COUNT),
            Self::Sum => f.write_str("sum"),
            Self::Schema => f.write_str("schema"),
            Self::ZeroThreshold => f.write_str("zero_threshold"),
            Self::ZeroCount => f.write_str("zero_count"),
            Self::Hint => f.write_str("hint"),
            Self::Buckets => f.write_str("buckets"),
            Self::Positive(index) => write!(f, "p:{index}"),
            Self::Negative(index) => write!(f, "n:{index}"),
            Self::Bound(bits) => write!(f, "le:{}", f64::from_bits(*bits)),
        }
    }
}

/// Labels of the histogram series of a component, and the component; `None` for other series.
pub fn histogram_of(labels: &Labels) -> Option<(Labels, Component)> {
    let component = Component::parse(labels.get(COMPONENT))?;
    Some((Labels::from_sorted(labels.to_pairs().filter(|(name, _)| **name != *COMPONENT)), component))
}

/// Whether a series is a component of a histogram.
pub fn is_component(labels: &Labels) -> bool {
    !labels.get(COMPONENT).is_empty()
}

impl Histogram {
    /// Its components and their values, absent for listed buckets that it does not have.
    ///
    /// # Errors
    /// [`HistogramError::TooManyStored`] if it has more buckets than a store keeps.
    pub fn to_components(&self) -> Result<Vec<(Component, f64)>, HistogramError> {
        let custom = self.is_custom();
        let listed = if custom { self.bounds.len() + 1 } else { self.positive.len() + self.negative.len() };
        if listed > MAX_STORED_BUCKETS {
            return Err(HistogramError::TooManyStored(listed));
        }
        let mut out = vec![
            (Component::Count, self.count),
            (Component::Sum, self.sum),
            (Component::Schema, self.schema.into()),
            (Component::Hint, f64::from(hint_number(self.hint))),
            (Component::Buckets, listed as f64),
        ];
        if custom {
            let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
            let mut counts = self.positive.iter().peekable();
            for (index, bound) in (0..).zip(bounds) {
                let count = counts.next_if(|b| b.index == index).map_or(0.0, |b| b.count);
                out.push((Component::Bound(bound.to_bits()), count));
            }
        } else {
            out.extend([(Component::ZeroThreshold, self.zero_threshold), (Component::ZeroCount, self.zero_count)]);
            let sides = [(&self.positive, Component::Positive as fn(i32) -> _), (&self.negative, Component::Negative)];
            let blocks: usize = sides.iter().map(|(side, _)| blocks(side)).sum();
            let whole = blocks * BLOCK as usize <= 2 * listed + SPARE;
            for (side, of) in sides {
                put_side(side, whole, of, &mut out);
            }
        }
        // A count is never taken for "no sample".
        out[..5].iter_mut().filter(|(_, v)| is_absent(*v)).for_each(|(_, v)| *v = f64::NAN);
        Ok(out)
    }

    /// The histogram of these components, in any order; `None` if they do not make up one.
    pub fn from_components(components: impl IntoIterator<Item = (Component, f64)>) -> Option<Self> {
        let mut of = Self::empty(0, Arc::default());
        let (mut schema, mut buckets, mut count) = (None, None, None);
        let mut bounds = Vec::new();
        for (component, value) in components.into_iter().filter(|(_, value)| !is_absent(*value)) {
            let bucket = |index| Bucket { index, count: value };
            match component {
                Component::Count => count = Some(value),
                Component::Sum => of.sum = value,
                Component::Schema => schema = Some(value),
                Component::ZeroThreshold => of.zero_threshold = value,
                Component::ZeroCount => of.zero_count = value,
                Component::Hint => of.hint = hint_of(value as u8),
                Component::Buckets => buckets = Some(value),
                Component::Positive(index) => of.positive.push(bucket(index)),
                Component::Negative(index) => of.negative.push(bucket(index)),
                Component::Bound(bits) => bounds.push((f64::from_bits(bits), value)),
            }
        }
        let (schema, buckets) = (schema?, buckets?);
        of.count = count?;
        if (of.positive.len() + of.negative.len() + bounds.len()) as f64 != buckets {
            return None;
        }
        of.schema = schema as i8;
        if of.is_custom() {
            bounds.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            of.positive = (0..).zip(&bounds).map(|(index, (_, count))| Bucket { index, count: *count }).collect();
            of.bounds = bounds.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite()).collect();
        } else if !bounds.is_empty() {
            return None;
        }
        of.positive.sort_unstable_by_key(|b| b.index);
        of.negative.sort_unstable_by_key(|b| b.index);
        // The same checks as on arrival: what is on a disk need not have come that way.
        Self::new(of.parts()).ok()
    }
}

fn hint_number(hint: ResetHint) -> u8 {
    match hint {
        // "No reset" is true only of the sample before, which may not arrive; without it counts are compared.
        ResetHint::Unknown | ResetHint::NotReset => 0,
        ResetHint::Reset => 1,
        ResetHint::Gauge => 3,
    }
}

fn hint_of(number: u8) -> ResetHint {
    match number {
        1 => ResetHint::Reset,
        3 => ResetHint::Gauge,
        _ => ResetHint::Unknown,
    }
}

/// Number of blocks in which a side has buckets.
fn blocks(side: &[Bucket]) -> usize {
    side.chunk_by(|a, b| a.index.div_euclid(BLOCK) == b.index.div_euclid(BLOCK)).count()
}

/// Adds the buckets of a side, with the `whole` of their blocks or without.
fn put_side(side: &[Bucket], whole: bool, of: fn(i32) -> Component, out: &mut Vec<(Component, f64)>) {
    if !whole {
        return out.extend(side.iter().map(|b| (of(b.index), count_of(b))));
    }
    for block in side.chunk_by(|a, b| a.index.div_euclid(BLOCK) == b.index.div_euclid(BLOCK)) {
        let first = block[0].index.div_euclid(BLOCK) * BLOCK;
        let mut buckets = block.iter().peekable();
        for index in first..first + BLOCK {
            let bucket = buckets.next_if(|b| b.index == index);
            out.push((of(index), bucket.map_or(absent(), count_of)));
        }
    }
}

fn count_of(bucket: &Bucket) -> f64 {
    if is_absent(bucket.count) { f64::NAN } else { bucket.count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HistogramParts, Side, Span};

    fn round_trip(h: &Histogram) -> Option<Histogram> {
        let parts = h.to_components().unwrap();
        let named = parts.into_iter().map(|(c, v)| (Component::parse(&c.to_string()).unwrap(), v));
        Histogram::from_components(named)
    }

    fn exponential(positive: Side, negative: Side) -> Histogram {
        let parts = HistogramParts {
            schema: 3,
            zero_threshold: 1e-9,
            zero_count: 2.0,
            count: 12.0,
            sum: -1.5,
            positive,
            negative,
            hint: ResetHint::Gauge,
            ..HistogramParts::default()
        };
        Histogram::new(parts).unwrap()
    }

    fn side(spans: &[(i32, u32)], counts: &[f64]) -> Side {
        let spans = spans.iter().map(|(offset, length)| Span { offset: *offset, length: *length }).collect();
        Side { spans, counts: counts.to_vec() }
    }

    #[test]
    fn histograms_round_trip() {
        for h in [
            exponential(Side::default(), Side::default()),
            exponential(side(&[(-3, 2), (400, 1)], &[1.0, 0.0, 3.0]), side(&[(0, 1)], &[6.0])),
            Histogram::stale(),
        ] {
            assert_eq!(round_trip(&h).as_ref(), Some(&h));
        }
        let (positive, custom_bounds) = (side(&[(0, 2)], &[4.0, 8.0]), vec![-0.1, 2.5e-300]);
        let parts = HistogramParts { schema: -53, count: 12.0, positive, custom_bounds, ..HistogramParts::default() };
        let got = round_trip(&Histogram::new(parts).unwrap()).unwrap();
        assert_eq!((got.custom_bounds(), got.parts().positive.counts), (&[-0.1, 2.5e-300][..], vec![4.0, 8.0, 0.0]));
    }

    #[test]
    fn lists_repeat_while_observations_stay_in_their_blocks() {
        let list = |h: &Histogram| h.to_components().unwrap().into_iter().map(|(c, _)| c).collect::<Vec<_>>();
        let one = exponential(side(&[(17, 1)], &[1.0]), Side::default());
        let two = exponential(side(&[(16, 8)], &[1.0; 8]), Side::default());
        assert_eq!(list(&one), list(&two));
        let more = exponential(side(&[(15, 2)], &[1.0; 2]), Side::default());
        assert_eq!(list(&more).len(), list(&two).len() + BLOCK as usize);
        // Single buckets far from each other are listed alone.
        let spans: Vec<(i32, u32)> = (0..100).map(|n| (if n == 0 { 0 } else { 49 }, 1)).collect();
        assert_eq!(list(&exponential(side(&spans, &[1.0; 100]), Side::default())).len(), 7 + 100);
    }

    #[test]
    fn too_many_buckets_are_refused_and_mixed_rows_are_none() {
        let many = exponential(side(&[(0, 600)], &[1.0; 600]), side(&[(0, 600)], &[1.0; 600]));
        assert_eq!(many.to_components(), Err(HistogramError::TooManyStored(1200)));
        let mut parts = exponential(side(&[(0, 2)], &[1.0; 2]), Side::default()).to_components().unwrap();
        parts.push((Component::Positive(90), 1.0));
        assert_eq!(Histogram::from_components(parts.clone()), None);
        parts.retain(|(c, _)| !matches!(c, Component::Positive(0 | 90)));
        assert_eq!(Histogram::from_components(parts), None);
    }

    #[test]
    fn a_component_has_the_labels_of_its_series_and_its_name() {
        let series = Labels::new([("__name__", "m"), ("a", "b"), ("größe", "1"), ("~z", "2")]);
        let component = Component::Bound(0.25f64.to_bits());
        let labels = component.labels(&series);
        assert_eq!(
            labels,
            Labels::new([("__name__", "m"), ("a", "b"), ("größe", "1"), ("~z", "2"), (COMPONENT, "le:0.25")])
        );
        assert_eq!(histogram_of(&labels), Some((series.clone(), component)));
        assert!(is_component(&labels) && !is_component(&series) && histogram_of(&series).is_none());
        for odd in ["", "p:", "p:x", "q:1", "le:", "countt"] {
            assert_eq!(Component::parse(odd), None, "{odd}");
        }
    }
}
