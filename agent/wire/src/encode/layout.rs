//! The constant parts of requests (names, attributes and the order of points) for one column list of one resource. Built
//! once and reused until a source changes its list.
//!
//! Resources of one kind, such as the ports of a switch, have lists that differ in the labels of their info columns only.
//! Their layouts share a [`Shape`], and have only those labels and the resource's identity to themselves.

use super::point::Point;
use crate::proto::{Writer, field_len};
use crate::{Column, Resource, Section};
use fabriclens_catalog::MetricKind;
use foldhash::{HashMap, HashMapExt as _};
use std::mem::{size_of, size_of_val};
use std::ops::Range;
use std::sync::Arc;

/// Scope name of everything an agent sends.
pub const SCOPE: &str = "fabriclens-agent";

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

/// The constant parts of one column list of one resource.
#[derive(Debug)]
pub(super) struct Layout {
    /// The list. Held, so that no other list can be allocated at the same address.
    list: Arc<[Column]>,
    shape: Arc<Shape>,
    /// Encoded resource, then the encoded attributes of info columns.
    own: Box<[u8]>,
    /// Where the attributes of each info column end in `own`; the first is the end of the resource.
    ends: Box<[u32]>,
}

/// What column lists share that differ in the labels of info columns only.
#[derive(Debug)]
pub(super) struct Shape {
    /// One of these lists.
    list: Arc<[Column]>,
    /// Encoded scope.
    scope: Vec<u8>,
    metrics: Vec<Group>,
    /// Columns; those of one metric are adjacent.
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

/// A column.
#[derive(Debug)]
struct Place {
    column: usize,
    attributes: Attributes,
}

/// Where the encoded attributes of a column are.
#[derive(Debug)]
enum Attributes {
    /// Range in `fixed` of the shape.
    Shared(Range<usize>),
    /// Number of the info column in the layout.
    Own(usize),
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

fn is_info(column: &Column) -> bool {
    column.metric.kind == MetricKind::Info
}

impl Shape {
    pub fn new(list: &Arc<[Column]>) -> Self {
        let (list, scope) = (Arc::clone(list), scope());
        let mut shape = Self { list, scope, metrics: Vec::new(), places: Vec::new(), fixed: Vec::new() };
        let mut ids: HashMap<&'static str, usize> = HashMap::new();
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (column, c) in shape.list.iter().enumerate() {
            let next = ids.len();
            found.push((*ids.entry(c.metric.name).or_insert(next), column));
        }
        found.sort_unstable();
        let mut infos = 0;
        for of_metric in found.chunk_by(|a, b| a.0 == b.0) {
            shape.group(of_metric, &mut infos);
        }
        shape
    }

    /// Appends the constant parts of one metric; the pairs are (metric, column).
    fn group(&mut self, found: &[(usize, usize)], infos: &mut usize) {
        let Some(metric) = found.first().map(|(_, column)| self.list[*column].metric) else { return };
        let mut fixed = Writer::after(std::mem::take(&mut self.fixed));
        let begin = self.places.len();
        for (_, column) in found {
            let from = fixed.len();
            let attributes = if metric.kind == MetricKind::Info {
                *infos += 1;
                Attributes::Own(*infos - 1)
            } else {
                attributes(&self.list[*column], &mut fixed);
                Attributes::Shared(from..fixed.len())
            };
            self.places.push(Place { column: *column, attributes });
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

    /// Whether it is the shape of this list: equal columns, except for the labels of info columns.
    pub fn fits(&self, list: &[Column]) -> bool {
        let same =
            |(a, b): (&Column, &Column)| std::ptr::eq(a.metric, b.metric) && (is_info(a) || a.labels == b.labels);
        self.list.len() == list.len() && self.list.iter().zip(list).all(same)
    }
}

impl Layout {
    pub fn new(resource: &Resource, list: &Arc<[Column]>, shape: &Arc<Shape>) -> Self {
        let mut own = self::resource(resource);
        let mut ends = vec![own.len()];
        for place in shape.places.iter().filter(|place| matches!(place.attributes, Attributes::Own(_))) {
            attributes(&list[place.column], &mut own);
            ends.push(own.len());
        }
        let ends = ends.into_iter().map(|end| u32::try_from(end).unwrap_or(u32::MAX)).collect();
        Self { list: Arc::clone(list), shape: Arc::clone(shape), own: own.into_bytes().into(), ends }
    }

    /// Whether it is the layout of this list, which belongs to its resource.
    pub fn fits(&self, list: &Arc<[Column]>) -> bool {
        Arc::ptr_eq(&self.list, list)
    }

    /// Whether its source still uses the list, or sections with it wait to be sent.
    pub fn is_used(&self) -> bool {
        Arc::strong_count(&self.list) > 1
    }

    /// Memory of what it does not share, bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.own.len() + size_of_val(&*self.ends)
    }

    /// Encoded resource, or attributes of an info column: the part of `own` with this number.
    fn part(&self, number: usize) -> &[u8] {
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.own[begin..self.ends[number] as usize]
    }

    /// Appends the sections, one per tick, as fields of the request, unless they contain no value: info columns as one of
    /// their own. Their labels differ from resource to resource, and a receiver recognizes the other columns of all
    /// resources of a kind if they are alike ([`decode`](crate::decode) does). `sizes` is a reusable buffer.
    pub fn write(&self, ticks: &[&Section], sizes: &mut Vec<usize>, out: &mut Writer) {
        sizes.clear();
        let size = |group| self.points(group, ticks).map(|p| field_len(p.len())).sum::<usize>();
        sizes.extend(self.shape.metrics.iter().map(size));
        for info in [false, true] {
            let groups = self.shape.metrics.iter().zip(sizes.iter().copied());
            self.write_groups(
                groups.filter(|(g, points)| (g.kind == MetricKind::Info) == info && *points > 0),
                ticks,
                out,
            );
        }
    }

    /// Appends metrics, each with the length of its points, as a field of the request.
    fn write_groups<'a>(
        &'a self,
        groups: impl Iterator<Item = (&'a Group, usize)> + Clone,
        ticks: &[&Section],
        out: &mut Writer,
    ) {
        let shape = &*self.shape;
        let lens = |group: &Group, points: usize| {
            let data = points + group.tail.len();
            (group.head.len() + field_len(data), data)
        };
        let scope: usize = groups.clone().map(|(group, points)| field_len(lens(group, points).0)).sum();
        if scope == 0 {
            return;
        }
        let (scope, resource) = (scope + shape.scope.len(), self.part(0));
        out.head(1, resource.len() + field_len(scope));
        out.append(resource);
        out.head(2, scope);
        out.append(&shape.scope);
        for (group, points) in groups {
            let (metric, data) = lens(group, points);
            out.head(2, metric);
            out.append(&shape.fixed[group.head.clone()]);
            out.head(group.field(), data);
            for point in self.points(group, ticks) {
                out.head(1, point.len());
                point.write(out);
            }
            out.append(&shape.fixed[group.tail.clone()]);
        }
    }

    /// The present points of a metric: of each column those of all ticks.
    fn points<'a>(&'a self, group: &'a Group, ticks: &'a [&Section]) -> impl Iterator<Item = Point<'a>> {
        let histogram = group.kind == MetricKind::Histogram;
        let cumulative = histogram || group.kind == MetricKind::Counter;
        self.shape.places[group.places.clone()].iter().flat_map(move |place| {
            let attributes = match &place.attributes {
                Attributes::Shared(range) => &self.shape.fixed[range.clone()],
                Attributes::Own(number) => self.part(number + 1),
            };
            ticks.iter().filter_map(move |section| {
                let start = section.starts.get(place.column).copied().filter(|_| cumulative);
                let value = section.values.get(place.column)?;
                let point = Point { histogram, start: start.unwrap_or(0), time: section.end_ns, value, attributes };
                (point.len() > 0).then_some(point)
            })
        })
    }
}

/// Appends the labels of a column as attributes of its points.
fn attributes(column: &Column, out: &mut Writer) {
    let (mut pair, mut any) = (Writer::default(), Writer::default());
    let field = if column.metric.kind == MetricKind::Histogram { 9 } else { 7 };
    column.labels.iter().for_each(|(name, value)| out.attribute(field, name, value, &mut pair, &mut any));
}

/// `ResourceMetrics.resource` with an identity.
fn resource(resource: &Resource) -> Writer {
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
    field
}

/// `ScopeMetrics.scope`.
fn scope() -> Vec<u8> {
    let (mut body, mut field) = (Writer::default(), Writer::default());
    body.string(1, SCOPE);
    body.string(2, env!("CARGO_PKG_VERSION"));
    field.message(1, &body);
    field.into_bytes()
}
