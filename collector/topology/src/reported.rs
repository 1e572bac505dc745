//! Ports as reported by agents, remembered for a while: a restarted agent reports nothing for a moment and learns its
//! switch half a minute later, but no cable was pulled.

use std::collections::{BTreeMap, HashMap};

use fabriclens_base::host_name;
use fabriclens_core::host_senders::HostSenders;
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
pub(super) struct ReportedPorts {
    ports: BTreeMap<(String, String), Port>,
    senders: HostSenders,
}

struct Port {
    info: PortInfo,
    reported_ms: i64,
    /// Time of the first report with its present GUIDs.
    claimed_ms: i64,
    /// Time of the last report with a neighbor.
    neighbor_ms: i64,
}

impl ReportedPorts {
    /// Restores the ports known when the collector stopped, as if reported now.
    pub(super) fn resume(ports: Vec<PortInfo>, senders: HostSenders, now_ms: i64) -> Self {
        let mut reported = Self { senders, ..Self::default() };
        reported.update(ports.into_iter().map(|port| Report { port, reported_ms: now_ms }).collect(), now_ms);
        reported
    }

    /// Takes the current reports of all agents. Returns the host of a report that is beyond the bounds, if there is one.
    pub(super) fn update(&mut self, mut reports: Vec<Report>, now_ms: i64) -> Option<String> {
        // No reports at all: the agents are unreachable, the cables are not gone.
        if reports.is_empty() {
            return None;
        }
        let (mut usage, mut beyond) = (NodeUsage::new(&self.senders), None);
        for ((host, _), port) in &self.ports {
            usage.take(host, None, bytes(&port.info).unwrap_or_default());
        }
        reports.sort_by_key(|r| r.reported_ms);
        for Report { port, reported_ms } in reports {
            let key = (port.host.clone(), port.port.clone());
            if self.ports.get(&key).is_some_and(|old| reported_ms < old.reported_ms) {
                // The same report again.
                continue;
            }
            let old = self.ports.get(&key).map(|old| bytes(&old.info).unwrap_or_default());
            if !bytes(&port).is_some_and(|new| usage.take(&port.host, old, new)) {
                if let Some(old) = self.ports.get_mut(&key) {
                    old.reported_ms = reported_ms;
                }
                beyond = Some(port.host);
                continue;
            }
            match self.ports.get_mut(&key) {
                Some(old) => {
                    let silent = port.switch.is_empty() && reported_ms - old.neighbor_ms < REMEMBERED_MS;
                    let (switch, switch_port) = (old.info.switch.clone(), old.info.switch_port.clone());
                    if !port.switch.is_empty() {
                        old.neighbor_ms = reported_ms;
                    }
                    if port.guids != old.info.guids {
                        old.claimed_ms = reported_ms;
                    }
                    (old.info, old.reported_ms) = (port, reported_ms);
                    if silent {
                        (old.info.switch, old.info.switch_port) = (switch, switch_port);
                    }
                }
                None => {
                    let (claimed_ms, neighbor_ms) = (reported_ms, reported_ms);
                    self.ports.insert(key, Port { info: port, reported_ms, claimed_ms, neighbor_ms });
                }
            }
        }
        self.ports.retain(|_, port| now_ms - port.reported_ms < REMEMBERED_MS);
        beyond
    }

    /// All ports. A GUID that several hosts report belongs to the one that has reported it for longest: a host may write any GUID
    /// into its series, and could otherwise take the cables of others.
    pub(super) fn ports(&self) -> Vec<PortInfo> {
        let mut claims: HashMap<u64, Claim<'_>> = HashMap::new();
        for port in self.ports.values() {
            for guid in port.info.guids.into_iter().flatten() {
                let claim = Claim { since_ms: port.claimed_ms, host: &port.info.host };
                claims.entry(guid).and_modify(|first| *first = (*first).min(claim)).or_insert(claim);
            }
        }
        let of = |port: &Port| {
            let mut info = port.info.clone();
            for guid in &mut info.guids {
                // Claims of the same age are in doubt, and a GUID in doubt names no port.
                let is_later = |guid: &u64| {
                    claims.get(guid).is_some_and(|first| first.since_ms < port.claimed_ms && !first.is_of(&info.host))
                };
                *guid = guid.filter(|guid| !is_later(guid));
            }
            info
        };
        self.ports.values().map(of).collect()
    }
}

/// When a host began to report a GUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim<'a> {
    since_ms: i64,
    host: &'a str,
}

impl Claim<'_> {
    fn is_of(&self, host: &str) -> bool {
        host_name::key(self.host) == host_name::key(host)
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
    fn a_guid_stays_with_the_host_that_reported_it_first() {
        let claim = |host: &str, guid, reported_ms| Report {
            port: PortInfo { host: host.into(), port: "p".into(), guids: [Some(guid), None], ..PortInfo::default() },
            reported_ms,
        };
        let mut reported = ReportedPorts::default();
        let mut told = |reports: Vec<Report>, at_ms| {
            reported.update(reports, at_ms);
            reported.ports().iter().map(|port| port.guids[0]).collect::<Vec<_>>()
        };
        assert_eq!(told(vec![claim("b", 7, 1), claim("c", 8, 1)], 1), [Some(7), Some(8)]);
        assert_eq!(told(vec![claim("a", 7, 2), claim("b", 7, 2), claim("c", 8, 2)], 2), [None, Some(7), Some(8)]);
        assert_eq!(told(vec![claim("c", 7, 3)], 3), [None, Some(7), None], "nor does an old port take it");
        let moved = 3 + REMEMBERED_MS;
        assert_eq!(told(vec![claim("a", 7, moved)], moved), [Some(7)], "a moved adapter, once its host is silent");
        assert_eq!(told(vec![claim("a", 9, moved + 1), claim("d", 9, moved + 1)], moved + 1), [Some(9); 2], "in doubt");
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
