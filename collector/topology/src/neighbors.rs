//! Neighbors as reported by switches, remembered for a while: a switch that is not read for a moment was not unplugged.

use std::collections::BTreeMap;

use fabriclens_core::host_senders::HostSenders;
use fabriclens_correlate::topology::SwitchNeighbor;

use super::bounds::{self, NodeUsage};

/// How long the neighbors of a silent switch stay, ms.
const REMEMBERED_MS: i64 = 600_000;

/// Neighbors that switches report.
#[derive(Default)]
pub(super) struct Neighbors {
    /// Time of the last report, and neighbors in order of ports, by switch.
    of: BTreeMap<String, (i64, Vec<SwitchNeighbor>)>,
    senders: HostSenders,
}

impl Neighbors {
    /// Restores the neighbors known when the collector stopped, as if reported now.
    pub(super) fn resume(reports: Vec<SwitchNeighbor>, senders: HostSenders, now_ms: i64) -> Self {
        let mut neighbors = Self { senders, ..Self::default() };
        neighbors.update(reports, now_ms);
        neighbors
    }

    /// Takes the present neighbors of all switches; a switch that reports replaces what it reported before. Returns a switch
    /// with ports beyond the bounds, if there is one.
    pub(super) fn update(&mut self, mut reports: Vec<SwitchNeighbor>, now_ms: i64) -> Option<String> {
        reports.sort();
        self.of.retain(|_, (reported_ms, _)| now_ms.saturating_sub(*reported_ms) < REMEMBERED_MS);
        let of_switch = |reports: &[SwitchNeighbor]| reports[0].switch.clone();
        let chunks = || reports.chunk_by(|a, b| a.switch == b.switch);
        chunks().for_each(|ports| _ = self.of.remove(&of_switch(ports)));
        let (mut usage, mut beyond) = (NodeUsage::new(&self.senders), None);
        for (switch, (_, ports)) in &self.of {
            ports.iter().for_each(|port| _ = usage.take(switch, None, bytes(port).unwrap_or_default()));
        }
        for ports in chunks() {
            let fits = |port: &&SwitchNeighbor| bytes(port).is_some_and(|new| usage.take(&port.switch, None, new));
            let kept: Vec<SwitchNeighbor> = ports.iter().filter(fits).cloned().collect();
            if kept.len() < ports.len() {
                beyond = Some(of_switch(ports));
            }
            if !kept.is_empty() {
                self.of.insert(of_switch(ports), (now_ms, kept));
            }
        }
        beyond
    }

    /// All neighbors.
    pub(super) fn all(&self) -> Vec<SwitchNeighbor> {
        self.of.values().flat_map(|(_, ports)| ports).cloned().collect()
    }
}

/// Bytes of the names of a port; `None` if one is too long.
fn bytes(port: &SwitchNeighbor) -> Option<usize> {
    let SwitchNeighbor { switch, port, neighbor, neighbor_port, neighbor_address } = port;
    bounds::bytes(&[switch, port, neighbor, neighbor_port, neighbor_address])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::OF_NODE;

    #[test]
    fn one_switch_cannot_fill_the_topology() {
        let mut neighbors = Neighbors::default();
        let of = |switch: &str, ports: usize| (0..ports).map(|n| neighbor(switch, &n.to_string())).collect::<Vec<_>>();
        let told = [of("a", OF_NODE + 1), of("b", 2), of(&"x".repeat(256), 1)].concat();
        assert!(neighbors.update(told, 0).is_some_and(|switch| switch.len() == 256));
        assert_eq!(neighbors.all().len(), OF_NODE + 2);
        assert_eq!(neighbors.update(of("a", OF_NODE), 1), None, "it replaces what it reported before");
        assert_eq!(neighbors.all().len(), OF_NODE + 2);
    }

    fn neighbor(switch: &str, port: &str) -> SwitchNeighbor {
        SwitchNeighbor { switch: switch.into(), port: port.into(), neighbor: "h".into(), ..SwitchNeighbor::default() }
    }

    #[test]
    fn silent_switches_are_remembered_and_pulled_cables_are_not() {
        let mut neighbors = Neighbors::default();
        neighbors.update(vec![neighbor("b", "1"), neighbor("a", "2"), neighbor("a", "1")], 0);
        neighbors.update(vec![neighbor("b", "3")], REMEMBERED_MS - 1);
        assert_eq!(neighbors.all(), [neighbor("a", "1"), neighbor("a", "2"), neighbor("b", "3")]);
        neighbors.update(Vec::new(), REMEMBERED_MS);
        assert_eq!(neighbors.all(), [neighbor("b", "3")]);
    }
}
