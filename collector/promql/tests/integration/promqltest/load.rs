//! Series of scripts in memory, as Prometheus' database would give them back.

use super::samples::{Value, adjacent, samples};
use crate::common::split_labels;
use fabriclens_model::{
    Histogram, HistogramParts, HistogramSeries, Labels, MemoryWithHistograms, ResetHint, Series, is_stale,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A series with its samples by time.
type Loaded = (Labels, BTreeMap<i64, Value>);

/// Adds the series of `load` commands.
#[derive(Default)]
pub struct Loader {
    /// Samples of each series by time.
    series: BTreeMap<Labels, BTreeMap<i64, Value>>,
}

impl Loader {
    /// Loads lines with samples every `pace` milliseconds; `custom` adds native histograms with the bounds of the classic
    /// ones.
    pub fn load(&mut self, pace: i64, lines: &[&str], custom: bool) -> Result<(), String> {
        let mut loaded = vec![];
        for line in lines {
            let (labels, rest) = split_labels(line)?;
            let points = samples(rest)?.into_iter().enumerate().filter_map(|(i, v)| Some((pace * i as i64, v?)));
            loaded.push((labels, points.collect::<BTreeMap<_, _>>()));
        }
        if custom {
            let converted = converted(&loaded)?;
            loaded.extend(converted);
        }
        for (labels, points) in loaded {
            let known = self.series.entry(labels).or_default();
            for (time, value) in points {
                known.entry(time).or_insert(value);
            }
        }
        Ok(())
    }

    pub fn store(&self) -> MemoryWithHistograms {
        let mut store = MemoryWithHistograms::default();
        for (labels, points) in &self.series {
            let mut floats = Series { labels: labels.clone(), ..Series::default() };
            let mut histograms = HistogramSeries { labels: labels.clone(), ..HistogramSeries::default() };
            let mut before: Option<Arc<Histogram>> = None;
            for (time, value) in points {
                match value {
                    Value::Float(v) => {
                        floats.times.push(*time);
                        floats.values.push(*v);
                        before = None;
                    }
                    Value::Histogram { value, .. } => {
                        let hint = stored_hint(value, before.as_deref());
                        histograms.times.push(*time);
                        histograms.values.push(Arc::new(Histogram::clone(value).with_hint(hint)));
                        before = Some(value.clone());
                    }
                }
            }
            store.floats.0.extend((!floats.times.is_empty()).then_some(floats));
            store.histograms.extend((!histograms.times.is_empty()).then_some(histograms));
        }
        store
    }
}

/// The hint that Prometheus' database gives back: it starts a chunk at each reset, and where the buckets become others, and
/// knows that the other samples of a chunk are no resets.
fn stored_hint(now: &Histogram, before: Option<&Histogram>) -> ResetHint {
    let of_first = match now.hint() {
        ResetHint::NotReset => ResetHint::Unknown,
        hint => hint,
    };
    let Some(before) = before else { return of_first };
    let gauges = [before, now].map(|h| h.hint() == ResetHint::Gauge);
    if gauges.contains(&true) || now.hint() == ResetHint::Reset {
        return of_first;
    }
    let blank = |h: &Histogram| h.clone().with_hint(ResetHint::Unknown);
    let layout = |h: &Histogram| (h.schema(), h.zero_threshold().to_bits());
    if now.count() < before.count() {
        ResetHint::Reset
    } else if layout(now) != layout(before) {
        ResetHint::Unknown
    } else if now.custom_bounds() != before.custom_bounds() || blank(now).is_reset_after(&blank(before)) {
        ResetHint::Reset
    } else {
        ResetHint::NotReset
    }
}

/// A classic histogram at one time.
#[derive(Default)]
struct Classic {
    /// Upper bounds with cumulative counts.
    buckets: Vec<(f64, f64)>,
    count: Option<f64>,
    sum: f64,
}

/// Native histograms of all classic ones, without the suffix of their names.
fn converted(loaded: &[Loaded]) -> Result<Vec<Loaded>, String> {
    let mut all: BTreeMap<Labels, BTreeMap<i64, Classic>> = BTreeMap::new();
    for (labels, points) in loaded {
        let name = labels.metric();
        let Some((base, suffix)) = ["_bucket", "_count", "_sum"].iter().find_map(|s| Some((name.strip_suffix(s)?, *s)))
        else {
            continue;
        };
        let kept = labels.iter().filter(|(n, _)| !["__name__", "le"].contains(n));
        let labels_of = Labels::new(kept.chain([("__name__", base)]).map(|(n, v)| (n.to_owned(), v.to_owned())));
        let of_series = all.entry(labels_of).or_default();
        for (time, value) in points {
            let Value::Float(v) = value else { continue };
            if is_stale(*v) {
                continue;
            }
            let one = of_series.entry(*time).or_default();
            match suffix {
                "_bucket" => {
                    // Prometheus' runner skips buckets without a bound.
                    let upper = labels.get("le").parse().ok().filter(|bound: &f64| !bound.is_nan());
                    one.buckets.extend(upper.map(|upper| (upper, *v)));
                }
                "_count" => one.count = Some(*v),
                _ => one.sum = *v,
            }
        }
    }
    let mut out = vec![];
    for (labels, by_time) in all {
        let points = by_time.into_iter().map(|(t, classic)| Ok((t, Value::of(Arc::new(native(classic)?)))));
        out.push((labels, points.collect::<Result<_, String>>()?));
    }
    Ok(out)
}

fn native(mut classic: Classic) -> Result<Histogram, String> {
    classic.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    // A bound may be written in two ways.
    classic.buckets.dedup_by(|a, b| a.0.total_cmp(&b.0).is_eq());
    let count = classic.count.or(classic.buckets.last().map(|b| b.1)).unwrap_or_default();
    if classic.buckets.last().is_none_or(|b| b.0.is_finite()) {
        classic.buckets.push((f64::INFINITY, count));
    }
    let below = [0.0].into_iter().chain(classic.buckets.iter().map(|b| b.1));
    let counts: Vec<f64> = classic.buckets.iter().zip(below).map(|((_, count), below)| count - below).collect();
    let custom_bounds = classic.buckets.iter().map(|b| b.0).filter(|b| b.is_finite()).collect();
    let (schema, sum, positive) = (-53, classic.sum, adjacent(0, counts));
    let histogram = HistogramParts { schema, count, sum, positive, custom_bounds, ..HistogramParts::default() };
    let mut histogram = Histogram::new(histogram).map_err(|e| e.to_string())?;
    histogram.check_counts().map_err(|e| e.to_string())?;
    histogram.compact();
    Ok(histogram)
}
