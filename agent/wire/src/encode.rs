//! Encodes sections as OTLP: the bytes of an `ExportMetricsServiceRequest`.
//!
//! Called by the agent's uplink once per flush. Parts that are the same in every request (names, attributes) are
//! encoded once and reused; only times and values change.

mod layout;
mod point;

pub use layout::SCOPE;

use crate::proto::{Reader, Writer};
use crate::{Column, Resource, Section, Value};
use fabriclens_catalog::MetricKind;
use foldhash::{HashMap, HashMapExt as _};
use layout::{Layout, Shape};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use std::sync::Arc;

/// Layouts cached per resource: one for each of its column lists.
const LAYOUTS: usize = 24;
/// Memory of all cached layouts, bytes, without the column lists and shapes that they share. An agent that reads a subnet
/// with 10,000 switch ports needs 8 MB.
const CACHE: usize = 32 << 20;
/// Memory of a resource in the cache, about, in addition to its layouts.
const ENTRY: usize = 300;
/// Requests after which a resource that is in none of them is forgotten.
const UNUSED: u64 = 1024;
/// Cached shapes; each is for all lists that differ in the labels of their info columns only.
const SHAPES: usize = 1024;

/// The request as generated types, for receivers and tests that need them.
pub fn request(sections: &[Section]) -> ExportMetricsServiceRequest {
    #[expect(clippy::expect_used, reason = "the bytes come from the writer in this crate; a round-trip test covers it")]
    ExportMetricsServiceRequest::decode(request_bytes(sections).as_slice()).expect("own encoding")
}

/// Encodes a single request without caching.
pub fn request_bytes(sections: &[Section]) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::default().encode(sections, &mut out);
    out
}

/// Number of samples in a section: values that are not absent; a histogram counts one per bucket plus sum and count.
pub fn points(section: &Section) -> usize {
    let samples = |(column, value): (&Column, &Value)| match value {
        Value::Absent => 0,
        Value::Histogram(h) => h.bounds.len() + 3,
        Value::Stale if column.metric.kind == MetricKind::Histogram => 3,
        Value::Stale | Value::Int(_) | Value::Float(_) => 1,
    };
    section.columns.iter().zip(&section.values).map(samples).sum()
}

/// Splits an encoded request into two of about half the size. `None` if it has a single `ResourceMetrics`.
pub fn halves(request: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = Reader::new(request);
    let ends = std::iter::from_fn(|| reader.next()?.ok().map(|_| request.len() - reader.rest().len()));
    let middle = ends.filter(|end| *end < request.len()).min_by_key(|end| end.abs_diff(request.len() / 2))?;
    Some(request.split_at(middle))
}

/// Encodes requests; caches the constant parts of their sections. Column lists beyond the bound are encoded anew in each
/// request; what is cached stays, so that a round over more resources than fit does not push all of them out.
#[derive(Debug, Default)]
pub struct Encoder {
    resources: HashMap<Arc<Resource>, Cached>,
    shapes: Vec<Arc<Shape>>,
    /// Memory of `resources`, bytes.
    bytes: usize,
    /// Requests so far.
    requests: u64,
}

/// Layouts of a resource.
#[derive(Debug, Default)]
struct Cached {
    /// Most recently used last.
    layouts: Vec<Layout>,
    /// Number of the last request that it was in.
    used: u64,
}

impl Cached {
    fn bytes(&self) -> usize {
        ENTRY + self.layouts.iter().map(Layout::bytes).sum::<usize>()
    }
}

impl Encoder {
    /// Replaces `out` with the request for these sections: one `ResourceMetrics` per resource and column list, and one for
    /// the list's info columns; one `Metric` per catalog row in it, and several ticks of the same columns as several points
    /// of the same metric.
    /// Metrics and resources without values are omitted.
    ///
    /// Column lists of one resource stay separate because each is read at its own instant: whether two instants fall
    /// into the same millisecond is chance, and a receiver that groups series by time would regroup them every second.
    pub fn encode(&mut self, sections: &[Section], out: &mut Vec<u8>) {
        self.requests += 1;
        if self.requests.is_multiple_of(UNUSED) {
            self.forget_unused();
        }
        let mut order: Vec<Vec<&Section>> = Vec::new();
        let mut index: HashMap<(&Resource, usize), usize> = HashMap::new();
        for section in sections {
            let list = Arc::as_ptr(&section.columns).cast::<Column>() as usize;
            let at = *index.entry((&section.resource, list)).or_insert_with(|| {
                order.push(Vec::new());
                order.len() - 1
            });
            order[at].push(section);
        }
        let mut writer = Writer::over(std::mem::take(out));
        let mut sizes = Vec::new();
        for ticks in order {
            self.write(&ticks, &mut sizes, &mut writer);
        }
        *out = writer.into_bytes();
    }

    /// Appends these sections of one resource and column list, by their cached layout or a new one.
    fn write(&mut self, ticks: &[&Section], sizes: &mut Vec<usize>, writer: &mut Writer) {
        let (resource, list) = (&ticks[0].resource, &ticks[0].columns);
        if let Some(cached) = self.resources.get_mut(resource) {
            cached.used = self.requests;
            if let Some(at) = cached.layouts.iter().position(|layout| layout.fits(list)) {
                cached.layouts[at..].rotate_left(1);
                cached.layouts[cached.layouts.len() - 1].write(ticks, sizes, writer);
                return;
            }
        }
        let layout = Layout::new(resource, list, &self.shape(list));
        layout.write(ticks, sizes, writer);
        self.keep(resource, layout);
    }

    /// Caches a layout in the place of those whose lists have ended, unless the cache is full.
    fn keep(&mut self, resource: &Arc<Resource>, layout: Layout) {
        let entry = match self.resources.get_mut(resource) {
            Some(cached) => {
                let had = cached.bytes();
                cached.layouts.retain(Layout::is_used);
                if cached.layouts.len() >= LAYOUTS {
                    cached.layouts.remove(0);
                }
                self.bytes = self.bytes + cached.bytes() - had;
                0
            }
            None => ENTRY,
        };
        let more = entry + layout.bytes();
        if self.bytes + more <= CACHE {
            self.bytes += more;
            let cached = self.resources.entry(Arc::clone(resource)).or_default();
            cached.used = self.requests;
            cached.layouts.push(layout);
        }
    }

    /// The shape of a list.
    fn shape(&mut self, list: &Arc<[Column]>) -> Arc<Shape> {
        if let Some(shape) = self.shapes.iter().find(|shape| shape.fits(list)) {
            return Arc::clone(shape);
        }
        let shape = Arc::new(Shape::new(list));
        if self.shapes.len() < SHAPES {
            self.shapes.push(Arc::clone(&shape));
        }
        shape
    }

    /// Forgets resources that were in none of the last requests, and shapes of no layout.
    fn forget_unused(&mut self) {
        self.resources.retain(|_, cached| cached.used + UNUSED > self.requests);
        self.shapes.retain(|shape| Arc::strong_count(shape) > 1);
        self.bytes = self.resources.values().map(Cached::bytes).sum();
    }
}

#[cfg(test)]
pub(crate) mod tests;
