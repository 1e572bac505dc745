//! Caches of a decoder: metrics, and label sets by resource, keyed by their encoded bytes. The entries of a resource
//! are dropped when it is idle.

use super::attributes::{self, Identity};
use super::limits::{Limits, cut};
use super::names::{self, Shape};
use super::rows::Meta;
use super::template::Plans;
use crate::proto::{DecodeError, text};
use fabriclens_rows::{Labels, SharedLabels};
use foldhash::HashMap;
use std::sync::Arc;

/// Maximum encoded bytes of a resource.
const RESOURCE: usize = 64 << 10;
/// Approximate bytes of a cache entry without its key, and of each label of a series: two texts and their place in the table.
const ENTRY: usize = 256;
const LABEL: usize = 32;
/// Requests that a template reads until label sets are looked through.
const SETTLED: u8 = 8;
const TOO_MUCH: &str = "the request has too many new names and attributes; send smaller requests";

/// Caches keyed by encoded bytes, so that no hash collision can join two series.
#[derive(Default)]
pub(super) struct Cache {
    numbers: HashMap<Arc<[u8]>, u32>,
    /// By resource number.
    resources: Vec<Resource>,
    /// Unused resource numbers.
    free: Vec<u32>,
    metrics: HashMap<Box<[u8]>, u32>,
    names: Vec<Name>,
    shared: SharedLabels,
    /// Number of label sets of all resources.
    series: usize,
    /// Bytes of all entries.
    bytes: usize,
    /// Bytes and number of metric names at the start of the request.
    before: (usize, usize),
    /// Bytes that this request may add.
    room: usize,
    /// Resources that got entries by this request.
    new: Vec<u32>,
    /// Number of idle sweeps so far.
    round: u32,
    /// The last sink that got series.
    newest_sink: u64,
    key: Vec<u8>,
    /// Key, sink and index of the previous series: several ticks of a series are adjacent.
    last: (Vec<u8>, u64, u32),
}

/// Cached state of a resource.
#[derive(Default)]
struct Resource {
    /// Encoded.
    key: Arc<[u8]>,
    identity: Identity,
    series: HashMap<Box<[u8]>, Cached>,
    plans: Plans,
    /// Requests that a template read since its label sets were looked through, and the newest sink at that time.
    by_template: u8,
    needed_after: u64,
    /// The sweep in which it was last used.
    round: u32,
    /// Bytes of its entries.
    bytes: usize,
}

/// Prometheus name of a metric; `Err` is the reason if it has none.
struct Name {
    prometheus: Result<String, String>,
}

/// A label set, and its index in the sink that used it last.
struct Cached {
    labels: Labels,
    sink: u64,
    index: u32,
}

/// A part of a histogram or summary, or a plain number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part {
    Whole,
    Bucket(f64),
    Quantile(f64),
    Sum,
    Count,
}

/// Approximate bytes of a label set with its key.
fn entry_bytes(key: usize, labels: usize) -> usize {
    key + ENTRY + LABEL * labels
}

impl Cache {
    /// Starts a request: drops all caches if a limit is exceeded.
    pub(super) fn begin(&mut self, limits: &Limits, allowance: usize) {
        let entries = self.series.max(self.names.len()).max(self.resources.len());
        if entries > limits.cached_series || self.bytes > allowance {
            *self = Self::default();
        }
        self.before = (self.bytes, self.names.len());
        self.room = (allowance / 2).min(limits.new_bytes);
        self.new.clear();
    }

    /// Number of label sets of all resources.
    #[cfg(test)]
    pub(super) fn label_sets(&self) -> usize {
        self.series
    }

    /// Bytes of all entries.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Resources that got entries by the last request.
    pub(super) fn take_new(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.new)
    }

    /// Forgets resources; returns the bytes of their entries.
    pub(super) fn forget(&mut self, resources: &[u32]) -> usize {
        let before = self.bytes;
        for number in resources {
            let Some(resource) = self.resources.get_mut(*number as usize) else { continue };
            // A number may be free already, or belong to another resource by now, which is only decoded again.
            if self.numbers.get(&resource.key) != Some(number) {
                continue;
            }
            let Resource { key, series, bytes, .. } = std::mem::take(resource);
            self.numbers.remove(&key);
            self.series -= series.len();
            self.bytes -= bytes;
            self.free.push(*number);
        }
        before - self.bytes
    }

    /// Forgets the metrics that were new in the last request; the resources that it changed must be forgotten, too.
    pub(super) fn forget_new(&mut self) {
        let first = self.before.1;
        if self.names.len() > first {
            let bytes = &mut self.bytes;
            self.metrics.retain(|key, id| {
                let known = (*id as usize) < first;
                *bytes -= if known { 0 } else { key.len() + ENTRY };
                known
            });
            // Only series of the new resources, which are forgotten with them, refer to these names.
            self.names.truncate(first);
        }
    }

    /// Whether one request may add an entry of this many bytes. A request can create far more cache entries than its
    /// size, such as a histogram, whose buckets repeat all attributes.
    fn takes(&self, bytes: usize) -> bool {
        self.bytes - self.before.0 + bytes <= self.room
    }

    /// Counts a request that a template read. After many, drops the label sets of the resource that no other request has needed
    /// since: its plans have what they need, and the table of label sets takes more than all else that is kept of a series.
    pub(super) fn read_by_template(&mut self, resource: u32) {
        let of = &mut self.resources[resource as usize];
        of.by_template += 1;
        if of.by_template < SETTLED {
            return;
        }
        of.by_template = 0;
        let (since, known) = (std::mem::replace(&mut of.needed_after, self.newest_sink), of.series.len());
        of.series.retain(|_, cached| cached.sink > since);
        if of.series.len() == known {
            return;
        }
        of.series.shrink_to_fit();
        let entries = of.series.iter().map(|(key, cached)| entry_bytes(key.len(), cached.labels.len()));
        let bytes = of.key.len() + ENTRY + of.plans.bytes() + entries.sum::<usize>();
        self.series -= known - of.series.len();
        let dropped = of.bytes.saturating_sub(bytes);
        of.bytes -= dropped;
        self.bytes -= dropped;
        // What this request may add does not change.
        self.before.0 = self.before.0.saturating_sub(dropped);
    }

    /// Drops resources without a request since the previous call.
    pub(super) fn forget_idle(&mut self) {
        let Self { numbers, resources, free, series, bytes, round, .. } = self;
        numbers.retain(|_, number| {
            let resource = &mut resources[*number as usize];
            let idle = resource.round != *round;
            if idle {
                *series -= resource.series.len();
                *bytes -= resource.bytes;
                *resource = Resource::default();
                free.push(*number);
            }
            !idle
        });
        numbers.shrink_to(2 * numbers.len());
        *round += 1;
    }

    /// Drops texts and lists that no label set uses any more.
    pub(super) fn forget_unused_texts(&mut self) {
        self.shared.forget_unused();
    }

    /// Number of a resource. The inner error is the reason for a rejection.
    pub(super) fn resource(&mut self, body: &[u8], limits: &Limits) -> Result<Result<u32, String>, DecodeError> {
        if let Some(number) = self.numbers.get(body) {
            self.resources[*number as usize].round = self.round;
            return Ok(Ok(*number));
        }
        if body.len() > RESOURCE {
            return Ok(Err(format!("its resource is larger than {RESOURCE} bytes; drop attributes of it")));
        }
        let bytes = body.len() + ENTRY;
        if !self.takes(bytes) {
            return Ok(Err(TOO_MUCH.to_owned()));
        }
        let identity = attributes::resource(body, limits, &mut self.shared)?;
        let number = self.free.pop().unwrap_or(self.resources.len() as u32);
        if number as usize == self.resources.len() {
            self.resources.push(Resource::default());
        }
        let key: Arc<[u8]> = body.into();
        self.resources[number as usize] =
            Resource { key: key.clone(), identity, round: self.round, bytes, ..Resource::default() };
        self.bytes += bytes;
        self.numbers.insert(key, number);
        self.new.push(number);
        Ok(Ok(number))
    }

    /// Labels of the resource's `target_info`.
    pub(super) fn info(&self, resource: u32) -> Option<Labels> {
        self.resources[resource as usize].identity.info.clone()
    }

    /// Templates of a resource.
    pub(super) fn plans(&mut self, resource: u32) -> &mut Plans {
        &mut self.resources[resource as usize].plans
    }

    /// Number of a metric, identified by name, unit and description; its metadata are added to `new` if it was
    /// unknown. The inner error is the reason for a rejection.
    pub(super) fn metric(
        &mut self,
        mut fields: [&[u8]; 3],
        shape: Shape,
        kind: &'static str,
        limits: &Limits,
        new: &mut Vec<Meta>,
    ) -> Result<Result<u32, String>, DecodeError> {
        let most = limits.label_bytes;
        if fields[0].len().max(fields[1].len()) > most {
            return Ok(Err(format!("its name or unit is longer than {most} bytes")));
        }
        if fields[2].len() > most {
            fields[2] = cut(text(fields[2])?, most).as_bytes();
        }
        self.key.clear();
        self.key.push(shape as u8);
        self.key.extend_from_slice(kind.as_bytes());
        for f in fields {
            self.key.extend_from_slice(&(f.len() as u32).to_le_bytes());
            self.key.extend_from_slice(f);
        }
        if let Some(id) = self.metrics.get(self.key.as_slice()) {
            return Ok(Ok(*id));
        }
        let bytes = self.key.len() + ENTRY;
        if !self.takes(bytes) {
            return Ok(Err(TOO_MUCH.to_owned()));
        }
        let [name, unit, help] = [text(fields[0])?, text(fields[1])?, text(fields[2])?];
        let prometheus = names::metric(name, unit, shape);
        let prometheus = if prometheus.is_empty() {
            Err("its name has no character that Prometheus allows".to_owned())
        } else {
            new.push(Meta { name: prometheus.clone(), kind, unit: unit.to_owned(), help: help.to_owned() });
            Ok(prometheus)
        };
        let id = self.names.len() as u32;
        self.names.push(Name { prometheus });
        self.metrics.insert(self.key.as_slice().into(), id);
        self.bytes += bytes;
        Ok(Ok(id))
    }

    /// Index in `sink` of the series with these attributes. The inner error names the limit it exceeds.
    pub(super) fn series(
        &mut self,
        resource: u32,
        metric: u32,
        part: Part,
        attributes: &[&[u8]],
        limits: &Limits,
        sink: &mut super::group::Sink,
    ) -> Result<Result<u32, String>, DecodeError> {
        let (tag, value) = match part {
            Part::Whole => (0, 0.0),
            Part::Bucket(v) => (1, v),
            Part::Quantile(v) => (2, v),
            Part::Sum => (3, 0.0),
            Part::Count => (4, 0.0),
        };
        self.key.clear();
        self.key.extend_from_slice(&metric.to_le_bytes());
        self.key.push(tag);
        self.key.extend_from_slice(&value.to_bits().to_le_bytes());
        for a in attributes {
            self.key.extend_from_slice(&(a.len() as u32).to_le_bytes());
            self.key.extend_from_slice(a);
        }
        if self.last.1 == sink.id() && self.last.0 == self.key {
            return Ok(Ok(self.last.2));
        }
        let of = &mut self.resources[resource as usize];
        self.newest_sink = sink.id();
        if let Some(c) = of.series.get_mut(self.key.as_slice()) {
            if c.sink != sink.id() {
                c.sink = sink.id();
                c.index = sink.series(c.labels.clone());
            }
            let index = c.index;
            self.remember(sink.id(), index);
            return Ok(Ok(index));
        }
        let labels = of.identity.labels.len() + attributes.len() + 2;
        let bytes = entry_bytes(self.key.len(), labels);
        if !self.takes(bytes) {
            return Ok(Err(TOO_MUCH.to_owned()));
        }
        let of = &mut self.resources[resource as usize];
        let name = match &self.names[metric as usize].prometheus {
            Ok(name) => name,
            Err(why) => return Ok(Err(why.clone())),
        };
        let (suffix, label) = match part {
            Part::Whole => ("", None),
            Part::Bucket(v) => ("_bucket", Some(("le", v))),
            Part::Quantile(v) => ("", Some(("quantile", v))),
            Part::Sum => ("_sum", None),
            Part::Count => ("_count", None),
        };
        let full = format!("{name}{suffix}");
        let labels = match attributes::series(attributes, &of.identity, &full, label, limits, &mut self.shared)? {
            Ok(labels) => labels,
            Err(why) => return Ok(Err(why)),
        };
        let index = sink.series(labels.clone());
        self.series += 1;
        self.bytes += bytes;
        if self.new.last() != Some(&resource) {
            self.new.push(resource);
        }
        of.bytes += bytes;
        of.series.insert(self.key.as_slice().into(), Cached { labels, sink: sink.id(), index });
        self.remember(sink.id(), index);
        Ok(Ok(index))
    }

    fn remember(&mut self, sink: u64, index: u32) {
        std::mem::swap(&mut self.last.0, &mut self.key);
        (self.last.1, self.last.2) = (sink, index);
    }
}
