//! Switches and cables that only traces show. They enter the topology as the least trusted source: a switch is named by its
//! address, so that its links can be told apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use fabriclens_base::SenderUsage;
use fabriclens_correlate::topology::{Cable, CableEnd, TopologySource};
use fabriclens_correlate::{PortName, Provenance, Role};

use crate::hops::{FabricIndex, Trace, address_of, switch_name};
use crate::registry::Reporter;

/// Most cables, of which one sender has a part ([`fabriclens_base::Sender::may_keep`]), and most that one host reports first.
const CABLES: usize = 16_384;
const CABLES_OF_HOST: usize = 512;
/// Traces that must show a cable.
const SEEN: u32 = 2;
/// How long a cable that no trace shows stays, nanoseconds: routes move, and versions of the topology are kept.
const KEPT_NS: i64 = 6 * 3_600_000_000_000;
/// Shortest time between two changes of the source, nanoseconds.
const PAUSE_NS: i64 = 20_000_000_000;

/// One end of a cable.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum End {
    /// A host port.
    Port(String, String),
    /// A switch that its cable names.
    Switch(String),
    /// A switch that answered by this address.
    Address(IpAddr),
}

impl End {
    /// A switch by its name in the topology, which may be made of its address.
    fn of_switch(name: String) -> Self {
        address_of(&name).map_or(Self::Switch(name), Self::Address)
    }
}

/// A cable and when it was seen, Unix nanoseconds.
#[derive(Debug)]
struct Seen {
    times: u32,
    last_ns: i64,
    by: Arc<Reporter>,
}

/// What traces showed.
#[derive(Default)]
pub(crate) struct InferredSwitches {
    cables: HashMap<(End, End), Seen>,
    of_host: HashMap<Arc<str>, usize>,
    usage: SenderUsage,
    published: BTreeSet<(End, End)>,
    changed_ns: i64,
}

impl InferredSwitches {
    /// Notes the cables of a trace that no better source knows.
    pub fn note(&mut self, trace: &Trace, index: &FabricIndex) {
        if !trace.complete {
            return;
        }
        let reporter = &trace.by;
        let end = trace.hops.len().saturating_sub(1);
        let leaf = |port: &PortName| {
            let (node, _, known) = index.leaf(port)?;
            Some((index.topology().nodes[node].name.clone(), known))
        };
        let switch = |at: usize| -> Option<End> {
            let port = if at == 0 { Some(&trace.flow.from) } else { (at == end).then_some(&trace.flow.to) };
            // Also where only other traces tell the leaf: here it may answer by another address.
            if let Some((name, _)) = port.and_then(leaf) {
                return Some(End::of_switch(name));
            }
            match trace.hops[at].as_slice() {
                [one] => Some(End::Address(*one)),
                _ => None,
            }
        };
        let switches: Vec<Option<End>> = (0..trace.hops.len()).map(switch).collect();
        let port = |port: &PortName| End::Port(port.node.clone(), port.port.clone());
        let is_better_known = leaf(&trace.flow.from).is_some_and(|(_, known)| known != Provenance::Traced);
        if let (false, Some([first])) = (is_better_known, trace.hops.first().map(Vec::as_slice)) {
            self.cable((port(&trace.flow.from), End::Address(*first)), reporter, trace.at_ns);
        }
        for two in switches.windows(2) {
            let [Some(a), Some(b)] = two else { continue };
            // Links between switches that are both known have a better source, or none.
            if a != b && [a, b].iter().any(|end| matches!(end, End::Address(_))) {
                self.cable((a.clone(), b.clone()), reporter, trace.at_ns);
            }
        }
    }

    fn cable(&mut self, ends: (End, End), reporter: &Arc<Reporter>, at_ns: i64) {
        let back = (ends.1.clone(), ends.0.clone());
        let known = if self.cables.contains_key(&back) { back } else { ends };
        if let Some(seen) = self.cables.get_mut(&known) {
            seen.times = seen.times.saturating_add(1);
            seen.last_ns = seen.last_ns.max(at_ns);
            return;
        }
        let of_host = self.of_host.get(&reporter.host).copied().unwrap_or(0);
        if self.usage.room(reporter.sender(), CABLES) == 0 || of_host >= CABLES_OF_HOST {
            return;
        }
        *self.of_host.entry(reporter.host.clone()).or_default() += 1;
        self.usage.add(reporter.sender(), 1);
        self.cables.insert(known, Seen { times: 1, last_ns: at_ns, by: reporter.clone() });
    }

    /// The source, if it has changed: not more often than each [`PAUSE_NS`].
    pub fn changed(&mut self, index: &FabricIndex, now_ns: i64) -> Option<TopologySource> {
        self.forget(now_ns);
        if now_ns < self.changed_ns.saturating_add(PAUSE_NS) {
            return None;
        }
        let is_better_known = |(a, _): &(End, End)| match a {
            End::Port(host, port) => index
                .leaf(&PortName { node: host.clone(), port: port.clone() })
                .is_some_and(|(_, _, known)| known != Provenance::Traced),
            _ => false,
        };
        let now: BTreeSet<(End, End)> = self
            .cables
            .iter()
            .filter(|(ends, seen)| seen.times >= SEEN && !is_better_known(ends))
            .map(|(ends, _)| (name(&ends.0, index), name(&ends.1, index)))
            .collect();
        if now == self.published {
            return None;
        }
        (self.published, self.changed_ns) = (now, now_ns);
        Some(self.as_source())
    }

    fn forget(&mut self, now_ns: i64) {
        let Self { cables, of_host, usage, .. } = self;
        cables.retain(|_, seen| {
            let stays = seen.last_ns.saturating_add(KEPT_NS) > now_ns;
            if !stays {
                usage.remove(seen.by.sender(), 1);
                if let Some(count) = of_host.get_mut(&seen.by.host) {
                    *count -= 1;
                }
            }
            stays
        });
        of_host.retain(|_, count| *count > 0);
    }

    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.cables.len()
    }

    fn as_source(&self) -> TopologySource {
        let mut source = TopologySource::new("traces of agents", "traces");
        let mut nodes: BTreeMap<String, Role> = BTreeMap::new();
        let mut side = |end: &End| {
            let (node, port, role) = match end {
                End::Port(host, port) => (host.clone(), port.clone(), Role::Host),
                End::Switch(name) => (name.clone(), String::new(), Role::Spine),
                End::Address(ip) => (switch_name(*ip), String::new(), Role::Spine),
            };
            nodes.insert(node.clone(), role);
            CableEnd { node, port, ..CableEnd::default() }
        };
        for (a, b) in &self.published {
            let sides = [side(a), side(b)];
            source.cable(0, Cable { sides, rate: None, rail: None, known: Provenance::Traced });
        }
        source.nodes = nodes.into_iter().collect();
        source
    }
}

/// The end by the name that a better source gives to its address.
fn name(end: &End, index: &FabricIndex) -> End {
    match end {
        End::Address(ip) => index.name_of(*ip).map_or_else(|| end.clone(), |name| End::Switch(name.to_owned())),
        _ => end.clone(),
    }
}
