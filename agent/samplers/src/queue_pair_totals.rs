//! Totals per job of the counters bound to queue pairs. Called by the sampler `queue_pairs`.
//!
//! Counters come and go with queue pairs, so their growth is accumulated: a job's total does not decrease when one of
//! its queue pairs ends. The series of a job end with its last counter.

use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_workload::Key;
use fabriclens_catalog::metrics::job::BY_JOB;
use fabriclens_catalog::{CounterSource, Metric};
use fabriclens_kernel::QpCounter;
use fabriclens_wire::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Job of a queue pair, and its cluster; `None` for processes outside of jobs.
pub type Owner = Option<(Key, String)>;

type Labels = Vec<(Arc<str>, Arc<str>)>;
/// Totals by metric name and labels.
type Totals = BTreeMap<(&'static str, Labels), (&'static Metric, f64)>;

/// Totals per job.
#[derive(Debug, Default)]
pub struct QueuePairTotals {
    /// Last value of a counter, by its id and name.
    last: HashMap<(u32, Arc<str>), u64>,
    /// Last known owner of a counter.
    owners: HashMap<u32, Owner>,
    totals: BTreeMap<Owner, Totals>,
}

impl QueuePairTotals {
    /// Adds the growth of counters; `owner` returns the job of a counter that has queue pairs.
    pub fn add(
        &mut self,
        target: &SamplingTarget,
        counters: &[QpCounter],
        owner: impl Fn(&QpCounter) -> Option<Owner>,
    ) {
        let ids: HashSet<u32> = counters.iter().map(|counter| counter.id).collect();
        self.last.retain(|(id, _), _| ids.contains(id));
        self.owners.retain(|id, _| ids.contains(id));
        for counter in counters {
            if let Some(owner) = owner(counter) {
                // The id was reused.
                if self.owners.insert(counter.id, owner.clone()).is_some_and(|before| before != owner) {
                    self.last.retain(|(id, _), _| *id != counter.id);
                }
            }
            let Some(owner) = self.owners.get(&counter.id) else { continue };
            let totals = self.totals.entry(owner.clone()).or_default();
            for (name, value) in &counter.values {
                let Some(bound) = target.bind(CounterSource::HwCounters, name) else { continue };
                let Some((_, metric)) = BY_JOB.iter().find(|(port, _)| port.name == bound.metric.name) else {
                    continue;
                };
                if !bound.counter.is_reading(*value) {
                    continue;
                }
                let before = self.last.insert((counter.id, Arc::clone(name)), *value);
                // A counter that fell was bound again and counts from zero, like a new one.
                let step = before.and_then(|before| bound.counter.step(before, *value)).unwrap_or(*value);
                let labels = bound.labels.iter().map(|(n, v)| (Arc::from(&**n), Arc::from(&**v))).collect();
                totals.entry((metric.name, labels)).or_insert((*metric, 0.0)).1 += step as f64 * bound.scale;
            }
        }
        let alive: HashSet<&Owner> = self.owners.values().collect();
        self.totals.retain(|owner, _| alive.contains(owner));
    }

    /// Exports the totals.
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

/// Scheduler, job and cluster, as label values.
pub fn parts(owner: &Owner) -> (&str, &str, &str) {
    owner.as_ref().map_or(("", "", ""), |(key, cluster)| (key.scheduler, &key.job, cluster))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_agent_host::inventory::Device;
    use fabriclens_agent_host::no_calls::NoCalls;
    use fabriclens_agent_host::roots::Roots;

    /// A device whose driver is in the catalog.
    fn target() -> SamplingTarget {
        let device = Device::bare("mlx5_0", "mlx5_core");
        let roots = Roots::with_calls("/nowhere".into(), Arc::new(NoCalls));
        SamplingTarget::of_device(&Arc::new(roots), &Arc::from("h"), &Arc::new(device)).remove(0)
    }

    fn counter(id: u32, name: &str, value: u64) -> QpCounter {
        QpCounter {
            device: "mlx5_0".into(),
            port: Some(1),
            id,
            qps: vec![],
            pid: None,
            values: vec![(name.into(), value)],
        }
    }

    fn exported(by_job: &QueuePairTotals) -> Vec<String> {
        let mut batch = Batch::default();
        by_job.tell(&mut batch);
        let label = |column: &fabriclens_wire::Column, name: &str| {
            column.labels.iter().find(|(n, _)| **n == *name).map_or_else(String::new, |(_, value)| value.to_string())
        };
        let exported = batch.facts.iter().map(|(column, value)| {
            let Value::Float(total) = value else { panic!("{value:?}") };
            format!("{} {} {total}", label(column, "job"), column.metric.name)
        });
        exported.collect()
    }

    #[test]
    fn growth_adds_up_and_does_not_go_back() {
        let (target, mut by_job) = (target(), QueuePairTotals::default());
        let (seven, eight) =
            (Some((Key::new("slurm", "7"), String::new())), Some((Key::new("slurm", "8"), String::new())));
        let mut add = |counters: &[QpCounter], owners: &[&Owner]| {
            let of = |c: &QpCounter| counters.iter().position(|other| other.id == c.id).map(|at| owners[at].clone());
            by_job.add(&target, counters, of);
            exported(&by_job)
        };
        let sequence = |id, value| counter(id, "out_of_sequence", value);
        assert_eq!(add(&[sequence(1, 5), sequence(2, 7)], &[&seven, &seven]), ["7 fabric.job.rdma.out_of_sequence 12"]);
        // One queue pair ended, the other one grew.
        assert_eq!(add(&[sequence(1, 6)], &[&seven]), ["7 fabric.job.rdma.out_of_sequence 13"]);
        // 32-bit wrap.
        add(&[sequence(1, u64::from(u32::MAX))], &[&seven]);
        let wrapped = add(&[sequence(1, 1)], &[&seven]);
        assert_eq!(wrapped, [format!("7 fabric.job.rdma.out_of_sequence {}", 13 + u64::from(u32::MAX) - 6 + 2)]);
        // The id is reused by another job: its count starts there, and the first job has no counter left.
        assert_eq!(add(&[sequence(1, 2)], &[&eight]), ["8 fabric.job.rdma.out_of_sequence 2"]);
        assert_eq!(add(&[counter(1, "no_such_counter", 2)], &[&eight]), ["8 fabric.job.rdma.out_of_sequence 2"]);
        assert!(add(&[], &[]).is_empty());
    }

    #[test]
    fn a_counter_whose_process_is_gone_stays_its_jobs() {
        let (target, mut by_job) = (target(), QueuePairTotals::default());
        let owner: Owner = Some((Key::new("slurm", "7"), String::new()));
        by_job.add(&target, &[counter(1, "rdma_tx_bytes", 5)], |_| Some(owner.clone()));
        by_job.add(&target, &[counter(1, "rdma_tx_bytes", 9), counter(2, "rdma_tx_bytes", 100)], |_| None);
        assert_eq!(exported(&by_job), ["7 fabric.job.rdma.io 9"], "and one that never had an owner is nobody's");
    }
}
