//! Reads a queue in windows: samples in the order in which they are sent, and the position of the next window.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fabriclens_core::prompb_histogram::message_of;
use fabriclens_model::names::is_admitted;
use fabriclens_model::{Labels, Layout, RowGroup, histograms_in, is_absent, is_component, present};
use fabriclens_store::log_record::{self, Record};
use prost::Message as _;

use super::queue::{Next, Queue};
use super::request::{self, Point};
use super::segment::HEADER;

/// Bytes of a segment read at a time; larger records are read whole.
const READ: usize = 2 << 20;

/// A part of the queue that is sent before anything after it.
pub(super) struct Window {
    pub(super) segment: u64,
    pub(super) from: u64,
    pub(super) until: u64,
    /// Sorted by series (numbered within the segment), then by time; times are unique within a series.
    pub(super) points: Vec<Point>,
    /// Encoded histograms, by their index in points.
    pub(super) histograms: Vec<Vec<u8>>,
    /// Samples of the queue that the window covers.
    pub(super) samples: u64,
    /// Unreadable bytes in it.
    pub(super) damaged: u64,
    /// Samples whose names are not admitted.
    pub(super) unnamed: u64,
}

impl Window {
    fn empty(segment: u64, from: u64, until: u64) -> Self {
        Self { segment, from, until, points: vec![], histograms: vec![], samples: 0, damaged: 0, unnamed: 0 }
    }
}

/// A series of the queue.
pub(super) struct SeriesToSend {
    /// Encoded labels.
    labels: Arc<[u8]>,
    /// Hash of the host, or else the instance, that it comes from. Refused samples of one cost no others.
    pub(super) sender: u64,
    /// Whether its names are admitted; it may be from a version that did not check.
    admitted: bool,
}

impl AsRef<[u8]> for SeriesToSend {
    fn as_ref(&self) -> &[u8] {
        &self.labels
    }
}

/// Reads one queue from its cursor on.
pub(super) struct Reader {
    queue: Arc<Queue>,
    segment: u64,
    layouts: HashMap<u32, Vec<u32>>,
    /// Column lists of components of histograms, by number.
    histograms: HashMap<u32, Layout>,
    by_labels: HashMap<Arc<[u8]>, u32>,
    /// Series by number.
    pub(super) series: Vec<SeriesToSend>,
    hash: RandomState,
    buffer: Vec<u8>,
    /// Offset of the buffer in the segment.
    base: u64,
}

impl Reader {
    pub(super) fn new(queue: Arc<Queue>) -> Self {
        Self {
            queue,
            segment: 0,
            layouts: HashMap::new(),
            histograms: HashMap::new(),
            by_labels: HashMap::new(),
            series: Vec::new(),
            hash: RandomState::new(),
            buffer: Vec::new(),
            base: 0,
        }
    }

    /// Returns the next window, of at least one record and little more than `samples`; `None` if there is no data
    /// within `timeout`. Errors of the system are temporary.
    pub(super) fn window(&mut self, samples: usize, timeout: Duration) -> io::Result<Option<Window>> {
        let Next::Bytes { segment, from, end, until } = self.queue.next(timeout) else { return Ok(None) };
        if segment != self.segment {
            self.enter(segment, from)?;
        }
        let mut window = Window::empty(segment, from, from);
        let (stop, most) = (until.unwrap_or(end), until.map_or(samples, |_| usize::MAX));
        while window.until < stop && window.points.len() < most {
            self.record(&mut window, stop)?;
        }
        // The first queued sample of a time wins, as in the store.
        window.points.sort_by_key(|p| (p.series, p.time));
        window.points.dedup_by_key(|p| (p.series, p.time));
        let before = window.points.len();
        window.points.retain(|p| self.series[p.series as usize].admitted);
        window.unnamed = (before - window.points.len()) as u64;
        Ok(Some(window))
    }

    /// Enters another segment: column lists before the cursor are needed, their rows are not.
    fn enter(&mut self, segment: u64, from: u64) -> io::Result<()> {
        self.layouts.clear();
        self.histograms.clear();
        self.by_labels.clear();
        self.series.clear();
        (self.buffer, self.base) = (Vec::new(), 0);
        self.segment = 0;
        let number = segment;
        let mut skipped = Window::empty(segment, from, HEADER as u64);
        while skipped.until < from {
            self.segment = number;
            if let Err(e) = self.record(&mut skipped, from) {
                self.segment = 0;
                return Err(e);
            }
            skipped.points.clear();
            skipped.histograms.clear();
        }
        self.segment = number;
        Ok(())
    }

    /// Reads the record at the end of the window, or skips unreadable bytes.
    fn record(&mut self, window: &mut Window, end: u64) -> io::Result<()> {
        let at = self.fill(window, end)?;
        let Some((payload, len)) = log_record::unframe(&self.buffer[at..]) else {
            let left = self.queue.read(window.segment, window.until, (end - window.until) as usize)?;
            let skip = log_record::next(left.get(1..).unwrap_or_default()).map_or(left.len(), |n| n + 1);
            // A crash leaves an unfinished record at the end, which was never acknowledged.
            let last = window.until + skip as u64 >= end;
            window.damaged += if last { 0 } else { skip as u64 };
            window.until += skip as u64;
            return Ok(());
        };
        window.until += len as u64;
        match log_record::decode(payload) {
            Ok(Record::Layout(number, columns)) if columns.first().is_some_and(is_component) => {
                self.histograms.insert(number, columns.into());
            }
            Ok(Record::Rows(number, times, values)) if self.histograms.contains_key(&number) => {
                window.samples += present(&values);
                let group = RowGroup { series: self.histograms[&number].clone(), times, values };
                if group.is_consistent() { self.histograms(&group, window) } else { window.damaged += len as u64 }
            }
            Ok(Record::Layout(number, columns)) => {
                let series = columns.iter().map(|l| self.number(l)).collect();
                self.layouts.insert(number, series);
            }
            Ok(Record::Rows(number, times, values)) => {
                window.samples += present(&values);
                match self.layouts.get(&number) {
                    Some(series) if values.len() == series.len() * times.len() => {
                        let columns = series.iter().zip(values.chunks(times.len().max(1)));
                        window.points.extend(columns.flat_map(|(series, column)| {
                            let present = times.iter().zip(column).filter(|(_, v)| !is_absent(**v));
                            present.map(|(time, value)| Point {
                                series: *series,
                                time: *time,
                                value: *value,
                                histogram: None,
                            })
                        }));
                    }
                    _ => window.damaged += len as u64,
                }
            }
            Err(_) => window.damaged += len as u64,
        }
        Ok(())
    }

    /// Adds the samples of histograms to the window.
    fn histograms(&mut self, group: &RowGroup, window: &mut Window) {
        for (labels, time, histogram) in histograms_in(group) {
            let (series, index) = (self.number(&labels), window.histograms.len() as u32);
            window.histograms.push(message_of(&histogram, time).encode_to_vec());
            window.points.push(Point { series, time, value: 0.0, histogram: Some(index) });
        }
    }

    /// Reads the whole record at the end of the window, as far as it ends before `end`, into the buffer; returns its
    /// position there.
    fn fill(&mut self, window: &Window, end: u64) -> io::Result<usize> {
        let (at, left) = (window.until, (end - window.until) as usize);
        let mut want = log_record::FRAME.min(left);
        loop {
            let have = if at < self.base { 0 } else { (self.base + self.buffer.len() as u64).saturating_sub(at) };
            if have < want as u64 {
                self.buffer = self.queue.read(window.segment, at, want.max(READ).min(left))?;
                self.base = at;
            }
            // The length is known only once the first bytes are read.
            let whole = self.wanted(at).min(left);
            if whole <= want {
                return Ok((at - self.base) as usize);
            }
            want = whole;
        }
    }

    /// Length of the record at this position as its frame says, if the frame is in the buffer.
    fn wanted(&self, at: u64) -> usize {
        let start = at.saturating_sub(self.base) as usize;
        let frame = self.buffer.get(start + 4..start + 8).filter(|_| at >= self.base);
        let len = frame.map_or(0, |f| f.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b)));
        log_record::FRAME + if len <= log_record::MAX_LEN { len } else { 0 }
    }

    fn number(&mut self, labels: &Labels) -> u32 {
        let key: Arc<[u8]> = request::labels(labels).into();
        let next = self.series.len() as u32;
        *self.by_labels.entry(key.clone()).or_insert_with(|| {
            let sender = [labels.get("host"), labels.get("instance")].into_iter().find(|name| !name.is_empty());
            let (sender, admitted) = (self.hash.hash_one(sender), is_admitted(labels));
            self.series.push(SeriesToSend { labels: key, sender, admitted });
            next
        })
    }
}
