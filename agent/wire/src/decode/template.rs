//! What does not change between two requests of one sender: everything but times and values, which protobuf writes as
//! eight bytes wherever they are. A template is the bytes of a scope's metrics with these words masked; what matches one
//! is not parsed, its points are read from where the words are.
//!
//! Templates belong to all senders whose metrics and attributes are the same (the ports of a fleet), and for each
//! resource a plan says which series its points are.

use super::group::{Sink, point_value};
use super::{DecodeError, Group, Labels};
use crate::proto::{Field, Reader, le64};
use foldhash::HashMap;
use std::sync::Arc;

/// Templates beyond which all are forgotten: senders that never say the same twice must not fill memory.
const TEMPLATES: usize = 512;
/// Bytes of a template at most, and of all before all are forgotten.
const BYTES: usize = 1 << 18;
const BYTES_OF_ALL: usize = 32 << 20;
/// Shapes of one resource that are remembered.
const SHAPES: usize = 64;

/// Where a point is in the bytes.
#[derive(Clone, Copy)]
struct Point {
    time: u32,
    value: u32,
    /// A `sfixed64`, not a `double`.
    whole: bool,
}

struct Template {
    /// All bits that do not change.
    mask: Box<[u8]>,
    /// What they are; the others are 0.
    fixed: Box<[u8]>,
    points: Vec<Point>,
}

/// The series of a resource's points.
struct Plan {
    /// As a sink numbers them; the resource's `target_info`, if it has one, is the last.
    labels: Arc<[Labels]>,
    /// By point.
    series: Vec<u32>,
    info: bool,
    /// Each series has one point, in order.
    plain: bool,
}

/// What is known of one resource.
#[derive(Default)]
pub(super) struct Plans {
    by_template: HashMap<u32, Plan>,
    /// What was seen, by length, and whether a template is made when it comes again: the second time, unless there is none
    /// of such a scope.
    sights: HashMap<usize, bool>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Templates {
    all: Vec<Template>,
    /// Number of the first of them: those before it were forgotten.
    first: u32,
    /// Of all scopes.
    bytes: usize,
    by_length: HashMap<usize, Vec<u32>>,
}

impl Templates {
    /// Appends the groups of a scope, if a template fits and all of its points can be taken; says how many there were.
    pub(super) fn read(&self, plans: &Plans, scope: &[u8], room: usize, out: &mut Vec<Group>) -> Option<usize> {
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
            out.push(Group { series: plan.labels.clone(), times_ms: vec![latest], values });
            return Some(points.len());
        }
        let mut sink = Sink::default();
        sink.begin(&plan.labels);
        for (point, series) in points.iter().zip(&plan.series) {
            sink.push(*series, time(point), value(point));
        }
        if plan.info {
            sink.push(plan.labels.len() as u32 - 1, latest, 1.0);
        }
        sink.finish(out);
        Some(points.len())
    }

    /// Learns from a scope that was read point by point into `sink`, none refused. The second time makes a template.
    pub(super) fn learn(&mut self, plans: &mut Plans, scope: &[u8], sink: &Sink, info: Option<Labels>) {
        if plans.sights.len() >= SHAPES {
            plans.sights.clear();
        }
        match plans.sights.get(&scope.len()) {
            Some(true) => {}
            Some(false) => return,
            None => {
                plans.sights.insert(scope.len(), scope.len() <= BYTES);
                return;
            }
        }
        let number = match self.find(scope) {
            Some(number) => number,
            None => {
                // It looks at all there is; who reads point by point passes over data that other data replace.
                let Ok(Some(template)) = Template::of(scope) else {
                    plans.sights.insert(scope.len(), false);
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
            let labels: Arc<[Labels]> = sink.labels().iter().cloned().chain(info).collect();
            plans.by_template.insert(number, Plan { labels, series, info: info_too, plain });
        }
    }

    fn get(&self, number: u32) -> &Template {
        &self.all[(number - self.first) as usize]
    }

    fn find(&self, scope: &[u8]) -> Option<u32> {
        self.by_length.get(&scope.len())?.iter().copied().find(|number| self.get(*number).fits(scope))
    }
}

impl Template {
    /// Whether all but the words is the same. In stretches without branches, which become vectors.
    fn fits(&self, scope: &[u8]) -> bool {
        const STRETCH: usize = 256;
        let mut parts = self.fixed.chunks(STRETCH).zip(self.mask.chunks(STRETCH)).zip(scope.chunks(STRETCH));
        scope.len() == self.fixed.len()
            && parts.all(|((fixed, mask), bytes)| {
                let bytes = fixed.iter().zip(mask).zip(bytes);
                bytes.fold(0, |differ, ((fixed, mask), byte)| differ | (byte & mask) ^ fixed) == 0
            })
    }

    /// Of a scope that holds numbers only, each with a time and a value; `None` for any other.
    fn of(scope: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut template = Self { mask: vec![0xff; scope.len()].into(), fixed: scope.into(), points: Vec::new() };
        // All slices are parts of the scope: the distance of their ends is where they are.
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

    /// Adds a point; false when it is not one plain number.
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
                // Attributes; the rest is rare, and read point by point.
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
