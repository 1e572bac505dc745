//! Decodes OTLP metrics from any sender to rows for the store.
//!
//! Called by the collector's ingest with the bytes of an `ExportMetricsServiceRequest`. A [`Decoder`] caches label
//! sets and column lists: points of a known series cost one lookup by their bytes, and a sender that repeats its
//! columns gets the same [`Layout`](fabriclens_rows::Layout), so the caller can key on its id.

mod attributes;
mod cache;
mod group;
mod metric;
pub mod names;
mod template;

use crate::proto::{Field, Reader};
use cache::Cache;
use fabriclens_rows::{LayoutInterner, RowGroup, is_absent};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use template::Templates;

/// The contents of one request, ready to be stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Series that share time stamps.
    pub groups: Vec<RowGroup>,
    /// Rejected points with reasons, for OTLP's partial success.
    pub rejected: Vec<Rejected>,
    /// Metadata of metrics that are new to this decoder, or whose metadata changed.
    pub metadata: Vec<Meta>,
}

/// Points that were rejected for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Metric name as sent.
    pub metric: String,
    /// Number of points.
    pub points: usize,
    /// Reason and remedy.
    pub reason: String,
}

/// Metadata of a metric, for `/api/v1/metadata`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Prometheus name; for a histogram or summary without suffix.
    pub name: String,
    /// `counter`, `gauge`, `histogram` or `summary`.
    pub kind: &'static str,
    /// UCUM unit, as sent.
    pub unit: String,
    /// Description, as sent.
    pub help: String,
}

/// Limits of one request, and of the decoder's caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Samples in a request (a histogram point counts one per bucket, plus sum and count).
    pub points: usize,
    /// Labels of a series, including `__name__`.
    pub labels: usize,
    /// Bytes of a label name or value.
    pub label_bytes: usize,
    /// Cached label sets. If exceeded, the whole cache is dropped and built again; see also [`Decoder::forget_idle`].
    pub cached_series: usize,
    /// Bytes of cache keys. One request may add half of this.
    pub cached_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { points: 2_000_000, labels: 64, label_bytes: 4096, cached_series: 2_000_000, cached_bytes: 512 << 20 }
    }
}

/// Why a request could not be decoded at all. Nothing of it is stored; a retry cannot help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not a valid message.
    #[error("malformed OTLP metrics request: {0}; send an ExportMetricsServiceRequest in protobuf")]
    Malformed(&'static str),
}

/// The longest prefix of a text within a number of bytes.
pub fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Decodes requests to [`Rows`].
#[derive(Default)]
pub struct Decoder {
    limits: Limits,
    cache: Cache,
    templates: Templates,
    layouts: LayoutInterner,
}

impl Decoder {
    /// A decoder with empty caches.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Drops the cache entries of resources without a request since the previous call. Call it periodically, because
    /// senders disappear.
    pub fn forget_idle(&mut self) {
        self.cache.forget_idle();
        self.layouts.forget_unused();
        self.cache.forget_unused_texts();
    }

    /// Forgets the metrics that were new in the last request, because nothing of it was stored: the next request
    /// yields their metadata again.
    pub fn forget_new(&mut self) {
        self.cache.forget_new();
    }

    /// Decodes the protobuf bytes of a request.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are malformed. Well-formed points that cannot be stored are in [`Rows::rejected`].
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

    /// Decodes a request in generated types (OTLP/JSON, other servers), at the cost of an additional encoding.
    ///
    /// # Errors
    /// See [`Decoder::bytes`].
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
            && let Some(points) =
                self.templates.read(self.cache.plans(resource), scope, *room, &mut rows.groups, &mut self.layouts)
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
        sink.finish(&mut self.layouts, &mut rows.groups);
        Ok(())
    }

    /// Decodes point by point, without a template.
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
            self.templates.learn(self.cache.plans(resource), scope, sink, info, &mut self.layouts);
        }
        Ok(())
    }
}

impl Rows {
    /// Number of samples in all groups.
    pub fn samples(&self) -> usize {
        self.groups.iter().flat_map(|g| &g.values).filter(|v| !is_absent(**v)).count()
    }

    /// Number of rejection entries and of rejected points so far.
    fn refused(&self) -> (usize, usize) {
        (self.rejected.len(), self.rejected.iter().map(|r| r.points).sum())
    }

    /// Counts rejected points; there are few reasons, so a list is sufficient.
    fn reject(&mut self, metric: &str, points: usize, reason: &str) {
        /// Further entries are merged into the last one, so that a hostile request cannot grow the list.
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
