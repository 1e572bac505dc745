//! What agents report about their ports in `fabric_port_info`: names, rail, and the switch port at the other end of the
//! cable (LLDP).

use super::source::{Cable, CableEnd, TopologySource};
use super::types::{Provenance, Role};
use fabriclens_model::Labels;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Hosts of one rail up to which they likely share one switch. With more hosts a rail spans several switches, and which
/// host is on which is unknown.
const ON_ONE: usize = 64;

/// A port of a host as its agent reports it; fields are `""` if unknown.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortInfo {
    /// Host name.
    pub host: String,
    /// Port name as in series.
    pub port: String,
    /// HCA; `""` for an interface without one.
    pub device: String,
    /// Network interface.
    pub netdev: String,
    /// GUIDs of the HCA and of the port.
    pub guids: [Option<u64>; 2],
    /// InfiniBand node description of the HCA.
    pub node_desc: String,
    /// Rail name.
    pub rail: String,
    /// The agent derived the rail from the order of the host's adapters; hosts may be cabled differently.
    #[serde(default)]
    pub rail_by_order: bool,
    /// Name of the LLDP neighbor.
    pub switch: String,
    /// Port of the LLDP neighbor.
    pub switch_port: String,
}

impl PortInfo {
    /// Reads the labels of a `fabric_port_info` series; `None` without a host or a port.
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

/// Port name of a series, as in [`super::LinkEnd::port`].
pub fn port_name(labels: &Labels) -> String {
    match (labels.get("device"), labels.get("port")) {
        ("", port) => port.to_owned(),
        (device, "") => device.to_owned(),
        (device, port) => format!("{device}/{port}"),
    }
}

/// Two sources: the cables that ports hear by LLDP, and cables inferred from rails for ports that hear nothing.
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
