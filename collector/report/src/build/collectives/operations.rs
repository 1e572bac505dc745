//! Completed operations by kind and class of message size, from files of NCCL's Inspector.

use crate::build::ReportContext;
use crate::model::Operation;
use fabriclens_model::Labels;
use fabriclens_promql::QueryError;
use std::collections::BTreeMap;

/// Maximum number of listed operations.
const LISTED: usize = 24;

/// Communicator, kind, class of message size.
pub(super) type Key = [String; 3];

fn key(labels: &Labels) -> Key {
    ["communicator", "operation", "size"].map(|name| labels.get(name).to_owned())
}

/// Increase of a counter over the job's time, and by step of the report (NaN: not measured).
#[derive(Clone, Default)]
pub(super) struct Counted {
    pub total: f64,
    pub steps: Vec<f64>,
}

/// Operations on one host.
#[derive(Default)]
pub(super) struct OnHost {
    pub count: Counted,
    pub seconds: Counted,
    /// Bus bandwidth times time.
    pub bus_bytes: Option<Counted>,
}

/// Where a counter is kept.
type Place = fn(&mut OnHost) -> &mut Counted;

/// Counters of operations.
pub(super) const COUNTERS: [(&str, Place); 3] = [
    ("fabric_collective_executions_total", |on_host| &mut on_host.count),
    ("fabric_collective_execution_time_seconds_total", |on_host| &mut on_host.seconds),
    ("fabric_collective_bus_bytes_total", |on_host| on_host.bus_bytes.get_or_insert_default()),
];

/// Sums over hosts and communicators.
#[derive(Default)]
pub(super) struct Total {
    count: f64,
    seconds: f64,
    bus_bytes: f64,
    /// Time of the operations with a bus bandwidth.
    bus_seconds: f64,
}

impl Total {
    pub fn add(&mut self, on_host: &OnHost) {
        self.count += on_host.count.total;
        self.seconds += on_host.seconds.total;
        if let Some(bus_bytes) = &on_host.bus_bytes {
            self.bus_bytes += bus_bytes.total;
            self.bus_seconds += on_host.seconds.total;
        }
    }

    /// Mean time of an operation, seconds; `None` if there was none.
    pub fn mean_seconds(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.seconds / self.count)
    }

    /// Mean bus bandwidth, weighted by time, bytes per second; `None` if unknown.
    pub fn bandwidth(&self) -> Option<f64> {
        (self.bus_seconds > 0.0).then(|| self.bus_bytes / self.bus_seconds)
    }
}

/// Operations of the job, by key and host.
pub(super) struct Executions {
    pub by_key: BTreeMap<Key, BTreeMap<String, OnHost>>,
}

impl Executions {
    pub fn read(context: &ReportContext<'_>) -> Result<Self, QueryError> {
        let mut by_key: BTreeMap<Key, BTreeMap<String, OnHost>> = BTreeMap::new();
        for (metric, counted) in COUNTERS {
            for increase in context.source.increases(metric)?.into_iter().filter(|i| context.is_own(&i.labels)) {
                let hosts = by_key.entry(key(&increase.labels)).or_default();
                let on_host = hosts.entry(increase.labels.get("host").to_owned()).or_default();
                *counted(on_host) = Counted { total: increase.total + increase.beyond, steps: increase.steps };
            }
        }
        by_key.values_mut().for_each(|hosts| hosts.retain(|_, on_host| on_host.count.total > 0.0));
        by_key.retain(|_, hosts| !hosts.is_empty());
        Ok(Self { by_key })
    }

    /// Time in all operations, over all ranks, seconds.
    pub fn seconds(&self) -> f64 {
        self.by_key.values().flat_map(BTreeMap::values).map(|on_host| on_host.seconds.total).sum()
    }

    /// Time in operations for each of `ranks` ranks, as a fraction of the job's time.
    pub fn share(&self, context: &ReportContext<'_>, ranks: u64) -> Option<f64> {
        (!self.by_key.is_empty() && ranks > 0).then(|| self.seconds() / (ranks as f64 * context.source.seconds()))
    }

    /// The key with the most time.
    pub fn main(&self) -> Option<&Key> {
        let seconds =
            |hosts: &BTreeMap<String, OnHost>| hosts.values().map(|on_host| on_host.seconds.total).sum::<f64>();
        self.by_key.iter().max_by(|a, b| seconds(a.1).total_cmp(&seconds(b.1))).map(|(key, _)| key)
    }

    /// Rows of the report.
    pub fn operations(&self, context: &ReportContext<'_>) -> Result<Vec<Operation>, QueryError> {
        let all = self.seconds();
        let waits = self.weighted(context.own_over_time("avg_over_time", "fabric_collective_wait_seconds")?);
        let mut totals: BTreeMap<[String; 2], Total> = BTreeMap::new();
        for ([_, operation, size], hosts) in &self.by_key {
            let total = totals.entry([operation.clone(), size.clone()]).or_default();
            hosts.values().for_each(|on_host| total.add(on_host));
        }
        let row = |(key, total): (&[String; 2], &Total)| Operation {
            operation: key[0].clone(),
            size: key[1].clone(),
            executions: total.count,
            mean_seconds: total.mean_seconds().unwrap_or(0.0),
            share: if all > 0.0 { total.seconds / all } else { 0.0 },
            bandwidth: total.bandwidth(),
            wait_seconds: waits.get(key).copied(),
        };
        let mut rows: Vec<Operation> = totals.iter().map(row).collect();
        rows.sort_by(|a, b| b.share.total_cmp(&a.share));
        rows.truncate(LISTED);
        Ok(rows)
    }

    /// Means of a gauge by kind and size, weighted by the time in operations.
    fn weighted(&self, samples: Vec<(Labels, f64)>) -> BTreeMap<[String; 2], f64> {
        let mut sums: BTreeMap<[String; 2], (f64, f64)> = BTreeMap::new();
        for (labels, value) in samples {
            let on_host = self.by_key.get(&key(&labels)).and_then(|hosts| hosts.get(labels.get("host")));
            let Some(weight) = on_host.map(|on_host| on_host.seconds.total).filter(|seconds| *seconds > 0.0) else {
                continue;
            };
            let sum = sums.entry(["operation", "size"].map(|name| labels.get(name).to_owned())).or_default();
            *sum = (sum.0 + weight * value, sum.1 + weight);
        }
        sums.into_iter().map(|(key, (sum, weight))| (key, sum / weight)).collect()
    }
}
