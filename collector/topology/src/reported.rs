//! Ports as reported by agents, remembered for a while: a restarted agent reports nothing for a moment and learns its
//! switch half a minute later, but no cable was pulled.

use std::collections::BTreeMap;

use fabriclens_correlate::topology::PortInfo;

/// How long a report stays valid, ms.
const REMEMBERED_MS: i64 = 600_000;
/// Most ports that are remembered.
const MOST: usize = 1 << 18;

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

    /// Takes the current reports of all agents.
    pub(super) fn update(&mut self, mut reports: Vec<Report>, now_ms: i64) {
        // No reports at all: the agents are unreachable, the cables are not gone.
        if reports.is_empty() {
            return;
        }
        reports.sort_by_key(|r| r.reported_ms);
        for Report { port, reported_ms } in reports {
            let key = (port.host.clone(), port.port.clone());
            let full = self.0.len() >= MOST;
            match self.0.get_mut(&key) {
                // The same report again.
                Some(old) if reported_ms < old.reported_ms => {}
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
                None if full => {}
                None => {
                    self.0.insert(key, Port { info: port, reported_ms, neighbor_ms: reported_ms });
                }
            }
        }
        self.0.retain(|_, port| now_ms - port.reported_ms < REMEMBERED_MS);
    }

    pub(super) fn ports(&self) -> Vec<PortInfo> {
        self.0.values().map(|port| port.info.clone()).collect()
    }
}
