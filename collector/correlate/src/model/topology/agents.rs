//! What agents report about their ports in `fabric_port_info`: names, rail, and the switch port at the other end of the
//! cable: heard by LLDP, or read from an InfiniBand subnet, whose agent reports the ports of all switches.

use super::source::{Cable, CableEnd, TopologySource, announced_addresses};
use super::types::{Provenance, Role};
use fabriclens_base::infiniband::is_switch_type;
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
    /// Management address of the LLDP neighbor.
    #[serde(default)]
    pub switch_address: String,
    /// The port is a switch's: an agent reads its InfiniBand subnet, and `host` is the switch.
    #[serde(default)]
    pub of_switch: bool,
    /// On InfiniBand: GUID of the node at the other end. `switch` is then its name, or the description of an adapter.
    #[serde(default)]
    pub neighbor_guid: Option<u64>,
}

impl PortInfo {
    /// Reads the labels of a `fabric_port_info` series; `None` without a host or a port.
    pub fn of(labels: &Labels) -> Option<Self> {
        let get = |name: &str| labels.get(name).to_owned();
        let rdma = !labels.get("port").is_empty();
        let guid = |name| super::ib::guid(labels.get(name));
        let infiniband = labels.get("fabric") == "infiniband";
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
            switch_address: get("switch_address"),
            of_switch: infiniband && is_switch_type(labels.get("node_type")),
            neighbor_guid: guid("switch_id").filter(|_| infiniband),
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

/// Three sources: the cables that ports hear by LLDP, cables inferred from rails for ports that hear nothing, and the
/// cables of InfiniBand subnets that an agent reads.
pub fn from_agents(ports: &[PortInfo]) -> Vec<TopologySource> {
    let ports: BTreeSet<&PortInfo> = ports.iter().collect();
    let mut heard = TopologySource::new("agents (LLDP)", "LLDP");
    let mut inferred = TopologySource::new("the rails of ports", "rails");
    let mut subnet = TopologySource::new("agents (InfiniBand)", "subnet");
    let switches: BTreeSet<u64> = ports.iter().filter(|p| p.of_switch).filter_map(|p| p.guids[0]).collect();
    let mut rails: BTreeMap<(&str, &str), Vec<&PortInfo>> = BTreeMap::new();
    let mut announced = Vec::new();
    for (n, port) in ports.into_iter().enumerate() {
        let (source, role) = if port.of_switch { (&mut subnet, Role::Spine) } else { (&mut heard, Role::Host) };
        if source.nodes.last().is_none_or(|(last, _)| *last != port.host) {
            source.nodes.push((port.host.clone(), role));
        }
        if let Some(guid) = port.neighbor_guid {
            let far = neighbor(port, guid, switches.contains(&guid));
            subnet.cable(n + 1, cable(port, far, Provenance::SubnetManager));
        } else if !port.switch.is_empty() {
            let far = CableEnd { node: port.switch.clone(), port: port.switch_port.clone(), ..CableEnd::default() };
            heard.cable(n + 1, cable(port, far, Provenance::Lldp));
            announced.push((&*port.switch_address, &*port.switch));
        } else if !port.rail.is_empty() && !port.rail_by_order && !port.device.is_empty() {
            // Planes of one adapter go to switches of their own.
            let number = port.port.rsplit_once('/').map_or("1", |(_, number)| number);
            rails.entry((&port.rail, number)).or_default().push(port);
        }
    }
    heard.addresses = announced_addresses(announced);
    for ((rail, number), ports) in rails {
        let hosts: BTreeSet<&str> = ports.iter().map(|p| p.host.as_str()).collect();
        if (2..=ON_ONE).contains(&hosts.len()) {
            let node = if number == "1" { format!("rail {rail}") } else { format!("rail {rail} port {number}") };
            for port in ports {
                let far = CableEnd { node: node.clone(), ..CableEnd::default() };
                inferred.cable(0, cable(port, far, Provenance::Inferred));
            }
        }
    }
    vec![heard, inferred, subnet]
}

/// The other end of an InfiniBand cable.
fn neighbor(port: &PortInfo, guid: u64, is_switch: bool) -> CableEnd {
    let (description, number) = (port.switch.clone(), port.switch_port.clone());
    if is_switch {
        return CableEnd { node: description, port: number, ..CableEnd::default() };
    }
    let (node, device) = super::ib::host(&description).unwrap_or_default();
    let (node, device) = (node.to_owned(), device.to_owned());
    CableEnd { node, device, port: number, guids: vec![guid], description }
}

fn cable(port: &PortInfo, far: CableEnd, known: Provenance) -> Cable {
    let near = CableEnd { node: port.host.clone(), port: port.port.clone(), ..CableEnd::default() };
    Cable { sides: [near, far], rate: None, rail: None, known }
}
