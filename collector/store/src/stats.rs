//! Statistics of the store, for the collector's own metrics and `/api/v1/status/tsdb`.

use crate::rows::Appended;
use crate::store::Store;
use crate::wal::replay::Damage;
use std::collections::HashMap;

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
        let head = self.shared.head.read();
        let mut stats = Stats {
            wal_bytes,
            log_failure,
            clock_off_ms: self.shared.retention_clock.times((self.shared.options.clock)()).off,
            appended: *self.shared.totals.lock(),
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
            stats.head_series = stats.head_series.max(g.series.len());
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

    /// Message about the last series that was refused; `None` since the head last started empty.
    pub fn refusal(&self) -> Option<String> {
        self.shared.head.read().current.refusal()
    }

    /// Series counts of the head by metric and label, at most `limit` of each. Walks all series: for people, not for
    /// loops.
    pub fn cardinality(&self, limit: usize) -> Cardinality {
        let mut metrics: HashMap<String, usize> = HashMap::new();
        let mut pairs: HashMap<(String, String), usize> = HashMap::new();
        let head = self.shared.head.read();
        let newest = head.older.last().filter(|_| head.current.series.is_empty());
        let generation = newest.map_or(&head.current, |g| g);
        for entered in generation.series.iter() {
            *metrics.entry(entered.labels.metric().to_owned()).or_default() += 1;
            for (n, v) in entered.labels.iter() {
                *pairs.entry((n.to_owned(), v.to_owned())).or_default() += 1;
            }
        }
        let series = generation.series.len();
        drop(head);
        let mut labels: HashMap<String, usize> = HashMap::new();
        for (name, _) in pairs.keys() {
            *labels.entry(name.clone()).or_default() += 1;
        }
        Cardinality {
            series,
            label_pairs: pairs.len(),
            by_metric: top(metrics, limit),
            by_label: top(labels, limit),
            by_pair: top(pairs.into_iter().map(|((n, v), c)| (format!("{n}={v}"), c)), limit),
        }
    }
}

fn top(counts: impl IntoIterator<Item = (String, usize)>, limit: usize) -> Vec<(String, usize)> {
    let mut all: Vec<_> = counts.into_iter().collect();
    all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all.truncate(limit);
    all
}
