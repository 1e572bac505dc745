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
use layout::Layout;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use std::sync::Arc;

/// Layouts cached per resource: one for each of its column lists alone, and some combinations.
const LAYOUTS: usize = 24;
/// Resources whose layouts are cached; an agent has one per device, one per port and its host.
const RESOURCES: usize = 1024;

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

/// Splits an encoded request into two of about half the size. `None` if it has a single resource and column list.
pub fn halves(request: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = Reader::new(request);
    let ends = std::iter::from_fn(|| reader.next()?.ok().map(|_| request.len() - reader.rest().len()));
    let middle = ends.filter(|end| *end < request.len()).min_by_key(|end| end.abs_diff(request.len() / 2))?;
    Some(request.split_at(middle))
}

/// Encodes requests; caches the constant parts of their sections.
#[derive(Debug, Default)]
pub struct Encoder {
    /// Layouts by resource, most recently used last.
    layouts: HashMap<Arc<Resource>, Vec<Layout>>,
}

impl Encoder {
    /// Replaces `out` with the request for these sections: one `ResourceMetrics` per resource and column list, one
    /// `Metric` per catalog row in it, and several ticks of the same columns as several points of the same metric.
    /// Metrics and resources without values are omitted.
    ///
    /// Column lists of one resource stay separate because each is read at its own instant: whether two instants fall
    /// into the same millisecond is chance, and a receiver that groups series by time would regroup them every second.
    pub fn encode(&mut self, sections: &[Section], out: &mut Vec<u8>) {
        if self.layouts.len() > RESOURCES {
            self.layouts.clear();
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
        for members in order {
            self.layout(&members).write(&members, &mut sizes, &mut writer);
        }
        *out = writer.into_bytes();
    }

    /// The cached layout of these sections of one resource and column list, or a new one.
    fn layout(&mut self, members: &[&Section]) -> &Layout {
        let kept = self.layouts.entry(Arc::clone(&members[0].resource)).or_default();
        match kept.iter().position(|layout| layout.fits(members)) {
            Some(at) => kept[at..].rotate_left(1),
            None => {
                if kept.len() >= LAYOUTS {
                    kept.remove(0);
                }
                kept.push(Layout::new(members));
            }
        }
        &kept[kept.len() - 1]
    }
}
