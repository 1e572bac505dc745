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
use std::cmp::Ordering;
use std::sync::Arc;

/// Labels beside the identity.
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

impl<'a> Sample<'a> {
    /// Order of output, by what distinguishes it. Most neighbours share resource or metric by address: names are
    /// compared only where they do not.
    fn order(&self, other: &Self) -> Ordering {
        let metric = || self.metric.name.cmp(other.metric.name);
        let resource = || self.resource.cmp(other.resource);
        unless(std::ptr::eq(self.metric, other.metric), metric)
            .then_with(|| unless(std::ptr::eq(self.resource, other.resource), resource))
            .then_with(|| self.labels.cmp(other.labels))
    }
}

fn unless(same: bool, compare: impl FnOnce() -> Ordering) -> Ordering {
    if same { Ordering::Equal } else { compare() }
}

/// A metric with its samples in the order of output.
pub(crate) struct Family<'a> {
    pub(crate) name: String,
    pub(crate) metric: &'static Metric,
    pub(crate) samples: Vec<Sample<'a>>,
}

/// Groups by metric; sorted by Prometheus name.
pub(crate) fn families(sections: &[Section]) -> Vec<Family<'_>> {
    let mut samples: Vec<Sample<'_>> = sections.iter().flat_map(samples).collect();
    // Of equal series the latest comes last, and the last is kept.
    samples.sort_by(|a, b| a.order(b).then(a.time_ns.cmp(&b.time_ns)));
    let mut out: Vec<Family<'_>> = Vec::new();
    for sample in samples {
        match out.last_mut().filter(|f| f.metric == sample.metric) {
            Some(family) => match family.samples.last_mut().filter(|s| s.order(&sample).is_eq()) {
                Some(older) => *older = sample,
                None => family.samples.push(sample),
            },
            None => {
                let name = sample.metric.prometheus_name();
                out.push(Family { name, metric: sample.metric, samples: vec![sample] });
            }
        }
    }
    for family in &mut out {
        family.samples.retain(|s| *s.value != Value::Stale);
    }
    out.retain(|f| !f.samples.is_empty());
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out
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
