//! The contract between agent and collector: what a sample is, and how it travels as OTLP metrics.
//!
//! A [`Section`] is one read of one source of one resource (a host, device or port): its columns are fixed until the
//! source's own list changes, its values share one read window. That shape is kept from the sampler to the store.

pub mod decode;
pub mod encode;
pub mod proto;

use fabriclens_catalog::Metric;
use std::sync::Arc;

/// Identity labels of a section; `None` = the label is absent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// `host`
    pub host: Arc<str>,
    /// `device`: RDMA device, or the netdev's name where there is no RDMA device.
    pub device: Option<Arc<str>>,
    /// `port`: RDMA port number.
    pub port: Option<u32>,
}

/// One series of a section: metric and labels beside the resource's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Catalog row.
    pub metric: &'static Metric,
    /// Sorted by name; no empty values.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
}

/// The value of one column at one tick.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not read this time (unreadable, not offered): no point is sent. Absent is not zero.
    Absent,
    /// The series has ended or cannot be trusted: sent as OTLP "no recorded value", stored as a staleness marker.
    Stale,
    /// An integer, exact.
    Int(u64),
    /// Everything else that is one number.
    Float(f64),
    /// The distribution of a [`Kind::Histogram`](fabriclens_catalog::Kind::Histogram) metric.
    Histogram(Arc<Histogram>),
}

/// Cumulative since the series began.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Upper bounds of the buckets, inclusive, ascending, in the metric's unit.
    pub bounds: Arc<[f64]>,
    /// Observations in each bucket alone; one more than bounds, for those above all of them.
    pub counts: Vec<u64>,
    /// Sum of all observations, in the metric's unit.
    pub sum: f64,
}

impl Histogram {
    /// Number of observations.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Upper bounds and how many observations are not above them, as Prometheus tells buckets; without the last one,
    /// whose bound is infinite and whose number is [`Histogram::count`].
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut total = 0;
        self.bounds.iter().zip(&self.counts).map(move |(bound, count)| {
            total = u64::saturating_add(total, *count);
            (*bound, total)
        })
    }
}

/// One read of one source.
#[derive(Clone, Debug)]
pub struct Section {
    /// Who it belongs to.
    pub resource: Arc<Resource>,
    /// What it reads; shared between ticks until the source's list changes.
    pub columns: Arc<[Column]>,
    /// Begin of the read window, Unix ns.
    pub begin_ns: u64,
    /// End of the read window, Unix ns: the time stamp of its points.
    pub end_ns: u64,
    /// One per column: since when a cumulative value counts, Unix ns (changes at a reset).
    pub starts: Arc<[u64]>,
    /// One per column.
    pub values: Vec<Value>,
    /// True when it must not wait for the next regular flush (pause, link or storm signal).
    pub urgent: bool,
}
