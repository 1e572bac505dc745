//! Decodes OTLP metrics from any sender to rows for the store.
//!
//! Called by the collector's ingest with the bytes of an `ExportMetricsServiceRequest`. A [`Decoder`] caches label
//! sets and column lists: points of a known series cost one lookup by their bytes, and a sender that repeats its
//! columns gets the same [`Layout`](fabriclens_rows::Layout), so the caller can key on its id.

mod attributes;
mod budget;
mod cache;
mod destination;
mod exponential;
mod group;
mod limits;
mod metric;
pub mod names;
mod rows;
mod template;

pub use crate::proto::DecodeError;
pub use budget::{CacheBudget, CacheShare};
pub use limits::{Limits, cut};
pub use rows::{ExponentialPoint, Meta, Rejected, Rows};

use crate::proto::{Field, Reader};
use cache::Cache;
use fabriclens_rows::LayoutInterner;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use std::sync::Arc;
use template::Templates;

/// Decodes requests to [`Rows`].
#[derive(Default)]
pub struct Decoder {
    limits: Limits,
    cache: Cache,
    templates: Templates,
    layouts: LayoutInterner,
    share: Option<CacheShare>,
}

/// Most resources of a request. A resource without points has two bytes, and a gigabyte of them compresses to a few
/// kilobytes.
const RESOURCES: usize = 50_000;
/// Most scopes of a resource; senders have one for each library.
const SCOPES: usize = 10_000;
/// Bytes of forgotten entries from which the tables of texts and layouts are swept, too.
const SWEEP: usize = 1 << 20;

impl Decoder {
    /// A decoder with empty caches.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// A decoder whose caches share a budget with others.
    pub fn sharing(limits: Limits, budget: Arc<CacheBudget>) -> Self {
        let layouts = LayoutInterner::with_columns(budget.list_columns());
        Self { limits, layouts, share: Some(CacheShare::new(budget)), ..Self::default() }
    }

    /// Drops the cache entries of resources without a request since the previous call. Call it periodically, because
    /// senders disappear.
    pub fn forget_idle(&mut self) {
        self.cache.forget_idle();
        self.sweep();
        self.account();
    }

    /// Forgets the metrics that were new in the last request, because nothing of it was stored: the next request
    /// yields their metadata again. The same with the label sets.
    pub fn forget_new(&mut self) {
        let new = self.take_new();
        self.forget(&new);
        self.cache.forget_new();
        self.account();
    }

    /// Numbers of the resources that got entries by the last request, for [`Decoder::forget`].
    pub fn take_new(&mut self) -> Vec<u32> {
        self.cache.take_new()
    }

    /// Forgets resources whose series were refused: what is refused takes no memory.
    pub fn forget(&mut self, resources: &[u32]) {
        if self.cache.forget(resources) > SWEEP {
            self.sweep();
        }
        self.account();
    }

    fn sweep(&mut self) {
        self.layouts.forget_unused();
        self.cache.forget_unused_texts();
    }

    /// Tells the shared budget what the caches take.
    fn account(&mut self) {
        if let Some(share) = &mut self.share {
            share.set(self.cache.bytes());
        }
    }

    /// Decodes the protobuf bytes of a request.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are malformed. Well-formed points that cannot be stored are in [`Rows::rejected`].
    pub fn bytes(&mut self, request: &[u8]) -> Result<Rows, DecodeError> {
        let allowance = self.share.as_ref().map_or(self.limits.cached_bytes, CacheShare::allowance);
        self.cache.begin(&self.limits, allowance);
        let rows = self.rows(request);
        self.account();
        rows
    }

    fn rows(&mut self, request: &[u8]) -> Result<Rows, DecodeError> {
        let mut rows = Rows::default();
        let (mut room, mut resources) = (self.limits.points, 0);
        for field in Reader::new(request) {
            if let (1, Field::Bytes(resource_metrics)) = field? {
                resources += 1;
                if resources > RESOURCES {
                    return Err(DecodeError::Malformed("a request has more than 50,000 resources"));
                }
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
                if scopes.len() == SCOPES {
                    return Err(DecodeError::Malformed("a resource has more than 10,000 scopes"));
                }
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
            self.cache.read_by_template(resource);
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
        let before = (rows.refused(), rows.histograms.len());
        for scope in scopes {
            for field in Reader::new(scope) {
                if let (2, Field::Bytes(metric)) = field? {
                    let mut into = destination::Into { limits: &self.limits, resource, sink, rows, room };
                    metric::read(metric, &mut self.cache, &mut into)?;
                }
            }
        }
        if let [scope] = scopes
            && (rows.refused(), rows.histograms.len()) == before
        {
            let info = self.cache.info(resource);
            self.templates.learn(self.cache.plans(resource), scope, sink, info, &mut self.layouts);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
