//! Decodes OTLP metrics from any sender to rows for the store.
//!
//! Called by the collector's ingest with the bytes of an `ExportMetricsServiceRequest`. A [`Decoder`] caches label
//! sets and column lists: points of a known series cost one lookup by their bytes, and a sender that repeats its
//! columns gets the same [`Layout`](fabriclens_rows::Layout), so the caller can key on its id.

mod attributes;
mod cache;
mod group;
mod limits;
mod metric;
pub mod names;
mod rows;
mod template;

pub use crate::proto::DecodeError;
pub use limits::{Limits, cut};
pub use rows::{Meta, Rejected, Rows};

use crate::proto::{Field, Reader};
use cache::Cache;
use fabriclens_rows::LayoutInterner;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use template::Templates;

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
