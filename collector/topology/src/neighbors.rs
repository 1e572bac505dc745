//! Neighbors as reported by switches, remembered for a while: a switch that is not read for a moment was not unplugged.

use std::collections::BTreeMap;

use fabriclens_correlate::topology::SwitchNeighbor;

/// How long the neighbors of a silent switch stay, ms.
const REMEMBERED_MS: i64 = 600_000;

/// Time of the last report, and neighbors in order of ports, by switch.
#[derive(Default)]
pub(super) struct Neighbors(BTreeMap<String, (i64, Vec<SwitchNeighbor>)>);

impl Neighbors {
    /// Takes the present neighbors of all switches; a switch that reports replaces what it reported before.
    pub(super) fn update(&mut self, mut reports: Vec<SwitchNeighbor>, now_ms: i64) {
        reports.sort();
        for ports in reports.chunk_by(|a, b| a.switch == b.switch) {
            self.0.insert(ports[0].switch.clone(), (now_ms, ports.to_vec()));
        }
        self.0.retain(|_, (reported_ms, _)| now_ms.saturating_sub(*reported_ms) < REMEMBERED_MS);
    }

    /// All neighbors.
    pub(super) fn all(&self) -> Vec<SwitchNeighbor> {
        self.0.values().flat_map(|(_, ports)| ports).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbor(switch: &str, port: &str) -> SwitchNeighbor {
        SwitchNeighbor { switch: switch.into(), port: port.into(), neighbor: "h".into(), neighbor_port: String::new() }
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
