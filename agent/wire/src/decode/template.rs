//! What does not change between two requests of one sender: everything but times and values, which protobuf writes as
//! eight bytes wherever they are. A template is the bytes of a scope's metrics with these words marked; what matches one
//! is not parsed, its points are read from where the words are.
//!
//! Templates belong to all senders whose metrics and attributes are the same (the ports of a fleet), and for each
//! resource a plan says which series its points are.

use super::group::Sink;
use super::{DecodeError, Labels};
use crate::proto::{Field, Reader, le64};
use foldhash::HashMap;
use std::sync::Arc;

/// Templates beyond which all are forgotten: senders that never say the same twice must not fill memory.
const TEMPLATES: usize = 512;
/// Bytes of a template at most.
const BYTES: usize = 1 << 18;
/// Sights of a shape by one resource that are remembered.
const SIGHTS: usize = 1 << 16;

/// Where a point is in the bytes.
#[derive(Clone, Copy)]
struct Point {
    time: u32,
    value: u32,
    /// A `sfixed64`, not a `double`.
    whole: bool,
}

struct Template {
    bytes: Box<[u8]>,
    /// Begins of the words that change, ascending.
    words: Vec<u32>,
    points: Vec<Point>,
}

/// The series of a resource's points, as a sink numbers them.
struct Plan {
    labels: Arc<[Labels]>,
    series: Vec<u32>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Templates {
    all: Vec<Template>,
    by_length: HashMap<usize, Vec<u32>>,
    /// By resource and template.
    plans: HashMap<(u32, u32), Plan>,
    labels: usize,
    /// What was seen, by resource and length, and whether a template is made when it comes again: the second time, unless
    /// there is none of such a scope.
    sights: HashMap<(u32, usize), bool>,
}

impl Templates {
    /// Whether there is more than `limit` of label sets.
    pub(super) fn exceed(&self, limit: usize) -> bool {
        self.labels > limit
    }

    /// Puts the points of a scope into an empty sink, if a template fits and all of them can be taken; says how many
    /// there were.
    pub(super) fn read(&self, resource: u32, scope: &[u8], room: usize, sink: &mut Sink) -> Option<usize> {
        let number = self.find(scope)?;
        let (template, plan) = (&self.all[number as usize], self.plans.get(&(resource, number))?);
        let word = |at: u32| le64(&scope[at as usize..at as usize + 8]);
        if template.points.len() > room || template.points.iter().any(|p| word(p.time) == 0) {
            return None;
        }
        sink.begin(&plan.labels);
        for (point, series) in template.points.iter().zip(&plan.series) {
            let bits = word(point.value);
            let value = if point.whole { bits.cast_signed() as f64 } else { f64::from_bits(bits) };
            sink.push(*series, (word(point.time) / 1_000_000) as i64, value);
        }
        Some(template.points.len())
    }

    /// Learns from a scope that was read point by point into `sink`, none refused. The second time makes a template.
    pub(super) fn learn(&mut self, resource: u32, scope: &[u8], sink: &Sink) -> Result<(), DecodeError> {
        if self.sights.len() > SIGHTS {
            self.sights.clear();
        }
        let sight = (resource, scope.len());
        match self.sights.get(&sight) {
            Some(true) => {}
            Some(false) => return Ok(()),
            None => {
                self.sights.insert(sight, scope.len() <= BYTES);
                return Ok(());
            }
        }
        let number = match self.find(scope) {
            Some(number) => number,
            None => {
                let Some(template) = Template::of(scope)? else {
                    self.sights.insert(sight, false);
                    return Ok(());
                };
                if self.all.len() >= TEMPLATES {
                    *self = Self::default();
                }
                let number = self.all.len() as u32;
                self.by_length.entry(scope.len()).or_default().push(number);
                self.all.push(template);
                number
            }
        };
        let series: Vec<u32> = sink.series_of_points().collect();
        if series.len() == self.all[number as usize].points.len() {
            let labels = sink.labels();
            self.labels += labels.len();
            self.plans.insert((resource, number), Plan { labels, series });
        }
        Ok(())
    }

    fn find(&self, scope: &[u8]) -> Option<u32> {
        self.by_length.get(&scope.len())?.iter().copied().find(|number| self.all[*number as usize].fits(scope))
    }
}

impl Template {
    /// Whether all but the words is the same.
    fn fits(&self, scope: &[u8]) -> bool {
        let mut from = 0;
        self.words.iter().chain([&(self.bytes.len() as u32)]).all(|word| {
            let same = self.bytes[from..*word as usize] == scope[from..*word as usize];
            from = *word as usize + 8;
            same
        })
    }

    /// Of a scope that holds numbers only, each with a time and a value; `None` for any other.
    fn of(scope: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut template = Self { bytes: scope.into(), words: Vec::new(), points: Vec::new() };
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
        template.words.sort_unstable();
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
                (2, Field::Fixed64(_)) => self.words.push(word - 8),
                (3, Field::Fixed64(_)) if time.is_none() => time = Some(word - 8),
                (4 | 6, Field::Fixed64(_)) if value.is_none() => value = Some((word - 8, field.0 == 6)),
                // Attributes; the rest is rare, and read point by point.
                (7, Field::Bytes(_)) => {}
                _ => return Ok(false),
            }
        }
        let (Some(time), Some((value, whole))) = (time, value) else { return Ok(false) };
        self.words.extend([time, value]);
        self.points.push(Point { time, value, whole });
        Ok(true)
    }
}
