//! Sections as text for people and scrapers: Prometheus 0.0.4, OpenMetrics 1.0, JSON.
//!
//! Used by `/metrics` and by `once`. Output is sorted, so that two runs can be compared line by line. A series that
//! several sections hold is written once, with its latest value; absent and stale ones are not written at all.

mod json;
mod text;

pub use json::{json, source};
pub use text::{Format, render};

use fabriclens_catalog::Metric;
use fabriclens_wire::{Resource, Section, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// Labels besides the resource identity.
type Pairs = [(Arc<str>, Arc<str>)];

/// One series at its latest time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample<'a> {
    pub(crate) metric: &'static Metric,
    pub(crate) resource: &'a Resource,
    pub(crate) labels: &'a Pairs,
    pub(crate) value: &'a Value,
    pub(crate) time_ns: u64,
}

/// A metric with its samples, in output order.
pub(crate) struct Family<'a> {
    pub(crate) name: String,
    pub(crate) metric: &'static Metric,
    pub(crate) samples: Vec<Sample<'a>>,
}

/// Groups samples by metric, sorted by Prometheus name.
pub(crate) fn families(sections: &[Section]) -> Vec<Family<'_>> {
    let metrics = AddressRanks::of(sections.iter().flat_map(|s| s.columns.iter()).map(|c| (c.metric, c.metric.name)));
    let resources = AddressRanks::of(sections.iter().map(|s| (&*s.resource, &*s.resource)));
    let mut ranked: Vec<(u32, u32, Sample<'_>)> = Vec::new();
    for section in sections {
        let resource = resources.rank(&section.resource);
        ranked.extend(samples(section).map(|sample| (metrics.rank(sample.metric), resource, sample)));
    }
    // Of duplicate series the latest sorts last, and the last one is kept.
    ranked.sort_by(|(m, r, a), (n, s, b)| {
        (m, r).cmp(&(n, s)).then_with(|| a.labels.cmp(b.labels)).then(a.time_ns.cmp(&b.time_ns))
    });
    let mut out: Vec<Family<'_>> = Vec::new();
    for of_metric in ranked.chunk_by(|a, b| a.0 == b.0) {
        let series = of_metric.chunk_by(|a, b| a.1 == b.1 && a.2.labels == b.2.labels);
        let latest = series.filter_map(|of_series| of_series.last()).map(|(_, _, sample)| *sample);
        let samples: Vec<Sample<'_>> = latest.filter(|sample| *sample.value != Value::Stale).collect();
        if let Some(metric) = samples.first().map(|sample| sample.metric) {
            out.push(Family { name: metric.prometheus_name(), metric, samples });
        }
    }
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

/// Rank of values in the order of their keys, by address: sorting then compares numbers instead of names.
struct AddressRanks<T>(HashMap<*const T, u32>);

impl<T> AddressRanks<T> {
    /// Builds the ranks from `(value, key)`; values with equal keys share a rank.
    fn of<'a, K: Ord + 'a>(things: impl Iterator<Item = (&'a T, K)>) -> Self
    where
        T: 'a,
    {
        let mut places: HashMap<*const T, K> = HashMap::new();
        things.for_each(|(thing, key)| _ = places.entry(std::ptr::from_ref(thing)).or_insert(key));
        let mut sorted: Vec<(*const T, K)> = places.into_iter().collect();
        sorted.sort_by(|a, b| a.1.cmp(&b.1));
        let equal = sorted.chunk_by(|a, b| a.1 == b.1);
        Self((0..).zip(equal).flat_map(|(rank, things)| things.iter().map(move |(thing, _)| (*thing, rank))).collect())
    }

    fn rank(&self, thing: &T) -> u32 {
        self.0.get(&std::ptr::from_ref(thing)).copied().unwrap_or(0)
    }
}

fn samples(section: &Section) -> impl Iterator<Item = Sample<'_>> {
    section.columns.iter().zip(&section.values).filter(|(_, v)| **v != Value::Absent).map(|(column, value)| Sample {
        metric: column.metric,
        resource: &section.resource,
        labels: &column.labels,
        value,
        time_ns: section.end_ns,
    })
}
