//! The contract between agent and collector: what a sample is, and its encoding as OTLP metrics.
//!
//! A [`Section`] is one read of one source of one resource (a host, device or port). Its columns are fixed until the
//! source's list changes, and its values share one read window. This shape is preserved from the sampler to the store.
//!
//! ```
//! use fabriclens_wire::decode::Decoder;
//! use fabriclens_wire::{Column, Resource, Section, Value, encode};
//! use std::sync::Arc;
//!
//! let metric = fabriclens_catalog::metrics::all().find(|m| m.name == "fabric.port.up").expect("in the catalog");
//! let section = Section {
//!     resource: Arc::new(Resource { host: "gpu-01".into(), device: Some("mlx5_0".into()), port: Some(1) }),
//!     columns: [Column { metric, labels: Vec::new() }].into(),
//!     begin_ns: 1_700_000_000_000_000_000,
//!     end_ns: 1_700_000_000_000_100_000,
//!     starts: [0].into(),
//!     values: vec![Value::Int(1)],
//!     urgent: false,
//! };
//! let rows = Decoder::default().bytes(&encode::request_bytes(&[section]))?;
//! assert_eq!((rows.groups[0].values[0], rows.groups[0].times[0]), (1.0, 1_700_000_000_000));
//! assert_eq!(rows.groups[0].series[0].get("host"), "gpu-01");
//! # Ok::<(), fabriclens_wire::decode::DecodeError>(())
//! ```

pub mod decode;
pub mod encode;
pub mod proto;
pub mod troubled_jobs;

use fabriclens_catalog::Metric;
use std::sync::Arc;

/// Identity labels of a section; `None`: the label is absent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// Label `host`.
    pub host: Arc<str>,
    /// Label `device`: RDMA device, or the network device if there is no RDMA device.
    pub device: Option<Arc<str>>,
    /// Label `port`: RDMA port number.
    pub port: Option<u32>,
}

/// One series of a section: metric and labels in addition to the resource's identity.
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
    /// Not read this time (unreadable, not offered): no point is sent, because absent is not zero.
    Absent,
    /// The series has ended or its value is not credible: sent as OTLP "no recorded value", stored as a staleness marker.
    Stale,
    /// An integer, exact.
    Int(u64),
    /// Any other number.
    Float(f64),
    /// The distribution of a [`MetricKind::Histogram`](fabriclens_catalog::MetricKind::Histogram) metric.
    Histogram(Arc<Histogram>),
}

/// A distribution, cumulative since the series began.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Upper bounds of the buckets, inclusive, ascending, in the metric's unit.
    pub bounds: Arc<[f64]>,
    /// Observations per bucket (not cumulative); one more than bounds, for those above all of them.
    pub counts: Vec<u64>,
    /// Sum of all observations, in the metric's unit.
    pub sum: f64,
}

impl Histogram {
    /// Number of observations.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Upper bounds and the number of observations up to each, as in Prometheus' buckets. Without the last bucket,
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
    /// Resource that the section belongs to.
    pub resource: Arc<Resource>,
    /// Columns of the source; shared between ticks until its list changes.
    pub columns: Arc<[Column]>,
    /// Start of the read window, Unix ns.
    pub begin_ns: u64,
    /// End of the read window, Unix ns: the time stamp of its points.
    pub end_ns: u64,
    /// Start time of each cumulative column, Unix ns; changes at a reset.
    pub starts: Arc<[u64]>,
    /// One value per column.
    pub values: Vec<Value>,
    /// True if it must not wait for the next regular flush (pause, link or storm signal).
    pub urgent: bool,
}

impl Section {
    /// Ends series at a time in Unix ns, so that their last value does not pass as current.
    pub fn ended(resource: &Arc<Resource>, columns: impl Into<Arc<[Column]>>, at_ns: u64) -> Self {
        let columns = columns.into();
        Self {
            resource: Arc::clone(resource),
            starts: vec![0; columns.len()].into(),
            values: vec![Value::Stale; columns.len()],
            columns,
            begin_ns: at_ns,
            end_ns: at_ns,
            urgent: false,
        }
    }
}
