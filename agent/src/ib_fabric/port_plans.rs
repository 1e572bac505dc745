//! What ports of a kind share: which counter feeds which series, and the column lists of their sections. A switch has tens
//! of ports and a subnet thousands of switches; without sharing, labels would take most of the reader's memory.

use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_samplers::plan::{Assigned, PlanShape};
use fabriclens_catalog::metrics::congestion::{XMIT_WAIT, XMIT_WAIT_TICKS};
use fabriclens_catalog::metrics::state;
use fabriclens_catalog::{BoundCounter, CounterSource, LinkLayer, Metric, bind};
use fabriclens_wire::Column;
use std::collections::HashMap;
use std::sync::Arc;

/// States of a port, in the order of their columns.
pub static STATES: [&Metric; 6] = [
    &state::PORT_UP,
    &state::PORT_STATE,
    &state::PORT_PHYSICAL_STATE,
    &state::PORT_RATE,
    &state::PORT_WIDTH,
    &state::PORT_MTU,
];

/// Names of a reading, and the bits of the bytes per wait tick.
type Key = (Arc<[Arc<str>]>, Option<u64>);

/// Plans of all kinds of ports.
#[derive(Default)]
pub struct PortPlans {
    plans: HashMap<Key, PortPlan>,
    /// The reading of the port that is processed.
    pub batch: Batch,
}

/// Plan of ports with equal names and wait ticks.
struct PortPlan {
    shape: Arc<PlanShape>,
    /// Column lists by the states that follow the counters, one bit each of [`STATES`].
    lists: HashMap<u8, Arc<[Column]>>,
}

impl PortPlans {
    /// Plan and column list of ports with these names, bytes per wait tick, and states.
    pub fn get(&mut self, names: &Arc<[Arc<str>]>, wait: Option<f64>, states: u8) -> (Arc<PlanShape>, Arc<[Column]>) {
        let plan = self.plans.entry((Arc::clone(names), wait.map(f64::to_bits))).or_insert_with(|| {
            let shape = Arc::new(PlanShape::new(names, &assign(names, wait), false));
            PortPlan { shape, lists: HashMap::new() }
        });
        let list = plan.lists.entry(states).or_insert_with(|| {
            let states = STATES.iter().enumerate().filter(|(bit, _)| states >> bit & 1 == 1);
            let states = states.map(|(_, metric)| Column { metric, labels: Vec::new() });
            plan.shape.columns().iter().cloned().chain(states).collect()
        });
        (Arc::clone(&plan.shape), Arc::clone(list))
    }

    /// Forgets the plans and lists of no port.
    pub fn forget_unused(&mut self) {
        for plan in self.plans.values_mut() {
            plan.lists.retain(|_, list| Arc::strong_count(list) > 1);
        }
        self.plans.retain(|_, plan| Arc::strong_count(&plan.shape) > 1);
    }
}

/// The counter of each series: among several names of one series, that of the widest attribute.
fn assign(names: &[Arc<str>], wait: Option<f64>) -> Vec<Assigned> {
    let mut best: HashMap<_, Assigned> = HashMap::new();
    for (raw, name) in names.iter().enumerate() {
        let Some(bound) = bind(None, LinkLayer::InfiniBand, CounterSource::PmaMad, name) else { continue };
        let bound = match wait {
            Some(bytes) if *bound.metric == XMIT_WAIT_TICKS => {
                BoundCounter { metric: &XMIT_WAIT, scale: bytes, ..bound }
            }
            _ => bound,
        };
        let key = (bound.metric.name, bound.labels.clone());
        if best.get(&key).is_none_or(|had| bound.rank < had.bound.rank) {
            best.insert(key, Assigned { raw, bound });
        }
    }
    let mut assigned: Vec<Assigned> = best.into_values().collect();
    assigned.sort_by_key(|a| a.raw);
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Arc<[Arc<str>]> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    #[test]
    fn wide_counters_go_before_narrow_ones() {
        let names =
            names(&["PortCounters/PortXmitData", "PortCountersExtended/PortXmitData", "PortCounters/PortXmitWait"]);
        let fed = |wait| {
            let assigned = assign(&names, wait);
            assigned.iter().map(|a| (a.raw, a.bound.metric.name, a.bound.scale)).collect::<Vec<_>>()
        };
        let io = (1, "fabric.port.io", 4.0);
        assert_eq!(fed(Some(8.0)), [io, (2, "fabric.port.xmit_wait", 8.0)]);
        assert_eq!(fed(None), [io, (2, "fabric.port.xmit_wait.ticks", 1.0)]);
    }

    #[test]
    fn ports_of_a_kind_share_their_lists() {
        let (mut plans, wide) = (PortPlans::default(), ["PortCountersExtended/PortXmitWait"]);
        let of = |plans: &mut PortPlans, wait, states| plans.get(&names(&wide), wait, states);
        let (shape, list) = of(&mut plans, Some(8.0), 0b101);
        let metrics: Vec<&str> = list.iter().map(|column| column.metric.name).collect();
        let share = "fabric.port.xmit_wait.share";
        assert_eq!(metrics, ["fabric.port.xmit_wait", share, "fabric.port.up", "fabric.port.physical_state"]);
        let (same_shape, same_list) = of(&mut plans, Some(8.0), 0b101);
        assert!(Arc::ptr_eq(&shape, &same_shape) && Arc::ptr_eq(&list, &same_list));
        let (shape_of_other, other_list) = of(&mut plans, Some(8.0), 0b1);
        assert!(Arc::ptr_eq(&shape, &shape_of_other) && other_list.len() == 3);
        assert!(!Arc::ptr_eq(&shape, &of(&mut plans, Some(16.0), 0b1).0), "another length of a tick");
        drop((same_shape, same_list, shape_of_other, other_list, list));
        plans.forget_unused();
        assert_eq!((plans.plans.len(), plans.plans.values().map(|plan| plan.lists.len()).sum::<usize>()), (1, 0));
        drop(shape);
        plans.forget_unused();
        assert!(plans.plans.is_empty());
    }
}
