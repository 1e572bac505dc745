//! Statistics of the store, for the collector's own metrics and `/api/v1/status/tsdb`.

use crate::head::footprint;
use crate::head::memory::HeadMemory;
use crate::rows::Appended;
use crate::store::Store;
use crate::wal::replay::Damage;
use fabriclens_model::{Budget, Component, Labels, ReadError, histogram_of, is_component};
use std::collections::HashMap;
use std::time::Duration;

/// Series that are counted without a look at the deadline.
const PIECE: usize = 4096;
/// Bytes of a counted name or pair, in the table and in the sorted list.
const ENTRY_BYTES: usize = 64;

/// Statistics at one instant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Series known to the head; nearly all of them had samples since the rotation before the last.
    pub head_series: usize,
    /// Samples in the head.
    pub head_samples: u64,
    /// Column lists with shared time stamps in the head.
    pub head_layouts: usize,
    /// Bytes of compressed rows in the head.
    pub head_bytes: u64,
    /// Oldest and newest sample in the head, Unix ms.
    pub head_range: Option<(i64, i64)>,
    /// Bytes of log not yet in blocks.
    pub wal_bytes: u64,
    /// Number of block files.
    pub blocks: usize,
    /// Bytes of block files.
    pub block_bytes: u64,
    /// Samples in block files.
    pub block_samples: u64,
    /// Bytes of memory of the loaded indexes of blocks and rollups.
    pub index_bytes: u64,
    /// Number of rollup files.
    pub rollups: usize,
    /// Bytes of rollup files.
    pub rollup_bytes: u64,
    /// Outcome of all samples since the start.
    pub appended: Appended,
    /// Time in which appends wrote with the lock of the log held, one at a time, since the start.
    pub append_held: Duration,
    /// Time in which appends waited for that lock, or for queries to release the head, since the start.
    pub append_waited: Duration,
    /// Damage found since the start.
    pub damage: Vec<Damage>,
    /// How far the clock is ahead of the trusted time (negative: behind) while a clock step is in doubt, ms.
    pub clock_off_ms: i64,
    /// Why samples cannot be made durable, if so.
    pub log_failure: Option<String>,
    /// Error of the last flush, merge or removal, if it failed.
    pub maintenance_failure: Option<String>,
}

/// Series counts of the head; each list is sorted by count, largest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cardinality {
    /// Series known to the head; nearly all of them had samples since the rotation before the last.
    pub series: usize,
    /// Distinct label name and value pairs.
    pub label_pairs: usize,
    /// Series by metric name.
    pub by_metric: Vec<(String, usize)>,
    /// Distinct values by label name.
    pub by_label: Vec<(String, usize)>,
    /// Series by label pair, `name=value`.
    pub by_pair: Vec<(String, usize)>,
}

impl Store {
    /// Cheap enough for every second.
    pub fn stats(&self) -> Stats {
        let log = self.shared.log.lock();
        let (wal_bytes, log_failure) = (log.bytes, log.failure().map(ToString::to_string));
        drop(log);
        let (append_held, append_waited) = self.shared.append_times.sums();
        let head = self.shared.head.read();
        let mut stats = Stats {
            wal_bytes,
            log_failure,
            clock_off_ms: self.shared.retention_clock.times((self.shared.options.clock)()).off,
            appended: *self.shared.totals.lock(),
            append_held,
            append_waited,
            damage: self.shared.damage.lock().clone(),
            ..Stats::default()
        };
        let blocks = self.shared.blocks.all();
        stats.blocks = blocks.len();
        stats.block_bytes = blocks.iter().map(|b| b.bytes).sum();
        stats.block_samples = blocks.iter().map(|b| b.footer.samples).sum();
        stats.rollups = self.shared.rollups.all().len();
        stats.rollup_bytes = self.shared.rollups.bytes();
        let sets = [blocks, self.shared.rollups.all()];
        stats.index_bytes = sets.iter().flat_map(|s| s.iter()).map(|b| b.index_memory() as u64).sum();
        stats.maintenance_failure = self.shared.last_errors.lock().iter().flatten().next().cloned();
        for g in head.older.iter().map(|g| &**g).chain([&head.current]) {
            stats.head_series = stats.head_series.max(g.series_without_components());
            stats.head_samples += g.samples;
            stats.head_layouts = stats.head_layouts.max(g.layouts.len());
            stats.head_bytes += g.sealed_bytes;
            stats.head_range = match (stats.head_range, g.range()) {
                (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
                (a, b) => a.or(b),
            };
        }
        stats
    }

    /// Memory of the head by part. Visits every layout and label set: for measurements, not for loops.
    pub fn head_memory(&self) -> HeadMemory {
        let log = self.shared.log.lock().pending.capacity();
        let head = self.shared.head.read();
        let generations = head.older.iter().map(|generation| &**generation).chain([&head.current]);
        HeadMemory { log, ..footprint::of(generations) }
    }

    /// Message about the last series that was refused; `None` since the head last started empty.
    pub fn refusal(&self) -> Option<String> {
        self.shared.head.read().current.refusal()
    }

    /// Series counts of the head by metric and label, at most `limit` of each. Walks all series: for people, not for
    /// loops.
    ///
    /// # Errors
    /// Those of `budget`.
    pub fn cardinality(&self, limit: usize, budget: &dyn Budget) -> Result<Cardinality, ReadError> {
        // Appends wait for the lock, so nothing is counted meanwhile.
        let all: Vec<Labels> = {
            let head = self.shared.head.read();
            let newest = head.older.last().filter(|_| head.current.series.is_empty());
            let generation = newest.map_or(&head.current, |g| g);
            budget.request(generation.series.len() * size_of::<Labels>())?;
            let all = (0..generation.series.len() as u32).map(|series| generation.labels(series));
            all.filter_map(listed).collect()
        };
        let (mut metrics, mut labels, mut pairs) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut charged = 0;
        for piece in all.chunks(PIECE) {
            budget.check()?;
            for one in piece {
                *metrics.entry(one.metric()).or_insert(0) += 1;
                for pair in one.iter() {
                    *pairs.entry(pair).or_insert(0) += 1;
                }
            }
            // Before they grow, which doubles them.
            let entries = 2 * (metrics.capacity() + pairs.capacity());
            budget.request((entries - charged) * ENTRY_BYTES)?;
            charged = entries;
        }
        for (name, _) in pairs.keys() {
            *labels.entry(*name).or_insert(0) += 1;
        }
        Ok(Cardinality {
            series: all.len(),
            label_pairs: pairs.len(),
            by_metric: top(metrics, limit, str::to_owned),
            by_label: top(labels, limit, str::to_owned),
            by_pair: top(pairs, limit, |(name, value)| format!("{name}={value}")),
        })
    }
}

/// Labels of a series as callers see them; a histogram is the one series of its components.
fn listed(labels: &Labels) -> Option<Labels> {
    if !is_component(labels) {
        return Some(labels.clone());
    }
    histogram_of(labels).filter(|(_, component)| *component == Component::Count).map(|(labels, _)| labels)
}

/// The most frequent entries, and those of equal frequency in their order.
fn top<T: Ord>(counts: HashMap<T, usize>, limit: usize, text: impl Fn(T) -> String) -> Vec<(String, usize)> {
    let mut all: Vec<_> = counts.into_iter().collect();
    all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all.truncate(limit);
    all.into_iter().map(|(entry, count)| (text(entry), count)).collect()
}
