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
pub fn wait_bytes(info: &NodeInfo, tick: Option<u8>, lanes: u8) -> Option<f64> {
    let per_lane = matches!(info.device, 0xc738 | 0xcb20 | 0xcf08);
    // ConnectX-3 to -8 (0x1003 to 0x1025), Quantum to Quantum-3 (0xd2f0 to 0xd2f4).
    let per_port = matches!(info.device, 0x1003..=0x1025 | 0xd2f0..=0xd2f4);
    match (info.vendor == MELLANOX, tick) {
        (true, Some(code)) if per_port => Some(f64::from(code) + 1.0),
        (true, Some(code)) if per_lane && lanes > 0 => Some((f64::from(code) + 1.0) * f64::from(lanes)),
        (true, None) if per_port => Some(8.0),
        _ => None,
    }
}

/// Series of one port.
pub struct PortSeries {
    resource: Arc<Resource>,
    /// Bytes per wait tick.
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
        let resource = Arc::new(resource);
        Self { resource, wait: None, rate_bits: None, rate_most: 0, downs: None, facts: Vec::new(), basic, details }
    }

    /// Identity of the port.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Sets what a sweep found. True if the link went up or down.
    pub fn set_state(&mut self, info: &PortInfo, wait: Option<f64>, labels: Labels) -> bool {
        let (was_up, is_up) = (self.is_up(), info.is_active());
        if self.wait != wait {
            // The next reading is planned again.
            self.wait = wait;
            if let Some((generation, _)) = &mut self.basic.plan {
                *generation = u64::MAX;
            }
        }
        self.rate_bits = info.rate_bits().filter(|_| info.is_linked());
        self.rate_most = self.rate_most.max(self.rate_bits.unwrap_or(0));
        let mut facts = vec![
            (&state::PORT_INFO, Some(1)),
            (&state::PORT_UP, Some(is_up.into())),
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
        was_up.is_some_and(|was| was != is_up)
    }

    fn is_up(&self) -> Option<bool> {
        let up = self.facts.iter().find(|(column, _)| *column.metric == state::PORT_UP)?;
        Some(up.1 == Value::Int(1))
    }

    /// Section of a reading that took from `begin_ns` to `end_ns`, with the port's state if the counters are the basic
    /// ones.
    pub fn section(&mut self, reading: &Reading, [begin_ns, end_ns]: [u64; 2], at: Instant) -> Section {
        let known_rate = self.rate_bits.map(|bits| bits as f64 / 8.0);
        let rate = if self.rate_most > 0 { self.rate_most as f64 / 8.0 } else { UNKNOWN_RATE };
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
            Some((planned, plan)) if planned == generation => plan,
            former => planned(batch, self.wait, former.map(|(_, plan)| plan).as_ref()),
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
