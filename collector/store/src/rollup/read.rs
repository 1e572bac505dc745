//! Reads samples together with rollups where samples are too many or expired.

use super::kind::{LABEL, RESOLUTION, interval_start, name, sample_labels};
use super::rolled_up::newest_first;
use crate::block::read::Block;
use crate::block::tables::ChunkMeta;
use crate::block_series::BlockSeries;
use crate::error::StoreError;
use crate::sample_limit::SampleLimit;
use crate::select::Wanted;
use crate::selection::Selection;
use crate::store::Store;
use fabriclens_model::{
    Budget, Hint, Labels, Matcher, ReadError, Rollup, Selected, Series, SharedSeries, is_stale, settle,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Minimum rollup intervals per query step, per function window, and per window of an instant query.
const STEP: i64 = 5;
const WINDOW: i64 = 4;
const ONE_WINDOW: i64 = 60;

/// Whether the query is coarse enough for rollups to give the same answer.
fn coarse(hint: Hint) -> bool {
    let wide = |ms: i64, intervals: i64| ms >= intervals * RESOLUTION;
    match hint {
        Hint { rollup: None, .. } => false,
        Hint { step_ms: 0, range_ms, .. } => wide(range_ms, ONE_WINDOW),
        Hint { step_ms, range_ms, .. } => wide(step_ms, STEP) && (range_ms == 0 || wide(range_ms, WINDOW)),
    }
}

impl Store {
    /// Implements [`fabriclens_model::Read::select_for`].
    pub(crate) fn select_rolled(
        &self,
        matchers: &[Matcher],
        (start, end): (i64, i64),
        hint: Hint,
        budget: &dyn Budget,
    ) -> Result<Selected, ReadError> {
        let shared = &self.shared;
        let rollups = shared.rollups.all();
        let rolled_up = |b: &Arc<Block>| shared.rolled_up.has(b.id);
        let many = || {
            let samples = self.samples(&rolled_up, matchers, (start, end), budget)?;
            Ok::<_, ReadError>(samples > shared.options.exact_samples as u64)
        };
        // Damaged rollups are not used while samples exist.
        let sound = || rollups.iter().all(|b| !b.overlaps(start, end) || !b.damaged.load(Ordering::Relaxed));
        let coarse = !rollups.is_empty() && coarse(hint) && sound() && many()?;
        let wanted = Wanted { matchers, times: (start, end), newest: hint.newest(), budget };
        let (series, read) = self.select_blocks(&wanted, |b| !(coarse && rolled_up(b)))?;
        let gaps = if coarse { vec![(start, end)] } else { gaps(&read, &rollups, start, end) };
        if gaps.is_empty() {
            return Ok(Selected { series, in_label_order: true, ..Selected::default() });
        }
        let rollup = hint.rollup.unwrap_or(Rollup::Last);
        let last = self.select_rollup(matchers, &gaps, Rollup::Last, budget)?;
        let other = match rollup {
            Rollup::Last => BTreeMap::new(),
            _ => self.select_rollup(matchers, &gaps, rollup, budget)?,
        };
        if coarse && !sound() {
            return self.select_rolled(matchers, (start, end), hint, budget);
        }
        let resolution_ms = (!last.is_empty()).then_some(RESOLUTION);
        let series = joined(series, last, &other, rollup);
        Ok(Selected { series, in_label_order: true, resolution_ms, ..Selected::default() })
    }

    /// Whether a read may find rollups.
    pub(crate) fn may_be_rolled(&self, (start, end): (i64, i64), hint: Hint) -> bool {
        let rollups = self.shared.rollups.all();
        !rollups.is_empty() && (coarse(hint) || !gaps(&self.shared.blocks.all(), &rollups, start, end).is_empty())
    }

    /// Estimates the number of matching samples in the chosen blocks.
    fn samples(
        &self,
        chosen: &dyn Fn(&Arc<Block>) -> bool,
        matchers: &[Matcher],
        (start, end): (i64, i64),
        budget: &dyn Budget,
    ) -> Result<u64, ReadError> {
        let blocks = self.shared.blocks.all();
        let blocks: Vec<_> = blocks.iter().filter(|b| b.overlaps(start, end) && chosen(b)).collect();
        let all: u64 = blocks.iter().map(|b| b.footer.samples).sum();
        if all <= self.shared.options.exact_samples as u64 {
            return Ok(all);
        }
        let of_block = |block: &Arc<Block>| {
            let within = |c: &ChunkMeta| c.min <= end && c.max >= start;
            let mut samples = 0;
            // Damage is reported when the block is read.
            for BlockSeries { index, list, series, .. } in BlockSeries::of(block, matchers, budget, &|_| {})? {
                let chunks = series.iter().flat_map(|s| &index.tables.layouts[list.columns().layout(*s as usize)]);
                samples += chunks.filter(|c| within(c)).map(|c| u64::from(c.rows)).sum::<u64>();
            }
            Ok(samples)
        };
        blocks.into_iter().map(of_block).sum()
    }

    /// One kind of rollup of the matching series, by the labels of its samples.
    fn select_rollup(
        &self,
        matchers: &[Matcher],
        gaps: &[(i64, i64)],
        rollup: Rollup,
        budget: &dyn Budget,
    ) -> Result<BTreeMap<Labels, Series>, ReadError> {
        let matchers = [matchers, &[Matcher::equal(LABEL, name(rollup))]].concat();
        let mut blocks: Vec<_> = self.shared.rollups.all().iter().cloned().collect();
        blocks.sort_by(newest_first);
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        let limit = SampleLimit::new(self.shared.options.max_samples);
        let mut found = Selection::new(&limit, false, budget);
        for (start, end) in gaps {
            (first, last) = (first.min(*start), last.max(*end));
            for block in blocks.iter().filter(|b| b.overlaps(*start, *end)) {
                let damage = |e: &StoreError| self.shared.report(block, e);
                for of_block in BlockSeries::of(block, &matchers, budget, &damage)? {
                    found.add_block(&of_block, 0..of_block.series.len(), (*start, *end), &damage)?;
                }
            }
        }
        let series = found.finish(first, last)?.into_iter();
        Ok(series.map(|s| (sample_labels(s.labels.clone()), s.into())).collect())
    }
}

/// The parts of a range that no block covers but rollups may; retention by bytes can leave several.
fn gaps(blocks: &[Arc<Block>], rollups: &[Arc<Block>], start: i64, end: i64) -> Vec<(i64, i64)> {
    let mut covered: Vec<_> =
        blocks.iter().map(|b| (interval_start(b.footer.min), interval_start(b.footer.max) + RESOLUTION)).collect();
    covered.sort_unstable();
    let mut gaps = Vec::new();
    let mut from = start;
    // Samples are in the interval that ends with the stamp: a block covers stamps after its start.
    for (begin, until) in covered {
        if begin >= from {
            gaps.push((from, begin.min(end)));
        }
        from = from.max(until + 1);
    }
    gaps.push((from, end));
    gaps.retain(|(from, to)| from <= to && rollups.iter().any(|b| b.overlaps(*from, *to)));
    gaps
}

/// Merges samples and rollups by series, in label order.
fn joined(
    samples: Vec<SharedSeries>,
    last: BTreeMap<Labels, Series>,
    other: &BTreeMap<Labels, Series>,
    rollup: Rollup,
) -> Vec<SharedSeries> {
    let mut all: BTreeMap<Labels, Series> = samples.into_iter().map(|s| (s.labels.clone(), s.into())).collect();
    for (labels, mut series) in last {
        if let Some(other) = other.get(&labels) {
            match rollup {
                Rollup::Increase => rebuild_counter(&mut series, other),
                _ => overlay(&mut series, other),
            }
        }
        series.labels = labels.clone();
        let entry = all.entry(labels).or_insert_with(|| Series { labels: series.labels.clone(), ..Series::default() });
        // At the same time a sample wins over a rollup.
        entry.times.extend(series.times);
        entry.values.extend(series.values);
        (entry.times, entry.values) = settle(std::mem::take(&mut entry.times), std::mem::take(&mut entry.values));
    }
    all.into_values().map(Into::into).collect()
}

/// Replaces values by those of `other` at the same times.
fn overlay(series: &mut Series, other: &Series) {
    let mut known = other.times.iter().zip(&other.values).peekable();
    for (time, value) in series.times.iter().zip(&mut series.values) {
        while known.next_if(|(t, _)| *t < time).is_some() {}
        if let Some((_, put)) = known.next_if(|(t, _)| *t == time) {
            *value = *put;
        }
    }
}

/// Rebuilds a counter without resets that ends with the last value, so that it continues into the samples that follow.
fn rebuild_counter(series: &mut Series, increases: &Series) {
    let mut known = increases.times.iter().zip(&increases.values).rev().peekable();
    // Value of the counter and of the last sample at the next interval, and its increase there.
    let mut next: Option<(f64, f64, Option<f64>)> = None;
    for (time, value) in series.times.iter().zip(&mut series.values).rev() {
        while known.next_if(|(t, _)| *t > time).is_some() {}
        let increase = known.next_if(|(t, _)| *t == time).map(|(_, v)| *v);
        if is_stale(*value) {
            continue;
        }
        let last = *value;
        if let Some((counter, sample, increase)) = next {
            // At the start of a block its increase does not reach back to the previous sample.
            let step = if sample >= last { sample - last } else { 0.0 };
            let least = increase.unwrap_or(if sample >= last { 0.0 } else { sample });
            *value = counter - step.max(least);
        }
        next = Some((*value, last, increase));
    }
}
