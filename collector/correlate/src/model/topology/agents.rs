//! What agents tell of their ports in `fabric_port_info`: what they are called, which rail they belong to, and the switch
//! and port that they hear at the other end of the cable (LLDP).

use super::source::{Cable, CableEnd, TopologySource};
use super::types::{Provenance, Role};
use fabriclens_model::Labels;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Hosts on one rail that may well share a switch; more have several, and nobody knows which host is on which.
const ON_ONE: usize = 64;

/// A port of a host, as its agent describes it; `""` where it does not.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortInfo {
    /// Label `host`.
    pub host: String,
    /// As series have it.
    pub port: String,
    /// The HCA; `""` for an interface without one.
    pub device: String,
    /// The interface.
    pub netdev: String,
    /// GUIDs of the HCA and of the port.
    pub guids: [Option<u64>; 2],
    /// InfiniBand's description of the HCA.
    pub node_desc: String,
    /// The rail.
    pub rail: String,
    /// The agent took it from the order of the host's adapters: nobody says that hosts are cabled alike.
    #[serde(default)]
    pub rail_by_order: bool,
    /// Name of the neighbour at the other end.
    pub switch: String,
    /// Its port.
    pub switch_port: String,
}

impl PortInfo {
    /// Of a series of `fabric_port_info`; `None` without a host and a port.
    pub fn of(labels: &Labels) -> Option<Self> {
        let get = |name: &str| labels.get(name).to_owned();
        let rdma = !labels.get("port").is_empty();
        let guid = |name| super::ib::guid(labels.get(name));
        let told = Self {
            host: get("host"),
            port: port_name(labels),
            device: if rdma { get("device") } else { String::new() },
            netdev: if rdma { get("netdev") } else { get("device") },
            guids: [guid("node_guid"), guid("port_guid")],
            node_desc: get("node_desc"),
            rail: get("rail"),
            rail_by_order: get("rail_source") == "order",
            switch: get("switch"),
            switch_port: get("switch_port"),
        };
        (!told.host.is_empty() && !told.port.is_empty()).then_some(told)
    }
}

/// The port that a series is of, as [`super::LinkEnd`] calls it.
pub fn port_name(labels: &Labels) -> String {
    match (labels.get("device"), labels.get("port")) {
        ("", port) => port.to_owned(),
        (device, "") => device.to_owned(),
        (device, port) => format!("{device}/{port}"),
    }
}

/// What ports hear of their neighbours, and what follows from their rails where they hear nothing.
pub fn from_agents(ports: &[PortInfo]) -> Vec<TopologySource> {
    let ports: BTreeSet<&PortInfo> = ports.iter().collect();
    let mut heard = TopologySource::new("agents (LLDP)", "LLDP");
    let mut inferred = TopologySource::new("the rails of ports", "rails");
    let mut rails: BTreeMap<&str, Vec<&PortInfo>> = BTreeMap::new();
    for (n, port) in ports.into_iter().enumerate() {
        if heard.nodes.last().is_none_or(|(last, _)| *last != port.host) {
            heard.nodes.push((port.host.clone(), Role::Host));
        }
        if !port.switch.is_empty() {
            let far = CableEnd { node: port.switch.clone(), port: port.switch_port.clone(), ..CableEnd::default() };
            heard.cable(n + 1, cable(port, far, Provenance::Lldp));
        } else if !port.rail.is_empty() && !port.rail_by_order && !port.device.is_empty() {
            rails.entry(&port.rail).or_default().push(port);
        }
    }
    for (rail, ports) in rails {
        let hosts: BTreeSet<&str> = ports.iter().map(|p| p.host.as_str()).collect();
        if (2..=ON_ONE).contains(&hosts.len()) {
            for port in ports {
                let far = CableEnd { node: format!("rail {rail}"), ..CableEnd::default() };
                inferred.cable(0, cable(port, far, Provenance::Inferred));
            }
        }
    }
    vec![heard, inferred]
}

fn cable(port: &PortInfo, far: CableEnd, known: Provenance) -> Cable {
    let near = CableEnd { node: port.host.clone(), port: port.port.clone(), ..CableEnd::default() };
    Cable { sides: [near, far], rate: None, rail: None, known }
}
