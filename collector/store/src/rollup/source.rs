//! The rollups of one block as a source for a block build. Each column is computed when it is requested.

use super::kind::{ALL, LABEL, RESOLUTION, interval_start, name};
use crate::block::index::ColumnLocation;
use crate::block::label_table::LabelPair;
use crate::block::read::Block;
use crate::block::reader::{BUILD_PAGES, Reader};
use crate::block::series_list::SeriesList;
use crate::error::StoreError;
use crate::positions::first_not_before;
use fabriclens_model::names::COMPONENT;
use fabriclens_model::{Component, Rollup, is_absent, is_stale};
use foldhash::{HashMap, HashMapExt as _};
use std::sync::Arc;

/// Rollups computed from the samples of a block.
pub struct RollupSource {
    reader: Reader,
    series: Arc<SeriesList>,
    /// Texts of the block, [`LABEL`], and the names of [`ALL`].
    texts: Vec<Arc<str>>,
    /// Series index in the block and kind, in label order.
    order: Vec<(u32, Rollup)>,
    /// By series index: all kinds of a series are requested, with those of neighboring series in between.
    known: HashMap<u32, Arc<Buckets>>,
    /// The label of components of histograms and the value of the one that counts samples, if the block has any.
    component: Option<LabelPair>,
    /// By index of the series that counts the samples of a histogram: time of the last one, by end of the interval.
    last_histograms: HashMap<u32, Arc<HashMap<i64, i64>>>,
}

/// Series whose buckets are cached; a window of a day is 70 kB each.
const MAX_CACHED: usize = 256;

/// Buckets by row of [`RollupSource::times`], and how often a sample was below the previous one.
type Buckets = (Vec<Option<Bucket>>, usize);

/// Aggregates of the samples in one interval; staleness markers affect `last` only.
struct Bucket {
    min: f64,
    max: f64,
    sum: f64,
    samples: f64,
    last: f64,
    increase: f64,
}

/// No samples yet. Minimum and maximum of no numbers is NaN.
const EMPTY: Bucket = Bucket { min: f64::NAN, max: f64::NAN, sum: 0.0, samples: 0.0, last: f64::NAN, increase: 0.0 };

/// A counter falls only at a reset, a gauge about as often as it rises: with at least this many samples per fall the
/// series is a counter.
const COUNTER: usize = 8;

impl RollupSource {
    /// Rollups of all series of a block.
    pub fn of(block: &Arc<Block>) -> Result<Self, StoreError> {
        let index = block.index()?;
        let (series, reader) = (block.all_series(&index)?, Reader::new(block.clone(), index.clone(), BUILD_PAGES));
        let own = [LABEL].into_iter().chain(ALL.map(name)).map(Arc::from);
        let texts: Vec<Arc<str>> = index.tables.texts.iter().cloned().chain(own).collect();
        let all = |series: std::ops::Range<usize>| ALL.iter().flat_map(move |r| series.clone().map(|s| (s as u32, *r)));
        let (order, neighbors) = match series.metrics() {
            Some(metrics) => (metrics.into_iter().flat_map(all).collect(), true),
            None => (all(0..series.len()).collect(), false),
        };
        let component = index.tables.number(COMPONENT).zip(index.tables.number(Component::COUNT));
        let mut source =
            Self { reader, series, texts, order, known: HashMap::new(), component, last_histograms: HashMap::new() };
        if !neighbors {
            let mut order = std::mem::take(&mut source.order);
            order.sort_by_cached_key(|of| {
                let mut pairs = Vec::new();
                source.labels_of(*of, &mut pairs);
                let text = |t: u32| source.texts[t as usize].clone();
                pairs.into_iter().map(|(n, v)| (text(n), text(v))).collect::<Vec<_>>()
            });
            source.order = order;
        }
        Ok(source)
    }

    /// Number of rollup series.
    pub fn series(&self) -> usize {
        self.order.len()
    }

    /// Label texts.
    pub fn texts(&self) -> &[Arc<str>] {
        &self.texts
    }

    /// Appends the labels of the n-th rollup series.
    pub fn labels(&self, n: usize, out: &mut Vec<LabelPair>) {
        self.labels_of(self.order[n], out);
    }

    fn labels_of(&self, (series, rollup): (u32, Rollup), out: &mut Vec<LabelPair>) {
        let own = self.texts.len() - ALL.len() - 1;
        let which = ALL.iter().position(|r| *r == rollup).unwrap_or(0);
        let pairs = self.series.pairs_of(series as usize);
        let before = pairs.partition_point(|(name, _)| *self.texts[*name as usize] < *LABEL);
        out.extend(&pairs[..before]);
        out.push((own as u32, (own + 1 + which) as u32));
        out.extend(&pairs[before..]);
    }

    /// Location of the column of the n-th rollup series.
    pub fn location(&self, n: usize) -> ColumnLocation {
        (self.series.columns().layout(self.order[n].0 as usize) as u32, n as u32)
    }

    /// Ends of the intervals in which a layout has rows.
    pub fn times(&mut self, layout: u32) -> Result<Arc<[i64]>, StoreError> {
        self.reader.forget_times();
        let mut ends = Vec::new();
        for chunk in 0..self.reader.index.tables.layouts[layout as usize].len() {
            for time in self.reader.times(layout as usize, chunk)?.iter() {
                let end = interval_start(*time).saturating_add(RESOLUTION);
                if ends.last().is_none_or(|last| *last < end) {
                    ends.push(end);
                }
            }
        }
        Ok(ends.into())
    }

    /// Calls `put(row, value)` for each interval with samples. Redundant columns are left out: min, max and mean that
    /// equal the last value everywhere, and the increase of a counter that was never reset.
    pub fn column(&mut self, n: usize, mut put: impl FnMut(usize, f64)) -> Result<(), StoreError> {
        let (series, rollup) = self.order[n];
        if let Some(counts) = self.counts_of(series) {
            // Of a histogram only the last sample means anything.
            return if rollup == Rollup::Last { self.last_components(series, counts, put) } else { Ok(()) };
        }
        let known = match self.known.get(&series) {
            Some(known) => known.clone(),
            None => {
                if self.known.len() >= MAX_CACHED {
                    self.known.clear();
                }
                let new = Arc::new(self.buckets(series as usize)?);
                self.known.insert(series, new.clone());
                new
            }
        };
        let (buckets, falls) = (&known.0, known.1);
        let value = |b: &Bucket| match rollup {
            Rollup::Increase => b.increase,
            Rollup::Last => b.last,
            Rollup::Max => b.max,
            // A sum of equal numbers is rounded.
            Rollup::Mean if b.min == b.max => b.max,
            Rollup::Mean => b.sum / b.samples,
            Rollup::Min => b.min,
        };
        let present = || buckets.iter().enumerate().filter_map(|(row, b)| Some((row, b.as_ref()?)));
        let told = match rollup {
            Rollup::Last => true,
            Rollup::Increase => {
                let samples: f64 = present().map(|(_, b)| b.samples).sum();
                falls > 0 && (falls * COUNTER) as f64 <= samples && present().all(|(_, b)| b.increase.is_finite())
            }
            _ => present().any(|(_, b)| b.samples > 0.0 && value(b).to_bits() != b.last.to_bits()),
        };
        for (row, bucket) in present().filter(|(_, b)| told && (rollup == Rollup::Last || b.samples > 0.0)) {
            put(row, value(bucket));
        }
        Ok(())
    }

    /// For a component of a histogram: the series that counts the samples of the histogram.
    fn counts_of(&self, series: u32) -> Option<u32> {
        let (label, count) = self.component?;
        let all = &self.series;
        let at = all.pairs_of(series as usize).iter().position(|(name, _)| *name == label)?;
        let mut pairs = all.pairs_of(series as usize).to_vec();
        pairs[at].1 = count;
        // Texts are sorted, so their numbers are in the order of the labels.
        let at = first_not_before(all.len(), |series| *all.pairs_of(series) < pairs[..]);
        // A component without its histogram has no samples.
        (at < all.len()).then_some(at as u32)
    }

    /// Calls `put(row, value)` for the values that a component has in the last histogram of each interval.
    fn last_components(&mut self, series: u32, counts: u32, mut put: impl FnMut(usize, f64)) -> Result<(), StoreError> {
        let last = match self.last_histograms.get(&counts) {
            Some(last) => last.clone(),
            None => {
                if self.last_histograms.len() >= MAX_CACHED {
                    self.last_histograms.clear();
                }
                let mut last = HashMap::new();
                self.each_sample(counts, |_, end, time, _| _ = last.insert(end, time))?;
                self.last_histograms.entry(counts).or_insert(Arc::new(last)).clone()
            }
        };
        self.each_sample(series, |row, end, time, value| {
            if last.get(&end) == Some(&time) {
                put(row, value);
            }
        })
    }

    /// Calls `each(row, end of the interval, time, value)` for each sample of a series, in order of time.
    fn each_sample(&mut self, series: u32, mut each: impl FnMut(usize, i64, i64, f64)) -> Result<(), StoreError> {
        let (index, all) = (self.reader.index.clone(), self.series.clone());
        let layout = all.columns().layout(series as usize);
        let (mut intervals, mut end) = (0, i64::MIN);
        for (chunk, at) in all.columns().of(series as usize, &index.tables.layouts).enumerate() {
            let times = self.reader.times(layout, chunk)?;
            let values = self.reader.column(at, times.len())?;
            for (time, value) in times.iter().zip(values) {
                if intervals == 0 || *time >= end {
                    end = interval_start(*time).saturating_add(RESOLUTION);
                    intervals += 1;
                }
                if !is_absent(value) {
                    each(intervals - 1, end, *time, value);
                }
            }
        }
        Ok(())
    }

    fn buckets(&mut self, series: usize) -> Result<Buckets, StoreError> {
        let (index, all) = (self.reader.index.clone(), self.series.clone());
        let layout = all.columns().layout(series);
        let (mut buckets, mut falls, mut before) = (Vec::new(), 0, None);
        let mut end = i64::MIN;
        for (chunk, at) in all.columns().of(series, &index.tables.layouts).enumerate() {
            let times = self.reader.times(layout, chunk)?;
            let values = self.reader.column(at, times.len())?;
            for (time, value) in times.iter().zip(values) {
                if buckets.is_empty() || *time >= end {
                    end = interval_start(*time).saturating_add(RESOLUTION);
                    buckets.push(None);
                }
                let Some(slot) = buckets.last_mut().filter(|_| !is_absent(value)) else { continue };
                let bucket = slot.get_or_insert(EMPTY);
                bucket.last = value;
                if is_stale(value) {
                    continue;
                }
                let fell = before.is_some_and(|before| value < before);
                falls += usize::from(fell);
                bucket.increase += before.map_or(0.0, |before| if fell { value } else { value - before });
                bucket.min = bucket.min.min(value);
                bucket.max = bucket.max.max(value);
                bucket.sum += value;
                bucket.samples += 1.0;
                before = Some(value);
            }
        }
        Ok((buckets, falls))
    }
}
