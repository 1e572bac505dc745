//! Fast path for repeated requests: between two requests of one sender only times and values change, which protobuf
//! encodes in eight bytes at fixed offsets. A template is the encoded metrics of a scope with these words masked. A
//! scope that matches a template is not parsed; its points are read at the known offsets.
//!
//! Templates are shared by all senders with the same metrics and attributes (the ports of a fleet). For each resource,
//! a plan maps points to series.

use super::group::{Sink, point_value};
use crate::proto::{DecodeError, Field, Reader, le64};
use fabriclens_rows::{Labels, Layout, LayoutInterner, Pair, RowGroup};
use foldhash::HashMap;

/// Maximum templates, after which all are dropped: senders that never repeat themselves must not fill memory.
const TEMPLATES: usize = 512;
/// Maximum bytes of a template, and of all templates before all are dropped.
const BYTES: usize = 1 << 18;
const BYTES_OF_ALL: usize = 32 << 20;
/// Minimum points of a template. Scopes with fewer points hold info metrics, whose labels differ by resource: a template for each
/// resource would evict the templates of counters, which thousands of resources share.
const POINTS: usize = 4;
/// Maximum scope lengths tracked per resource.
const SHAPES: usize = 64;

/// Offsets of a point in the scope.
#[derive(Clone, Copy)]
struct Point {
    time: u32,
    value: u32,
    /// A `sfixed64` instead of a `double`.
    whole: bool,
}

struct Template {
    /// Mask of all bits that are constant.
    mask: Box<[u8]>,
    /// Values of the constant bits; the others are 0.
    fixed: Box<[u8]>,
    points: Vec<Point>,
}

/// Maps the points of a scope to the series of a resource.
struct Plan {
    /// Columns as numbered by the sink; the resource's `target_info`, if any, is the last.
    layout: Layout,
    /// Series index by point.
    series: Vec<u32>,
    info: bool,
    /// Each series has one point, in order.
    plain: bool,
}

/// Plans of one resource.
#[derive(Default)]
pub(super) struct Plans {
    by_template: HashMap<u32, Plan>,
    /// Scope lengths seen so far, and whether a template is made at the next occurrence: the second time, unless no
    /// template is possible.
    seen_lengths: HashMap<usize, bool>,
}

impl Plans {
    /// Approximate bytes of all plans with the label sets that they name.
    pub(super) fn bytes(&self) -> usize {
        let of_labels = |labels: &Labels| size_of::<Labels>() + size_of::<u32>() + labels.len() * size_of::<Pair>();
        let of_plan = |plan: &Plan| size_of::<Plan>() + plan.layout.iter().map(of_labels).sum::<usize>();
        self.by_template.values().map(of_plan).sum()
    }
}

/// All templates of a decoder.
#[derive(Default)]
pub(super) struct Templates {
    all: Vec<Template>,
    /// Number of the first template; earlier ones were dropped.
    first: u32,
    /// Bytes of all templates.
    bytes: usize,
    by_length: HashMap<usize, Vec<u32>>,
}

impl Templates {
    /// Appends the groups of a scope if a template matches and all its points are valid; returns the number of points.
    pub(super) fn read(
        &self,
        plans: &Plans,
        scope: &[u8],
        room: usize,
        out: &mut Vec<RowGroup>,
        layouts: &mut LayoutInterner,
    ) -> Option<usize> {
        let number = self.find(scope)?;
        let (template, plan) = (self.get(number), plans.by_template.get(&number)?);
        let word = |at: u32| le64(&scope[at as usize..at as usize + 8]);
        if template.points.len() > room || template.points.iter().any(|p| word(p.time) == 0) {
            return None;
        }
        let time = |p: &Point| (word(p.time) / 1_000_000) as i64;
        let value = |p: &Point| match (word(p.value), p.whole) {
            (bits, true) => bits.cast_signed() as f64,
            (bits, false) => point_value(f64::from_bits(bits)),
        };
        let points = &template.points;
        let latest = points.iter().map(time).max()?;
        if plan.plain && points.iter().all(|p| time(p) == latest) {
            let values = points.iter().map(value).chain(plan.info.then_some(1.0)).collect();
            out.push(RowGroup { series: plan.layout.clone(), times: vec![latest], values });
            return Some(points.len());
        }
        let mut sink = Sink::default();
        sink.begin(&plan.layout);
        for (point, series) in points.iter().zip(&plan.series) {
            sink.push(*series, time(point), value(point));
        }
        if plan.info {
            sink.push(plan.layout.len() as u32 - 1, latest, 1.0);
        }
        sink.finish(layouts, out);
        Some(points.len())
    }

    /// Learns from a scope that was decoded point by point into `sink` without rejections. The second occurrence makes
    /// a template.
    pub(super) fn learn(
        &mut self,
        plans: &mut Plans,
        scope: &[u8],
        sink: &Sink,
        info: Option<Labels>,
        layouts: &mut LayoutInterner,
    ) {
        if plans.seen_lengths.len() >= SHAPES {
            plans.seen_lengths.clear();
        }
        match plans.seen_lengths.get(&scope.len()) {
            Some(true) => {}
            Some(false) => return,
            None => {
                let large_enough = sink.series_of_points().nth(POINTS - 1).is_some();
                plans.seen_lengths.insert(scope.len(), large_enough && scope.len() <= BYTES);
                return;
            }
        }
        let number = match self.find(scope) {
            Some(number) => number,
            None => {
                // This reads everything; decoding point by point skips data that later fields replace.
                let Ok(Some(template)) = Template::of(scope) else {
                    plans.seen_lengths.insert(scope.len(), false);
                    return;
                };
                if self.all.len() >= TEMPLATES || self.bytes >= BYTES_OF_ALL {
                    *self = Self { first: self.first + self.all.len() as u32, ..Self::default() };
                }
                let number = self.first + self.all.len() as u32;
                self.by_length.entry(scope.len()).or_default().push(number);
                self.all.push(template);
                self.bytes += scope.len();
                number
            }
        };
        let series: Vec<u32> = sink.series_of_points().collect();
        if series.len() == self.get(number).points.len() {
            plans.by_template.retain(|number, _| *number >= self.first);
            if plans.by_template.len() >= SHAPES {
                plans.by_template.clear();
            }
            let plain = series.iter().copied().eq(0..sink.labels().len() as u32);
            let info_too = info.is_some();
            let layout = layouts.intern(sink.labels().iter().cloned().chain(info).collect());
            plans.by_template.insert(number, Plan { layout, series, info: info_too, plain });
        }
    }

    /// Templates since the start, dropped ones too.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.first as usize + self.all.len()
    }

    fn get(&self, number: u32) -> &Template {
        &self.all[(number - self.first) as usize]
    }

    fn find(&self, scope: &[u8]) -> Option<u32> {
        self.by_length.get(&scope.len())?.iter().copied().find(|number| self.get(*number).fits(scope))
    }
}

impl Template {
    /// Whether all constant bits match. Compares in blocks without branches, so that the compiler vectorizes it.
    fn fits(&self, scope: &[u8]) -> bool {
        const BLOCK: usize = 256;
        let mut parts = self.fixed.chunks(BLOCK).zip(self.mask.chunks(BLOCK)).zip(scope.chunks(BLOCK));
        scope.len() == self.fixed.len()
            && parts.all(|((fixed, mask), bytes)| {
                let bytes = fixed.iter().zip(mask).zip(bytes);
                bytes.fold(0, |differ, ((fixed, mask), byte)| differ | (byte & mask) ^ fixed) == 0
            })
    }

    /// Builds a template from a scope that contains only numbers, each with a time and a value; `None` for any other.
    fn of(scope: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut template = Self { mask: vec![0xff; scope.len()].into(), fixed: scope.into(), points: Vec::new() };
        // All slices are parts of the scope, so the distance of their starts is their offset.
        let end_of = |rest: &[u8]| rest.as_ptr() as usize - scope.as_ptr() as usize;
        for field in Reader::new(scope) {
            let (2, Field::Bytes(metric)) = field? else { continue };
            for field in Reader::new(metric) {
                let body = match field? {
                    (5 | 7, Field::Bytes(body)) => body,
                    (9..=11, _) => return Ok(None),
                    _ => continue,
                };
                for field in Reader::new(body) {
                    let (1, Field::Bytes(point)) = field? else { continue };
                    if !template.point(point, end_of)? {
                        return Ok(None);
                    }
                }
            }
        }
        template.fixed.iter_mut().zip(&template.mask).for_each(|(fixed, mask)| *fixed &= mask);
        Ok(Some(template))
    }

    /// Adds a point; returns false if it is not a single plain number.
    fn point(&mut self, body: &[u8], end_of: impl Fn(&[u8]) -> usize) -> Result<bool, DecodeError> {
        let (mut time, mut value) = (None, None);
        let mut reader = Reader::new(body);
        while let Some(field) = reader.next() {
            let field = field?;
            let word = end_of(reader.rest()) as u32;
            match field {
                (2, Field::Fixed64(_)) => self.changes(word - 8),
                (3, Field::Fixed64(_)) if time.is_none() => time = Some(word - 8),
                (4 | 6, Field::Fixed64(_)) if value.is_none() => value = Some((word - 8, field.0 == 6)),
                // Attributes; other fields are rare and decoded point by point.
                (7, Field::Bytes(_)) => {}
                _ => return Ok(false),
            }
        }
        let (Some(time), Some((value, whole))) = (time, value) else { return Ok(false) };
        self.changes(time);
        self.changes(value);
        self.points.push(Point { time, value, whole });
        Ok(true)
    }

    fn changes(&mut self, word: u32) {
        self.mask[word as usize..word as usize + 8].fill(0);
    }
}
