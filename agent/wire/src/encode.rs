//! Sections to OTLP, as the bytes of an `ExportMetricsServiceRequest`.
//!
//! Called by the agent's uplink once per flush. The bytes are written directly, and what is the same in each request is
//! kept between them: an agent sends the same names and attributes for ever, only times and values move.

mod layout;
mod point;

use crate::proto::{Reader, Writer};
use crate::{Column, Resource, Section, Value};
use fabriclens_catalog::MetricKind;
use foldhash::{HashMap, HashMapExt as _};
use layout::Layout;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use std::sync::Arc;

/// Scope name of everything an agent sends.
pub const SCOPE: &str = "fabriclens-agent";

/// Layouts that are kept for one resource: of each of its lists a tick alone, and some together.
const LAYOUTS: usize = 24;
/// Resources whose layouts are kept; an agent has one a device, one a port and its host.
const RESOURCES: usize = 1024;

/// The request as generated types, for receivers and tests that want them.
pub fn request(sections: &[Section]) -> ExportMetricsServiceRequest {
    #[expect(clippy::expect_used, reason = "the bytes come from the writer beside it; a round-trip test covers it")]
    ExportMetricsServiceRequest::decode(request_bytes(sections).as_slice()).expect("own encoding")
}

/// One request of an [`Encoder`] that is used once.
pub fn request_bytes(sections: &[Section]) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::default().encode(sections, &mut out);
    out
}

/// Number of samples that a receiver makes of a section: its values that are not absent, and of a histogram one for
/// each bucket, the sum and the count.
pub fn points(section: &Section) -> usize {
    let samples = |(column, value): (&Column, &Value)| match value {
        Value::Absent => 0,
        Value::Histogram(h) => h.bounds.len() + 3,
        Value::Stale if column.metric.kind == MetricKind::Histogram => 3,
        Value::Stale | Value::Int(_) | Value::Float(_) => 1,
    };
    section.columns.iter().zip(&section.values).map(samples).sum()
}

/// The bytes of a request as those of two, each with about half of it. `None` where all is of one resource and list.
pub fn halves(request: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = Reader::new(request);
    let ends = std::iter::from_fn(|| reader.next()?.ok().map(|_| request.len() - reader.rest().len()));
    let middle = ends.filter(|end| *end < request.len()).min_by_key(|end| end.abs_diff(request.len() / 2))?;
    Some(request.split_at(middle))
}

/// Encodes requests; remembers what their sections looked like.
#[derive(Debug, Default)]
pub struct Encoder {
    /// By resource; the layout used last is the last one.
    layouts: HashMap<Arc<Resource>, Vec<Layout>>,
}

impl Encoder {
    /// Replaces `out` by the request of these sections: one `ResourceMetrics` per resource and list of columns, one
    /// `Metric` per catalog row in it, and several ticks of the same columns as several points of the same metric. A
    /// metric without any value is left out, and so is a resource.
    ///
    /// Lists of one resource are told apart because each is read at its own instant: whether two of these are the same
    /// millisecond is chance, and a receiver that keeps together what shares its times would sort them anew each second.
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

    /// The layout of these sections of one resource and list, kept or made.
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
