//! The constant parts of requests (names, attributes and the order of points) for one combination of column lists of
//! one resource. Built once and reused until a source changes its list.

use super::point::Point;
use crate::proto::{Writer, field_len};
use crate::{Column, Section};
use fabriclens_catalog::MetricKind;
use foldhash::{HashMap, HashMapExt as _};
use std::ops::Range;
use std::sync::Arc;

/// Scope name of everything an agent sends.
pub const SCOPE: &str = "fabriclens-agent";

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

/// The constant parts of a request.
#[derive(Debug)]
pub(super) struct Layout {
    /// Column list of each member. Held, so that no other list can be allocated at the same address.
    lists: Vec<Arc<[Column]>>,
    /// Encoded resource, and encoded scope.
    resource: Vec<u8>,
    scope: Vec<u8>,
    metrics: Vec<Group>,
    /// Value positions; points of one metric, and within it ticks of one column, are adjacent.
    places: Vec<Place>,
    /// Encoded metric heads and column attributes.
    fixed: Vec<u8>,
}

#[derive(Debug)]
struct Group {
    kind: MetricKind,
    places: Range<usize>,
    /// Range in `fixed` of name, help and unit.
    head: Range<usize>,
    /// Range in `fixed` of the fields after the points.
    tail: Range<usize>,
}

/// Position of one value, and the range in `fixed` of its attributes.
#[derive(Debug)]
struct Place {
    member: usize,
    column: usize,
    attributes: Range<usize>,
}

impl Group {
    /// Field number of the points.
    fn field(&self) -> u32 {
        match self.kind {
            MetricKind::Gauge | MetricKind::Info => 5,
            MetricKind::Counter => 7,
            MetricKind::Histogram => 9,
        }
    }
}

impl Layout {
    pub fn new(members: &[&Section]) -> Self {
        let mut layout = Self {
            lists: members.iter().map(|s| Arc::clone(&s.columns)).collect(),
            resource: resource(members[0]),
            scope: scope(),
            metrics: Vec::new(),
            places: Vec::new(),
            fixed: Vec::new(),
        };
        let mut ids: HashMap<&'static str, usize> = HashMap::new();
        let mut found: Vec<(usize, usize, usize, usize)> = Vec::new();
        for (member, list) in layout.lists.iter().enumerate() {
            let first = layout.lists.iter().position(|l| Arc::ptr_eq(l, list)).unwrap_or(member);
            for (column, c) in list.iter().enumerate() {
                let next = ids.len();
                found.push((*ids.entry(c.metric.name).or_insert(next), first, column, member));
            }
        }
        found.sort_unstable();
        for of_metric in found.chunk_by(|a, b| a.0 == b.0) {
            layout.group(of_metric);
        }
        layout
    }

    /// Appends the constant parts of one metric; the tuples are (metric, list, column, member).
    fn group(&mut self, found: &[(usize, usize, usize, usize)]) {
        let column = |&(_, _, column, member): &(usize, usize, usize, usize)| &self.lists[member][column];
        let Some(metric) = found.first().map(|place| column(place).metric) else { return };
        let mut fixed = Writer::after(std::mem::take(&mut self.fixed));
        let (mut pair, mut any) = (Writer::default(), Writer::default());
        let begin = self.places.len();
        for ticks in found.chunk_by(|a, b| (a.1, a.2) == (b.1, b.2)) {
            let from = fixed.len();
            for (name, value) in &column(&ticks[0]).labels {
                fixed.attribute(
                    if metric.kind == MetricKind::Histogram { 9 } else { 7 },
                    name,
                    value,
                    &mut pair,
                    &mut any,
                );
            }
            let place = |&(_, _, column, member): &_| Place { member, column, attributes: from..fixed.len() };
            self.places.extend(ticks.iter().map(place));
        }
        let head = fixed.len();
        fixed.string(1, metric.name);
        fixed.string(2, metric.help);
        fixed.string(3, metric.unit.ucum());
        let tail = fixed.len();
        if matches!(metric.kind, MetricKind::Counter | MetricKind::Histogram) {
            fixed.varint_field(2, CUMULATIVE);
        }
        if metric.kind == MetricKind::Counter {
            fixed.varint_field(3, 1); // monotonic
        }
        let end = fixed.len();
        self.metrics.push(Group {
            kind: metric.kind,
            places: begin..self.places.len(),
            head: head..tail,
            tail: tail..end,
        });
        self.fixed = fixed.into_bytes();
    }

    /// Whether it is the layout of these sections, which belong to its resource.
    pub fn fits(&self, members: &[&Section]) -> bool {
        self.lists.len() == members.len() && self.lists.iter().zip(members).all(|(l, s)| Arc::ptr_eq(l, &s.columns))
    }

    /// Appends the sections as a field of the request, unless they contain no value. `sizes` is a reusable buffer.
    pub fn write(&self, members: &[&Section], sizes: &mut Vec<usize>, out: &mut Writer) {
        sizes.clear();
        let size = |group| self.points(group, members).map(|p| field_len(p.len())).sum::<usize>();
        sizes.extend(self.metrics.iter().map(size));
        let lens = |group: &Group, points: usize| {
            let data = points + group.tail.len();
            (group.head.len() + field_len(data), data)
        };
        let with_points = || self.metrics.iter().zip(sizes.iter().copied()).filter(|(_, points)| *points > 0);
        let scope: usize = with_points().map(|(group, points)| field_len(lens(group, points).0)).sum();
        if scope == 0 {
            return;
        }
        let scope = scope + self.scope.len();
        out.head(1, self.resource.len() + field_len(scope));
        out.append(&self.resource);
        out.head(2, scope);
        out.append(&self.scope);
        for (group, points) in with_points() {
            let (metric, data) = lens(group, points);
            out.head(2, metric);
            out.append(&self.fixed[group.head.clone()]);
            out.head(group.field(), data);
            for point in self.points(group, members) {
                out.head(1, point.len());
                point.write(out);
            }
            out.append(&self.fixed[group.tail.clone()]);
        }
    }

    /// The present points of a metric.
    fn points<'a>(&'a self, group: &'a Group, members: &'a [&Section]) -> impl Iterator<Item = Point<'a>> {
        let histogram = group.kind == MetricKind::Histogram;
        let cumulative = histogram || group.kind == MetricKind::Counter;
        let point = move |place: &'a Place| {
            let section = members[place.member];
            let start = section.starts.get(place.column).copied().filter(|_| cumulative);
            let value = section.values.get(place.column)?;
            let attributes = &self.fixed[place.attributes.clone()];
            let point = Point { histogram, start: start.unwrap_or(0), time: section.end_ns, value, attributes };
            (point.len() > 0).then_some(point)
        };
        self.places[group.places.clone()].iter().filter_map(point)
    }
}

/// `ResourceMetrics.resource` with the identity of a section.
fn resource(section: &Section) -> Vec<u8> {
    let resource = &section.resource;
    let port = resource.port.map(|p| p.to_string());
    let identity = [("host", Some(&*resource.host)), ("device", resource.device.as_deref()), ("port", port.as_deref())];
    let (mut body, mut pair, mut any) = (Writer::default(), Writer::default(), Writer::default());
    for (name, value) in identity {
        if let Some(value) = value {
            body.attribute(1, name, value, &mut pair, &mut any);
        }
    }
    let mut field = Writer::default();
    field.message(1, &body);
    field.into_bytes()
}

/// `ScopeMetrics.scope`.
fn scope() -> Vec<u8> {
    let (mut body, mut field) = (Writer::default(), Writer::default());
    body.string(1, SCOPE);
    body.string(2, env!("CARGO_PKG_VERSION"));
    field.message(1, &body);
    field.into_bytes()
}
