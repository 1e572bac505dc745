//! Totals by job of the counters that somebody has bound to queue pairs. Called by the sampler `queue_pairs`.
//!
//! Counters come and go with queue pairs, so growth is added up: what a job has sent does not get less when one of its
//! queue pairs ends. A job without any counter left ends its series.

use super::jobs::Key;
use crate::batch::Batch;
use crate::subject::Subject;
use fabriclens_catalog::metrics::job::BY_JOB;
use fabriclens_catalog::{Metric, Source};
use fabriclens_kernel::QpCounter;
use fabriclens_wire::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The job of a queue pair, and its cluster; none for processes of no job.
pub type Owner = Option<(Key, String)>;

type Labels = Vec<(Arc<str>, Arc<str>)>;

/// See the module.
#[derive(Debug, Default)]
pub struct ByJob {
    /// Last value of a counter by its number and name.
    last: HashMap<(u32, Arc<str>), u64>,
    /// Whose a counter was when that was last known.
    owners: HashMap<u32, Owner>,
    totals: BTreeMap<Owner, BTreeMap<(&'static str, Labels), (&'static Metric, f64)>>,
}

impl ByJob {
    /// Adds what counters have grown by; `owner` tells whose one is, where it has queue pairs.
    pub fn add(&mut self, subject: &Subject, counters: &[QpCounter], owner: impl Fn(&QpCounter) -> Option<Owner>) {
        let ids: HashSet<u32> = counters.iter().map(|counter| counter.id).collect();
        self.last.retain(|(id, _), _| ids.contains(id));
        self.owners.retain(|id, _| ids.contains(id));
        for counter in counters {
            if let Some(owner) = owner(counter) {
                // The number was given again.
                if self.owners.insert(counter.id, owner.clone()).is_some_and(|before| before != owner) {
                    self.last.retain(|(id, _), _| *id != counter.id);
                }
            }
            let Some(owner) = self.owners.get(&counter.id) else { continue };
            let totals = self.totals.entry(owner.clone()).or_default();
            for (name, value) in &counter.values {
                let Some(bound) = subject.bind(Source::HwCounters, name) else { continue };
                let Some((_, metric)) = BY_JOB.iter().find(|(port, _)| port.name == bound.metric.name) else { continue };
                if !bound.feed.is_reading(*value) {
                    continue;
                }
                let before = self.last.insert((counter.id, Arc::clone(name)), *value);
                // One that fell was bound anew and counts from zero, as one that is new.
                let step = before.and_then(|before| bound.feed.step(before, *value)).unwrap_or(*value);
                let labels = bound.labels.iter().map(|(n, v)| (Arc::from(&**n), Arc::from(&**v))).collect();
                totals.entry((metric.name, labels)).or_insert((*metric, 0.0)).1 += step as f64 * bound.scale;
            }
        }
        let alive: HashSet<&Owner> = self.owners.values().collect();
        self.totals.retain(|owner, _| alive.contains(owner));
    }

    /// Tells the totals.
    pub fn tell(&self, out: &mut Batch) {
        for (owner, totals) in &self.totals {
            let (scheduler, job, cluster) = parts(owner);
            for ((_, labels), (metric, total)) in totals {
                let mut all: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (&**name, &**value)).collect();
                all.extend([("cluster", cluster), ("job", job), ("scheduler", scheduler)]);
                out.fact(metric, &all, Value::Float(*total));
            }
        }
    }
}

/// Scheduler, job and cluster as labels.
pub fn parts(owner: &Owner) -> (&str, &str, &str) {
    owner.as_ref().map_or(("", "", ""), |(key, cluster)| (key.scheduler, &key.job, cluster))
}
