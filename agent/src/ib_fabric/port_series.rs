//! Series of one port of the subnet: its counters, extended across wraps and resets like those of the host's own ports,
//! and its state.

use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_mad::counters::{Group, Reading};
use fabriclens_agent_mad::smp::{NodeInfo, PortInfo};
use fabriclens_agent_samplers::plan::{Assigned, Carried, ReadContext, SourcePlan};
use fabriclens_catalog::metrics::congestion::{XMIT_WAIT, XMIT_WAIT_TICKS};
use fabriclens_catalog::metrics::state;
use fabriclens_catalog::{BoundCounter, CounterSource, LinkLayer, bind};
use fabriclens_wire::{Column, Resource, Section, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Upper bound of the link speed while it is unknown, bytes per second: faster than any port.
const UNKNOWN_RATE: f64 = 2e11;
/// Vendor that the rules of wait ticks hold for (Mellanox, NVIDIA).
const MELLANOX: u32 = 0x2c9;

/// Labels besides the identity.
type Labels = Vec<(Arc<str>, Arc<str>)>;

/// Bytes that a port could have sent in one tick of its wait counter; `None` if it is not known.
///
/// A tick is (code + 1) bytes of the whole port on Quantum switches and ConnectX adapters, and of each lane on
/// Switch-IB and SwitchX (ibdiagnet's manual). Quantum switches and ConnectX adapters that do not tell their code have 7.
fn wait_bytes([vendor, device]: [u32; 2], tick: Option<u8>, lanes: u8) -> Option<f64> {
    let per_lane = matches!(device, 0xc738 | 0xcb20 | 0xcf08);
    // ConnectX-3 to -8 (0x1003 to 0x1025), Quantum to Quantum-3 (0xd2f0 to 0xd2f4).
    let per_port = matches!(device, 0x1003..=0x1025 | 0xd2f0..=0xd2f4);
    match (vendor == MELLANOX, tick) {
        (true, Some(code)) if per_port => Some(f64::from(code) + 1.0),
        (true, Some(code)) if per_lane && lanes > 0 => Some((f64::from(code) + 1.0) * f64::from(lanes)),
        (true, None) if per_port => Some(8.0),
        _ => None,
    }
}

/// Series of one port.
pub struct PortSeries {
    resource: Arc<Resource>,
    /// Vendor and device id of the node, and lanes of the link: what the length of a wait tick depends on.
    kind: [u32; 2],
    lanes: u8,
    /// Bytes per wait tick that the plan has.
    wait: Option<f64>,
    rate_bits: Option<u64>,
    /// Largest rate so far: counters may contain growth at a higher speed.
    rate_most: u64,
    /// Last `LinkDownedCounter`.
    downs: Option<u64>,
    facts: Vec<(Column, Value)>,
    basic: Counters,
    details: Counters,
}

#[derive(Default)]
struct Counters {
    batch: Batch,
    plan: Option<(u64, SourcePlan)>,
    /// Columns of the last section.
    columns: Option<Arc<[Column]>>,
}

impl PortSeries {
    /// Series of a port without values yet.
    pub fn new(resource: Resource) -> Self {
        let (basic, details) = (Counters::default(), Counters::default());
        let (resource, facts) = (Arc::new(resource), Vec::new());
        let (kind, lanes, wait, rate_bits, rate_most, downs) = ([0; 2], 0, None, None, 0, None);
        Self { resource, kind, lanes, wait, rate_bits, rate_most, downs, facts, basic, details }
    }

    /// Identity of the port.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Sets what a sweep found.
    pub fn set_state(&mut self, node: &NodeInfo, info: &PortInfo, labels: Labels) {
        self.kind = [node.vendor, node.device.into()];
        // The state of a link that is down has no lanes; its wait counters ran with the lanes that it had before.
        if info.lanes > 0 {
            self.lanes = info.lanes;
        }
        self.rate_bits = info.rate_bits().filter(|_| info.is_linked());
        self.rate_most = self.rate_most.max(self.rate_bits.unwrap_or(0));
        let mut facts = vec![
            (&state::PORT_INFO, Some(1)),
            (&state::PORT_UP, Some(info.is_active().into())),
            (&state::PORT_STATE, Some(info.state.into()).filter(|state| *state > 0)),
            (&state::PORT_PHYSICAL_STATE, Some(info.physical_state.into()).filter(|state| *state > 0)),
        ];
        if info.is_linked() {
            facts.extend([
                (&state::PORT_RATE, self.rate_bits.map(|bits| bits / 8)),
                (&state::PORT_WIDTH, Some(info.lanes.into()).filter(|lanes| *lanes > 0)),
                (&state::PORT_MTU, Some(info.mtu.into()).filter(|mtu| *mtu > 0)),
            ]);
        }
        let had = std::mem::take(&mut self.facts);
        let labels_of = |metric: &'static fabriclens_catalog::Metric| {
            if std::ptr::eq(metric, &raw const state::PORT_INFO) { labels.clone() } else { Vec::new() }
        };
        let facts = facts.into_iter().filter_map(|(metric, value)| Some((metric, value?)));
        self.facts =
            facts.map(|(metric, value)| (Column { metric, labels: labels_of(metric) }, Value::Int(value))).collect();
        if had.iter().map(|(c, _)| c).ne(self.facts.iter().map(|(c, _)| c)) {
            // Ended facts get a last, stale value; the next section has the new list.
            let ended = had.into_iter().filter(|(c, _)| self.facts.iter().all(|(new, _)| new != c));
            let ended: Vec<_> = ended.map(|(column, _)| (column, Value::Stale)).collect();
            self.facts.extend(ended);
        }
    }

    /// Section of a reading that took from `begin_ns` to `end_ns`, with the port's state if the counters are the basic
    /// ones.
    pub fn section(&mut self, reading: &Reading, [begin_ns, end_ns]: [u64; 2], at: Instant) -> Section {
        let known_rate = self.rate_bits.map(|bits| bits as f64 / 8.0);
        let rate = if self.rate_most > 0 { self.rate_most as f64 / 8.0 } else { UNKNOWN_RATE };
        let wait = wait_bytes(self.kind, reading.tick, self.lanes);
        let same_wait = wait == self.wait;
        if reading.group == Group::Basic {
            self.wait = wait;
        }
        let (counters, facts) = match reading.group {
            Group::Basic => (&mut self.basic, self.facts.as_slice()),
            Group::Details => (&mut self.details, &[][..]),
        };
        let Counters { batch, plan, columns } = counters;
        batch.begin();
        batch.set_names(&reading.names);
        batch.values.clone_from(&reading.values);
        let generation = batch.generation();
        let former = plan.take();
        let mut current = match former {
            Some((planned, plan)) if planned == generation && (same_wait || reading.group != Group::Basic) => plan,
            former => planned(batch, wait, former.map(|(_, plan)| plan).as_ref()),
        };
        let urgent = current.take_full(batch, ReadContext { at, begin_ns, rate, known_rate });
        let mut starts = current.starts().to_vec();
        let mut values = current.values(batch, known_rate);
        let mut more = Vec::new();
        current.saturated(&mut more);
        more.extend(facts.iter().cloned());
        let list = current.columns();
        let list = || list.iter().chain(more.iter().map(|(column, _)| column));
        let shared = match columns {
            Some(had) if had.iter().eq(list()) => Arc::clone(had),
            columns => Arc::clone(columns.insert(list().cloned().collect())),
        };
        *plan = Some((generation, current));
        starts.extend(more.iter().map(|_| 0));
        values.extend(more.into_iter().map(|(_, value)| value));
        if reading.group == Group::Basic {
            self.facts.retain(|(_, value)| *value != Value::Stale);
        }
        let (resource, starts) = (Arc::clone(&self.resource), starts.into());
        Section { resource, columns: shared, begin_ns, end_ns, starts, values, urgent }
    }

    /// True if the device has counted since the last reading that the link went down.
    pub fn went_down(&mut self, reading: &Reading) -> bool {
        let at = reading.names.iter().position(|name| name.ends_with("/LinkDownedCounter"));
        let Some(now) = at.and_then(|at| reading.values[at]) else { return false };
        self.downs.replace(now).is_some_and(|before| now > before)
    }

    /// Ends all series.
    pub fn close(&mut self, now_ns: u64) -> Vec<Section> {
        let resource = &self.resource;
        let lists = [self.basic.columns.take(), self.details.columns.take()];
        let stale = |columns: Arc<[Column]>| Section {
            resource: Arc::clone(resource),
            starts: vec![0; columns.len()].into(),
            values: vec![Value::Stale; columns.len()],
            columns,
            begin_ns: now_ns,
            end_ns: now_ns,
            urgent: false,
        };
        lists.into_iter().flatten().map(stale).collect()
    }
}

/// Plan for the names of a batch; totals of surviving series are kept.
fn planned(batch: &Batch, wait: Option<f64>, former: Option<&SourcePlan>) -> SourcePlan {
    let mut carried = Carried::new();
    if let Some(plan) = former {
        plan.carry(&mut carried);
    }
    SourcePlan::new(batch, &assign(batch.names(), wait), false, &carried, former)
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

    #[test]
    fn length_of_a_wait_tick_follows_the_generation() {
        let of = |device, tick| wait_bytes([MELLANOX, device], tick, 4);
        assert_eq!((of(0xd2f2, Some(7)), of(0xd2f2, None)), (Some(8.0), Some(8.0)), "Quantum-2");
        assert_eq!((of(0xcf08, Some(31)), of(0xcf08, None)), (Some(128.0), None), "Switch-IB 2, each lane");
        assert_eq!((of(0x1021, None), of(0xbeef, Some(7))), (Some(8.0), None));
        assert_eq!(wait_bytes([1, 0xd2f2], Some(7), 4), None, "another vendor");
    }

    #[test]
    fn wide_counters_go_before_narrow_ones() {
        let names: Vec<Arc<str>> =
            ["PortCounters/PortXmitData", "PortCountersExtended/PortXmitData", "PortCounters/PortXmitWait"]
                .map(Arc::from)
                .to_vec();
        let fed = |wait| {
            let assigned = assign(&names, wait);
            assigned.iter().map(|a| (a.raw, a.bound.metric.name, a.bound.scale)).collect::<Vec<_>>()
        };
        let io = (1, "fabric.port.io", 4.0);
        assert_eq!(fed(Some(8.0)), [io, (2, "fabric.port.xmit_wait", 8.0)]);
        assert_eq!(fed(None), [io, (2, "fabric.port.xmit_wait.ticks", 1.0)]);
    }
}
