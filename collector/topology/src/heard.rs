//! What agents told of their ports, remembered for a while: an agent that starts anew tells nothing for a moment, and
//! hears nothing from its switch for half a minute more. No cable was pulled then.

use std::collections::BTreeMap;

use fabriclens_correlate::topology::PortInfo;

/// How long what was told holds without being told again, ms.
const REMEMBERED_MS: i64 = 600_000;
/// Ports that are remembered.
const MOST: usize = 1 << 18;

/// What an agent told of a port, and when (Unix ms).
pub(super) struct Report {
    pub port: PortInfo,
    pub told_ms: i64,
}

/// See the module.
#[derive(Default)]
pub(super) struct Heard(BTreeMap<(String, String), Port>);

struct Port {
    info: PortInfo,
    told_ms: i64,
    /// When it last heard who its neighbour is.
    neighbour_ms: i64,
}

impl Heard {
    /// What was known when the collector stopped, as if it had been told now.
    pub(super) fn resume(ports: Vec<PortInfo>, now_ms: i64) -> Self {
        let mut heard = Self::default();
        heard.hear(ports.into_iter().map(|port| Report { port, told_ms: now_ms }).collect(), now_ms);
        heard
    }

    /// Takes what all agents tell now.
    pub(super) fn hear(&mut self, mut reports: Vec<Report>, now_ms: i64) {
        // Nobody tells anything: the way to the agents is cut, not all cables.
        if reports.is_empty() {
            return;
        }
        reports.sort_by_key(|r| r.told_ms);
        for Report { port, told_ms } in reports {
            let key = (port.host.clone(), port.port.clone());
            let full = self.0.len() >= MOST;
            match self.0.get_mut(&key) {
                // The same as last time, looked up again.
                Some(old) if told_ms < old.told_ms => {}
                Some(old) => {
                    let silent = port.switch.is_empty() && told_ms - old.neighbour_ms < REMEMBERED_MS;
                    let (switch, switch_port) = (old.info.switch.clone(), old.info.switch_port.clone());
                    if !port.switch.is_empty() {
                        old.neighbour_ms = told_ms;
                    }
                    (old.info, old.told_ms) = (port, told_ms);
                    if silent {
                        (old.info.switch, old.info.switch_port) = (switch, switch_port);
                    }
                }
                None if full => {}
                None => {
                    self.0.insert(key, Port { info: port, told_ms, neighbour_ms: told_ms });
                }
            }
        }
        self.0.retain(|_, port| now_ms - port.told_ms < REMEMBERED_MS);
    }

    pub(super) fn ports(&self) -> Vec<PortInfo> {
        self.0.values().map(|port| port.info.clone()).collect()
    }
}
