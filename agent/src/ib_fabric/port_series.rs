//! Series of one port of the subnet: its counters, extended across wraps and resets like those of the host's own ports,
//! and its state.

use super::own_facts::OwnFacts;
use super::port_plans::{PortPlans, STATES};
use fabriclens_agent_mad::counters::{Group, Reading};
use fabriclens_agent_mad::smp::{NodeInfo, PortInfo};
use fabriclens_agent_samplers::plan::{Carried, ReadContext, SourcePlan, saturated};
use fabriclens_catalog::metrics::link::COUNTER_SATURATED;
use fabriclens_catalog::metrics::state::PORT_INFO;
use fabriclens_wire::{Column, Resource, Section, Value};
use std::sync::Arc;
use std::time::Instant;

/// Upper bound of the link speed while it is unknown, bytes per second: faster than any port.
const UNKNOWN_RATE: f64 = 2e11;
/// Vendor that the rules of wait ticks hold for (Mellanox, NVIDIA).
const MELLANOX: u32 = 0x2c9;
/// Distance of the end of a series from its last sample: the resolution of stored times, nanoseconds.
const MARKER_NS: u64 = 1_000_000;

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

/// Series of one port. Thousands are in memory: whatever ports have in common is in [`PortPlans`].
pub struct PortSeries {
    resource: Arc<Resource>,
    /// Vendor and device id of the node, and lanes of the link: what the length of a wait tick depends on.
    kind: [u32; 2],
    lanes: u8,
    rate_bits: Option<u64>,
    /// Largest rate so far: counters may contain growth at a higher speed.
    rate_most: u64,
    /// Last `LinkDownedCounter`.
    downs: Option<u64>,
    /// Values of [`STATES`], and which of them the last section had, one bit each.
    states: [Option<u64>; STATES.len()],
    sent_states: u8,
    basic: Counters,
    details: Counters,
    /// Time of the last section of counters, Unix nanoseconds.
    last_ns: u64,
}

/// Counters of one group.
#[derive(Default)]
struct Counters {
    /// Names and bytes per wait tick that the plan is for.
    names: Arc<[Arc<str>]>,
    wait: Option<f64>,
    plan: Option<SourcePlan>,
    /// Columns of the last section, and the states among them.
    columns: Arc<[Column]>,
    states: u8,
    own: OwnFacts,
    /// Time of the last section of `own`, Unix nanoseconds.
    own_ns: u64,
}

impl Counters {
    /// Takes plan and column list for these names and states; the totals of surviving series are kept.
    fn prepare(&mut self, plans: &mut PortPlans, names: &Arc<[Arc<str>]>, wait: Option<f64>, states: u8) {
        let same_plan = self.plan.is_some() && Arc::ptr_eq(&self.names, names) && self.wait == wait;
        if same_plan && self.states == states {
            return;
        }
        let (shape, columns) = plans.get(names, wait, states);
        (self.columns, self.states) = (columns, states);
        if !same_plan {
            let mut carried = Carried::new();
            if let Some(plan) = &self.plan {
                plan.carry(&mut carried);
            }
            self.plan = Some(SourcePlan::new(shape, &carried, self.plan.as_ref()));
            (self.names, self.wait) = (Arc::clone(names), wait);
        }
    }
}

/// Bits of the states that have a value.
fn present(states: &[Option<u64>]) -> u8 {
    states.iter().enumerate().fold(0, |bits, (bit, state)| bits | u8::from(state.is_some()) << bit)
}

impl PortSeries {
    /// Series of a port without values yet.
    pub fn new(resource: Resource) -> Self {
        let (basic, details) = (Counters::default(), Counters::default());
        let (resource, states, sent_states) = (Arc::new(resource), [None; STATES.len()], 0);
        let (kind, lanes, rate_bits, rate_most, downs, last_ns) = ([0; 2], 0, None, 0, None, 0);
        Self { resource, kind, lanes, rate_bits, rate_most, downs, states, sent_states, basic, details, last_ns }
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
        let some = |value: u64| Some(value).filter(|value| *value > 0);
        let linked = |value: u64| some(value).filter(|_| info.is_linked());
        self.states = [
            Some(info.is_active().into()),
            some(info.state.into()),
            some(info.physical_state.into()),
            self.rate_bits.map(|bits| bits / 8),
            linked(info.lanes.into()),
            linked(info.mtu.into()),
        ];
        self.basic.own.set(&PORT_INFO, vec![Column { metric: &PORT_INFO, labels }]);
    }

    /// Pushes the sections of a reading that took from `begin_ns` to `end_ns`: the counters, with the port's state if they
    /// are the basic ones, and facts of its own if they are due.
    pub fn take(
        &mut self,
        reading: Reading,
        plans: &mut PortPlans,
        [begin_ns, end_ns]: [u64; 2],
        at: Instant,
        push: &dyn Fn(Section),
    ) {
        let known_rate = self.rate_bits.map(|bits| bits as f64 / 8.0);
        let rate = if self.rate_most > 0 { self.rate_most as f64 / 8.0 } else { UNKNOWN_RATE };
        let wait = wait_bytes(self.kind, reading.tick, self.lanes);
        let (counters, states) = match reading.group {
            Group::Basic => {
                // An ended state gets a last, stale value.
                let now = present(&self.states);
                let states = std::mem::replace(&mut self.sent_states, now) | now;
                (&mut self.basic, states)
            }
            Group::Details => (&mut self.details, 0),
        };
        counters.prepare(plans, &reading.names, wait, states);
        let Some(plan) = &mut counters.plan else { return };
        let batch = &mut plans.batch;
        batch.begin();
        batch.values = reading.values;
        let urgent = plan.take_full(batch, ReadContext { at, begin_ns, rate, known_rate });
        let more = states.count_ones() as usize;
        let mut values = plan.values(batch, known_rate, more);
        let states = self.states.iter().enumerate().filter(|(bit, _)| states >> bit & 1 == 1);
        values.extend(states.map(|(_, state)| state.map_or(Value::Stale, Value::Int)));
        self.last_ns = end_ns;
        let section = |columns: Arc<[Column]>, starts, values, urgent| Section {
            resource: Arc::clone(&self.resource),
            columns,
            begin_ns,
            end_ns,
            starts,
            values,
            urgent,
        };
        push(section(Arc::clone(&counters.columns), plan.starts(more), values, urgent));
        counters.own.set(&COUNTER_SATURATED, plan.saturated().map(saturated).collect());
        if let Some((columns, values)) = counters.own.due(at) {
            counters.own_ns = end_ns;
            push(section(columns, vec![0; values.len()].into(), values, false));
        }
    }

    /// True if the device has counted since the last reading that the link went down.
    pub fn went_down(&mut self, reading: &Reading) -> bool {
        let at = reading.names.iter().position(|name| name.ends_with("/LinkDownedCounter"));
        let Some(now) = at.and_then(|at| reading.values[at]) else { return false };
        self.downs.replace(now).is_some_and(|before| now > before)
    }

    /// Ends all series at a time, Unix nanoseconds; `None`: right after their last samples.
    pub fn close(&mut self, now_ns: Option<u64>) -> Vec<Section> {
        let (resource, last_ns) = (&self.resource, self.last_ns);
        let mut ended = Vec::new();
        for counters in [&mut self.basic, &mut self.details] {
            let own_ns = counters.own_ns;
            ended.extend(counters.own.take().map(|columns| (columns, own_ns)));
        }
        for counters in [&mut self.basic, &mut self.details] {
            let counters = std::mem::take(counters);
            ended.extend(counters.plan.map(|_| (counters.columns, last_ns)));
        }
        let stale = |(columns, last_ns): (Arc<[Column]>, u64)| {
            Section::ended(resource, columns, now_ns.unwrap_or(last_ns + MARKER_NS))
        };
        ended.into_iter().map(stale).collect()
    }
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
}
