//! Plans by host, encoded: a request is answered from this table and computes nothing.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use bytes::Bytes;
use fabriclens_base::host_name;
use foldhash::quality::RandomState;

use crate::targets::Unused;

/// A pair that a plan names.
#[derive(Clone, Copy, Debug)]
struct PlannedPair {
    /// Hash of the names.
    key: u64,
    /// Its source ports.
    ports: [u32; 2],
    /// Source port of answers, where the responder's driver fixes it.
    answer: Option<u16>,
}

/// The plan of a host.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostPlan {
    /// Encoded [`fabriclens_probe_plan::PlanReply`].
    pub reply: Bytes,
    /// In order of keys.
    pairs: Vec<PlannedPair>,
    source_ports: Vec<u16>,
}

/// What a plan says of a pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned<'a> {
    /// Source ports; empty on InfiniBand.
    pub source_ports: &'a [u16],
    /// Source port of answers, where the responder's driver fixes it; `None`: that of the probe.
    pub answer: Option<u16>,
}

/// What all plans amount to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// Hosts whose agents ask for plans.
    pub hosts: usize,
    /// Ports that plans use.
    pub ports: usize,
    /// Pairs by class name.
    pub pairs: HashMap<&'static str, usize>,
    /// Probes per second, with TCP twins.
    pub probes_per_s: f64,
    /// Traces per second.
    pub traces_per_s: f64,
    /// Pairs that did not fit into the plan of their host.
    pub left_out: usize,
    /// Encoded bytes.
    pub bytes: usize,
    /// Ports that no plan uses, and why.
    pub unused: Vec<(Arc<str>, String, Unused)>,
}

/// All plans.
#[derive(Default)]
pub(crate) struct PlanTable {
    hosts: HashMap<String, HostPlan>,
    hash: RandomState,
    /// Sums over all hosts.
    pub totals: Totals,
}

impl PlanTable {
    /// Adds the plan of a host: the encoded reply, and for each pair its names (own port, other host, its port), source ports and
    /// source port of answers.
    pub fn add<'a>(
        &mut self,
        host: &str,
        reply: Bytes,
        pairs: impl Iterator<Item = ([&'a str; 3], &'a [u16], Option<u16>)>,
    ) {
        let mut plan = HostPlan { reply, ..HostPlan::default() };
        for (names, ports, answer) in pairs {
            let begin = plan.source_ports.len() as u32;
            plan.source_ports.extend_from_slice(ports);
            let ports = [begin, plan.source_ports.len() as u32];
            plan.pairs.push(PlannedPair { key: self.hash.hash_one(names), ports, answer });
        }
        plan.pairs.sort_by_key(|pair| pair.key);
        self.hosts.insert(host_name::key(host), plan);
    }

    /// The encoded plan of a host.
    pub fn reply(&self, host: &str) -> Option<Bytes> {
        self.hosts.get(&host_name::key(host)).map(|plan| plan.reply.clone())
    }

    /// What the plan of a host says of a pair: own port, other host, its port. `None` if it does not name it.
    pub fn pair(&self, host: &str, names: [&str; 3]) -> Option<Planned<'_>> {
        let plan = self.hosts.get(&host_name::key(host))?;
        let key = self.hash.hash_one(names);
        let pair = plan.pairs.get(plan.pairs.binary_search_by_key(&key, |pair| pair.key).ok()?)?;
        let [from, to] = pair.ports.map(|at| at as usize);
        Some(Planned { source_ports: &plan.source_ports[from..to], answer: pair.answer })
    }
}
