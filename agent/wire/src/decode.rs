//! OTLP metrics to rows of the store, from any sender.
//!
//! Called by the collector's ingest with the bytes of an `ExportMetricsServiceRequest`. A [`Decoder`] remembers the
//! label sets it has built: from then on a point costs one look-up by its own bytes, and equal series of successive
//! requests are the *same* `Arc`, so the caller can key on the pointer.

mod attributes;
mod cache;
mod group;
mod metric;
pub mod names;
mod template;

use crate::proto::{Field, Reader};
use cache::Cache;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use std::sync::Arc;
use template::Templates;

/// Bit pattern of "no point here" in [`Group::values`]: a NaN that is neither an ordinary one nor [`STALE_NAN`];
/// the store's own pattern, so that groups reach it as they are (the collector's build asserts it).
pub const ABSENT_NAN: u64 = 0x7ff8_0000_0000_0fab;
/// Bit pattern of Prometheus' staleness marker: "this series ended here".
pub const STALE_NAN: u64 = 0x7ff0_0000_0000_0002;

/// A full Prometheus label set with `__name__`: sorted by name, no duplicates, no empty values.
pub type Labels = Arc<[(Arc<str>, Arc<str>)]>;

/// What one request holds, ready to be stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Series that share their times.
    pub groups: Vec<Group>,
    /// What was not taken, and why. Belongs into OTLP's partial success.
    pub rejected: Vec<Rejected>,
    /// Metadata of metrics that this decoder sees for the first time (or whose metadata changed).
    pub metadata: Vec<Meta>,
}

/// Series of one resource that have the same time stamps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// One per column. A sender that is known has the *same* allocation each time.
    pub series: Arc<[Labels]>,
    /// Unix milliseconds, ascending, no duplicates.
    pub times_ms: Vec<i64>,
    /// Column-major: series `i` at time `j` is `values[i * times_ms.len() + j]`; [`ABSENT_NAN`] where it has no point.
    pub values: Vec<f64>,
}

/// Points that were not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The metric's name as sent.
    pub metric: String,
    /// How many points.
    pub points: usize,
    /// Why, and what would help.
    pub reason: String,
}

/// What a metric is, for `/api/v1/metadata`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Prometheus name; of a histogram or summary the one without suffix.
    pub name: String,
    /// `counter`, `gauge`, `histogram` or `summary`.
    pub kind: &'static str,
    /// UCUM, as sent.
    pub unit: String,
    /// Description, as sent.
    pub help: String,
}

/// How much of one request is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Samples in a request (a histogram point is one per bucket, plus sum and count).
    pub points: usize,
    /// Labels of a series, `__name__` included.
    pub labels: usize,
    /// Bytes of a label's name or value.
    pub label_bytes: usize,
    /// Label sets to remember. Beyond it all are forgotten and built again; see also [`Decoder::forget_idle`].
    pub cached_series: usize,
    /// The same in bytes of what told them. One request may add half of it.
    pub cached_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { points: 2_000_000, labels: 64, label_bytes: 4096, cached_series: 2_000_000, cached_bytes: 512 << 20 }
    }
}

/// Why a request could not be read at all. Nothing of it is taken; sending it again cannot help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are no such message.
    #[error("malformed OTLP metrics request: {0}; send an ExportMetricsServiceRequest in protobuf")]
    Malformed(&'static str),
}

/// As much of a text as fits into so many bytes.
pub fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Turns requests into [`Rows`].
#[derive(Default)]
pub struct Decoder {
    limits: Limits,
    cache: Cache,
    templates: Templates,
}

impl Decoder {
    /// A decoder with nothing remembered.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Forgets resources that no request was of since the call before. To be called now and then: senders go, and what
    /// is remembered of them should go too.
    pub fn forget_idle(&mut self) {
        self.cache.forget_idle();
    }

    /// Forgets the metrics that the last request was the first to tell of, when nothing of it was taken: the next one tells
    /// their metadata again.
    pub fn forget_new(&mut self) {
        self.cache.forget_new();
    }

    /// Decodes the protobuf bytes of a request.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are malformed. What is well formed but cannot be stored is in [`Rows::rejected`].
    pub fn bytes(&mut self, request: &[u8]) -> Result<Rows, DecodeError> {
        self.cache.begin(&self.limits);
        let mut rows = Rows::default();
        let mut room = self.limits.points;
        for field in Reader::new(request) {
            if let (1, Field::Bytes(resource_metrics)) = field? {
                self.resource_metrics(resource_metrics, &mut rows, &mut room)?;
            }
        }
        Ok(rows)
    }

    /// Decodes a request that is already in generated types (OTLP/JSON, other servers). Costs an encoding more.
    ///
    /// # Errors
    /// As [`Decoder::bytes`].
    pub fn request(&mut self, request: &ExportMetricsServiceRequest) -> Result<Rows, DecodeError> {
        self.bytes(&request.encode_to_vec())
    }

    fn resource_metrics(&mut self, body: &[u8], rows: &mut Rows, room: &mut usize) -> Result<(), DecodeError> {
        let resource = Reader::new(body).find_map(|f| match f {
            Ok((1, Field::Bytes(b))) => Some(b),
            _ => None,
        });
        let resource = self.cache.resource(resource.unwrap_or_default(), &self.limits)?;
        let mut scopes = Vec::with_capacity(1);
        for field in Reader::new(body) {
            if let (2, Field::Bytes(scope_metrics)) = field? {
                scopes.push(scope_metrics);
            }
        }
        let resource = match resource {
            Ok(resource) => resource,
            Err(why) => return metric::refuse(&scopes, &why, rows),
        };
        if let [scope] = scopes[..]
            && let Some(points) = self.templates.read(self.cache.plans(resource), scope, *room, &mut rows.groups)
        {
            *room -= points;
            return Ok(());
        }
        let mut sink = group::Sink::default();
        self.scopes(resource, &scopes, &mut sink, rows, room)?;
        if let (Some(info), Some(time)) = (self.cache.info(resource), sink.last_time()) {
            let series = sink.series(info);
            sink.push(series, time, 1.0);
        }
        sink.finish(&mut rows.groups);
        Ok(())
    }

    /// Reads point by point.
    fn scopes(
        &mut self,
        resource: u32,
        scopes: &[&[u8]],
        sink: &mut group::Sink,
        rows: &mut Rows,
        room: &mut usize,
    ) -> Result<(), DecodeError> {
        let refused = rows.refused();
        for scope in scopes {
            for field in Reader::new(scope) {
                if let (2, Field::Bytes(metric)) = field? {
                    let mut into = metric::Into { limits: &self.limits, resource, sink, rows, room };
                    metric::read(metric, &mut self.cache, &mut into)?;
                }
            }
        }
        if let [scope] = scopes
            && rows.refused() == refused
        {
            let info = self.cache.info(resource);
            self.templates.learn(self.cache.plans(resource), scope, sink, info);
        }
        Ok(())
    }
}

impl Rows {
    /// Samples in all groups, without absent ones.
    pub fn samples(&self) -> usize {
        self.groups.iter().flat_map(|g| &g.values).filter(|v| v.to_bits() != ABSENT_NAN).count()
    }

    /// Lines and points of what was not taken so far.
    fn refused(&self) -> (usize, usize) {
        (self.rejected.len(), self.rejected.iter().map(|r| r.points).sum())
    }

    /// Counts points that were not taken; few kinds of reasons, so a list is enough.
    fn reject(&mut self, metric: &str, points: usize, reason: &str) {
        /// Entries beyond which a hostile request gets no new line of its own.
        const LINES: usize = 100;
        let name: String = metric.chars().take(200).collect();
        let same = |r: &&mut Rejected| r.reason == reason && r.metric == name;
        if let Some(r) = self.rejected.iter_mut().find(same) {
            r.points += points;
        } else if self.rejected.len() < LINES {
            self.rejected.push(Rejected { metric: name, points, reason: reason.to_owned() });
        } else if let Some(r) = self.rejected.last_mut() {
            r.points += points;
        }
    }
}
