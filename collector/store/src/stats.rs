//! Numbers about the store, for the collector's own metrics and `/api/v1/status/tsdb`.

use crate::rows::Appended;
use crate::store::Store;
use crate::wal::replay::Damage;
use std::collections::HashMap;

/// A moment's numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Series that the head knows: nearly all of them were heard of since the last cut or the one before.
    pub head_series: usize,
    /// Samples in the head.
    pub head_samples: u64,
    /// Sets of columns that share time stamps, in the head.
    pub head_layouts: usize,
    /// Bytes of compressed rows in the head.
    pub head_bytes: u64,
    /// Oldest and newest sample in the head, Unix ms.
    pub head_range: Option<(i64, i64)>,
    /// Bytes of log that are not yet in blocks.
    pub wal_bytes: u64,
    /// Block files.
    pub blocks: usize,
    /// Their bytes.
    pub block_bytes: u64,
    /// Their samples.
    pub block_samples: u64,
    /// Memory that the indexes of blocks and rollups in use take, bytes.
    pub index_bytes: u64,
    /// Files of rollups.
    pub rollups: usize,
    /// Their bytes.
    pub rollup_bytes: u64,
    /// What became of all samples since the start.
    pub appended: Appended,
    /// Damage found since the start.
    pub damage: Vec<Damage>,
    /// How far the clock is ahead (or, negative, behind) of what is believed while a step of it is in doubt, ms.
    pub clock_off_ms: i64,
    /// Why samples cannot be made durable right now.
    pub log_failure: Option<String>,
    /// Why the last flush, merge or removal failed.
    pub maintenance_failure: Option<String>,
}

/// How many series the head has by what; each list is the largest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cardinality {
    /// Series that the head knows: nearly all of them were heard of since the last cut or the one before.
    pub series: usize,
    /// Different label name and value pairs.
    pub label_pairs: usize,
    /// Series by metric name.
    pub by_metric: Vec<(String, usize)>,
    /// Different values by label name.
    pub by_label: Vec<(String, usize)>,
    /// Series by label pair, `name=value`.
    pub by_pair: Vec<(String, usize)>,
}

impl Store {
    /// Cheap enough to ask every second.
    pub fn stats(&self) -> Stats {
        let log = self.shared.log.lock();
        let (wal_bytes, log_failure) = (log.bytes, log.failure().map(ToString::to_string));
        drop(log);
        let head = self.shared.head.read();
        let mut stats = Stats {
            wal_bytes,
            log_failure,
            clock_off_ms: self.shared.aging.times((self.shared.options.clock)()).off,
            appended: *self.shared.totals.lock(),
            damage: self.shared.damage.lock().clone(),
            ..Stats::default()
        };
        let blocks = self.shared.blocks.all();
        stats.blocks = blocks.len();
        stats.block_bytes = blocks.iter().map(|b| b.bytes).sum();
        stats.block_samples = blocks.iter().map(|b| b.facts.samples).sum();
        stats.rollups = self.shared.rollups.all().len();
        stats.rollup_bytes = self.shared.rollups.bytes();
        let shelves = [blocks, self.shared.rollups.all()];
        stats.index_bytes = shelves.iter().flat_map(|s| s.iter()).map(|b| b.index_memory() as u64).sum();
        stats.maintenance_failure = self.shared.trouble.lock().iter().flatten().next().cloned();
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

    /// What the last series that was refused ran into; `None` since the head began anew.
    pub fn refusal(&self) -> Option<String> {
        self.shared.head.read().current.refusal()
    }

    /// Series in the head by metric and label; at most `limit` of each. Walks all series: for people, not for loops.
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
