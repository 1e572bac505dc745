//! Ports as reported by agents, remembered for a while: a restarted agent reports nothing for a moment and learns its
//! switch half a minute later, but no cable was pulled.

use std::collections::BTreeMap;

use fabriclens_correlate::topology::PortInfo;

use super::bounds::{self, NodeUsage};

/// How long a report stays valid, ms.
const REMEMBERED_MS: i64 = 600_000;

/// A port as reported by an agent, and when, Unix ms.
pub(super) struct Report {
    pub port: PortInfo,
    pub reported_ms: i64,
}

/// Remembered ports by host and port name.
#[derive(Default)]
pub(super) struct ReportedPorts(BTreeMap<(String, String), Port>);

struct Port {
    info: PortInfo,
    reported_ms: i64,
    /// Time of the last report with a neighbor.
    neighbor_ms: i64,
}

impl ReportedPorts {
    /// Restores the ports known when the collector stopped, as if reported now.
    pub(super) fn resume(ports: Vec<PortInfo>, now_ms: i64) -> Self {
        let mut reported = Self::default();
        reported.update(ports.into_iter().map(|port| Report { port, reported_ms: now_ms }).collect(), now_ms);
        reported
    }

    /// Takes the current reports of all agents. Returns the host of a report that is beyond the bounds, if there is one.
    pub(super) fn update(&mut self, mut reports: Vec<Report>, now_ms: i64) -> Option<String> {
        // No reports at all: the agents are unreachable, the cables are not gone.
        if reports.is_empty() {
            return None;
        }
        let (mut usage, mut beyond) = (NodeUsage::default(), None);
        for ((host, _), port) in &self.0 {
            usage.take(host, None, bytes(&port.info).unwrap_or_default());
        }
        reports.sort_by_key(|r| r.reported_ms);
        for Report { port, reported_ms } in reports {
            let key = (port.host.clone(), port.port.clone());
            if self.0.get(&key).is_some_and(|old| reported_ms < old.reported_ms) {
                // The same report again.
                continue;
            }
            let old = self.0.get(&key).map(|old| bytes(&old.info).unwrap_or_default());
            if !bytes(&port).is_some_and(|new| usage.take(&port.host, old, new)) {
                if let Some(old) = self.0.get_mut(&key) {
                    old.reported_ms = reported_ms;
                }
                beyond = Some(port.host);
                continue;
            }
            match self.0.get_mut(&key) {
                Some(old) => {
                    let silent = port.switch.is_empty() && reported_ms - old.neighbor_ms < REMEMBERED_MS;
                    let (switch, switch_port) = (old.info.switch.clone(), old.info.switch_port.clone());
                    if !port.switch.is_empty() {
                        old.neighbor_ms = reported_ms;
                    }
                    (old.info, old.reported_ms) = (port, reported_ms);
                    if silent {
                        (old.info.switch, old.info.switch_port) = (switch, switch_port);
                    }
                }
                None => {
                    self.0.insert(key, Port { info: port, reported_ms, neighbor_ms: reported_ms });
                }
            }
        }
        self.0.retain(|_, port| now_ms - port.reported_ms < REMEMBERED_MS);
        beyond
    }

    pub(super) fn ports(&self) -> Vec<PortInfo> {
        self.0.values().map(|port| port.info.clone()).collect()
    }
}

/// Bytes of the names of a port; `None` if one is too long.
fn bytes(port: &PortInfo) -> Option<usize> {
    let PortInfo { host, port, device, netdev, node_desc, rail, switch, switch_port, switch_address, .. } = port;
    bounds::bytes(&[host, port, device, netdev, node_desc, rail, switch, switch_port, switch_address])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::OF_NODE;

    fn report(host: &str, port: usize, switch: &str) -> Report {
        let (host, port, switch) = (host.to_owned(), format!("p{port}"), switch.to_owned());
        Report { port: PortInfo { host, port, switch, ..PortInfo::default() }, reported_ms: 1 }
    }

    #[test]
    fn one_host_cannot_fill_the_topology() {
        let mut reported = ReportedPorts::default();
        let many = (0..=OF_NODE).map(|port| report("a", port, "leaf1")).chain([report("b", 1, "leaf1")]);
        assert_eq!(reported.update(many.collect(), 1).as_deref(), Some("a"));
        assert_eq!(reported.ports().len(), OF_NODE + 1);
        let long = "x".repeat(256);
        assert_eq!(reported.update(vec![report("b", 1, &long), report("c", 1, &long)], 1).as_deref(), Some("c"));
        let all = reported.ports();
        assert_eq!((all.len(), all[OF_NODE].switch.as_str()), (OF_NODE + 1, "leaf1"), "the last one that fits stays");
        assert_eq!(reported.update(vec![report("b", 1, "leaf2")], 1), None);
        assert_eq!(reported.ports()[OF_NODE].switch, "leaf2");
    }
}
