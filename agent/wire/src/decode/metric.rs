//! Decodes one OTLP metric of any kind to points of Prometheus series.

use super::cache::{Cache, Part};
use super::destination::{Into, NO_TIME};
use super::exponential;
use super::names::Shape;
use super::rows::Rows;
use crate::proto::{DecodeError, Field, Reader, repeated64, text};
use fabriclens_rows::names::LABELS;
use fabriclens_rows::stale;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

const NOT_CUMULATIVE: &str = "it is not cumulative; set the sender's temporality preference to cumulative, or pass it \
                              through a deltatocumulative processor";
const BUCKETS: &str =
    "its bucket bounds are not ascending, or the number of bucket counts is not the number of bounds plus one";
const NO_VALUE: &str = "a point has neither a value nor the no-recorded-value flag";

/// Kind of the message with the points.
#[derive(Clone, Copy, PartialEq)]
enum Data {
    Gauge,
    Sum,
    Histogram,
    Exponential,
    Summary,
}

/// Name, description and unit of a `Metric`, and the message with its points.
type Head<'a> = ([&'a [u8]; 3], Option<(Data, &'a [u8])>);

fn head(body: &[u8]) -> Result<Head<'_>, DecodeError> {
    let (mut fields, mut data): ([&[u8]; 3], _) = ([&[]; 3], None);
    for field in Reader::new(body) {
        match field? {
            (n @ 1..=3, Field::Bytes(b)) => fields[n as usize - 1] = b,
            (5, Field::Bytes(b)) => data = Some((Data::Gauge, b)),
            (7, Field::Bytes(b)) => data = Some((Data::Sum, b)),
            (9, Field::Bytes(b)) => data = Some((Data::Histogram, b)),
            (10, Field::Bytes(b)) => data = Some((Data::Exponential, b)),
            (11, Field::Bytes(b)) => data = Some((Data::Summary, b)),
            _ => {}
        }
    }
    Ok((fields, data))
}

/// Rejects all points of some `ScopeMetrics`.
pub(super) fn refuse(scopes: &[&[u8]], why: &str, rows: &mut Rows) -> Result<(), DecodeError> {
    for scope in scopes {
        for field in Reader::new(scope) {
            let (2, Field::Bytes(metric)) = field? else { continue };
            let ([name, ..], Some((_, body))) = head(metric)? else { continue };
            let points = Reader::new(body).filter(|field| matches!(field, Ok((1, Field::Bytes(_))))).count();
            rows.reject(text(name)?, points, why);
        }
    }
    Ok(())
}

/// Decodes the body of a `Metric`.
pub(super) fn read(body: &[u8], cache: &mut Cache, into: &mut Into<'_>) -> Result<(), DecodeError> {
    let ([name, help, unit], Some((data, body))) = head(body)? else { return Ok(()) };

    let (mut temporality, mut monotonic, mut points) = (0, false, 0);
    for field in Reader::new(body) {
        match field? {
            (1, Field::Bytes(_)) => points += 1,
            (2, Field::Varint(v)) => temporality = v,
            (3, Field::Varint(v)) => monotonic = v != 0,
            _ => {}
        }
    }
    let refused = match data {
        Data::Sum | Data::Histogram | Data::Exponential if temporality != CUMULATIVE => Some(NOT_CUMULATIVE),
        _ => None,
    };
    if let Some(reason) = refused {
        into.rows.reject(text(name)?, points, reason);
        return Ok(());
    }
    let (shape, kind) = match data {
        Data::Sum if monotonic => (Shape::Counter, "counter"),
        Data::Sum => (Shape::Other, "gauge"),
        Data::Gauge => (Shape::Gauge, "gauge"),
        Data::Histogram | Data::Exponential => (Shape::Other, "histogram"),
        Data::Summary => (Shape::Other, "summary"),
    };
    let metric = match cache.metric([name, unit, help], shape, kind, into.limits, &mut into.rows.metadata)? {
        Ok(metric) => metric,
        Err(why) => {
            into.rows.reject(text(name)?, points, &why);
            return Ok(());
        }
    };
    let mut attributes = Vec::new();
    let mut point = Point { data, ..Point::default() };
    for field in Reader::new(body) {
        if let (1, Field::Bytes(b)) = field? {
            attributes.clear();
            if data == Data::Exponential {
                if let Err(reason) = exponential::read(b, metric, &mut attributes, cache, into)? {
                    into.rows.reject(text(name)?, 1, &reason);
                }
                continue;
            }
            point.read(b, &mut attributes)?;
            if let Err(reason) = point.emit(metric, &attributes, cache, into)? {
                into.rows.reject(text(name)?, 1, &reason);
            }
        }
    }
    Ok(())
}

/// A data point of any kind; its lists are reused for the next point.
struct Point {
    data: Data,
    time: u64,
    value: Option<f64>,
    stale: bool,
    count: u64,
    sum: Option<f64>,
    counts: Vec<u64>,
    /// Bucket bounds or quantiles, as bits.
    bounds: Vec<u64>,
}

impl Default for Point {
    fn default() -> Self {
        Self {
            data: Data::Gauge,
            time: 0,
            value: None,
            stale: false,
            count: 0,
            sum: None,
            counts: Vec::new(),
            bounds: Vec::new(),
        }
    }
}

impl Point {
    fn read<'a>(&mut self, body: &'a [u8], attributes: &mut Vec<&'a [u8]>) -> Result<(), DecodeError> {
        (self.time, self.value, self.stale, self.count, self.sum) = (0, None, false, 0, None);
        self.counts.clear();
        self.bounds.clear();
        let number = matches!(self.data, Data::Gauge | Data::Sum);
        for field in Reader::new(body) {
            match (self.data, field?) {
                // One more than any limit is enough to refuse the point.
                (Data::Histogram, (9, Field::Bytes(_)))
                | (Data::Gauge | Data::Sum | Data::Summary, (7, Field::Bytes(_)))
                    if attributes.len() > LABELS => {}
                (Data::Histogram, (9, Field::Bytes(b))) => attributes.push(b),
                (Data::Histogram, (6, f)) => repeated64(f, &mut self.counts)?,
                (Data::Histogram, (7, f)) => repeated64(f, &mut self.bounds)?,
                (Data::Histogram, (10, Field::Varint(v))) => self.stale = v & 1 != 0,
                (Data::Histogram, (8, _)) => {}
                (Data::Summary, (6, Field::Bytes(b))) => self.quantile(b)?,
                (_, (7, Field::Bytes(b))) => attributes.push(b),
                (_, (8, Field::Varint(v))) => self.stale = v & 1 != 0,
                (_, (3, Field::Fixed64(v))) => self.time = v,
                (_, (4, Field::Fixed64(v))) if number => self.value = Some(f64::from_bits(v)),
                (_, (6, Field::Fixed64(v))) if number => self.value = Some(v.cast_signed() as f64),
                (_, (4, Field::Fixed64(v))) => self.count = v,
                (_, (5, Field::Fixed64(v))) if !number => self.sum = Some(f64::from_bits(v)),
                _ => {}
            }
        }
        if self.data == Data::Summary {
            self.sum = self.sum.or(Some(0.0));
        }
        Ok(())
    }

    /// A `ValueAtQuantile`: the quantile to `bounds`, its value's bits to `counts`.
    fn quantile(&mut self, body: &[u8]) -> Result<(), DecodeError> {
        let (mut quantile, mut value) = (0, 0);
        for field in Reader::new(body) {
            match field? {
                (1, Field::Fixed64(v)) => quantile = v,
                (2, Field::Fixed64(v)) => value = v,
                _ => {}
            }
        }
        self.bounds.push(quantile);
        self.counts.push(value);
        Ok(())
    }

    /// Emits its samples. The inner error is the reason for a rejection.
    fn emit(
        &self,
        metric: u32,
        attributes: &[&[u8]],
        cache: &mut Cache,
        into: &mut Into<'_>,
    ) -> Result<Result<(), String>, DecodeError> {
        let most = into.limits.buckets;
        if self.bounds.len() > most {
            return Ok(Err(format!("it has more than {most} buckets or quantiles; send fewer, wider ones")));
        }
        let samples = match self.check() {
            Ok(n) => n,
            Err(why) => return Ok(Err(why.to_owned())),
        };
        if *into.room < samples {
            let limit = into.limits.points;
            return Ok(Err(format!("the request has more than {limit} samples; send smaller requests")));
        }
        *into.room -= samples;

        let time = (self.time / 1_000_000) as i64;
        let mut put = |part, value: f64| -> Result<Result<(), String>, DecodeError> {
            let index = cache.series(into.resource, metric, part, attributes, into.limits, into.sink)?;
            Ok(index.map(|i| into.sink.push(i, time, if self.stale { stale() } else { value })))
        };
        let bounds = self.bounds.iter().map(|b| f64::from_bits(*b));
        match self.data {
            Data::Gauge | Data::Sum => return put(Part::Whole, self.value.unwrap_or_else(stale)),
            Data::Histogram => {
                let mut below = 0u64;
                for (bound, count) in bounds.zip(&self.counts) {
                    below = below.saturating_add(*count);
                    if bound < f64::INFINITY
                        && let Err(why) = put(Part::Bucket(bound), below as f64)?
                    {
                        return Ok(Err(why));
                    }
                }
                if let Err(why) = put(Part::Bucket(f64::INFINITY), self.count as f64)? {
                    return Ok(Err(why));
                }
            }
            Data::Summary => {
                for (quantile, value) in bounds.zip(&self.counts) {
                    if let Err(why) = put(Part::Quantile(quantile), f64::from_bits(*value))? {
                        return Ok(Err(why));
                    }
                }
            }
            // Read apart, as it is no row of floats.
            Data::Exponential => return Ok(Ok(())),
        }
        if let Some(sum) = self.sum
            && let Err(why) = put(Part::Sum, sum)?
        {
            return Ok(Err(why));
        }
        put(Part::Count, self.count as f64)
    }

    /// Number of samples it yields, or the reason for a rejection.
    fn check(&self) -> Result<usize, &'static str> {
        if self.time == 0 {
            return Err(NO_TIME);
        }
        match self.data {
            Data::Gauge | Data::Sum if self.value.is_none() && !self.stale => Err(NO_VALUE),
            Data::Gauge | Data::Sum => Ok(1),
            Data::Histogram => {
                let ascending = self.bounds.is_sorted_by(|a, b| f64::from_bits(*a) < f64::from_bits(*b));
                let numbers = self.bounds.iter().all(|b| !f64::from_bits(*b).is_nan());
                let fits = self.counts.len() == self.bounds.len() + 1
                    || (self.counts.is_empty() && (self.bounds.is_empty() || self.stale));
                if ascending && numbers && fits { Ok(self.bounds.len() + 3) } else { Err(BUCKETS) }
            }
            Data::Summary | Data::Exponential => Ok(self.bounds.len() + 2),
        }
    }
}
