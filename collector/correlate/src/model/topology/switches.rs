//! What switches report about the neighbors of their ports (LLDP), in `fabric_port_neighbor_info`.

use super::source::{Cable, CableEnd, TopologySource, announced_addresses};
use super::types::{LinkEnd, Provenance, Role, UNKNOWN};
use super::wiring::Topology;
use fabriclens_model::Labels;

/// A port of a switch and its neighbor; a port is `""` if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SwitchNeighbor {
    /// The switch that reports.
    pub switch: String,
    /// Its port.
    pub port: String,
    /// The neighbor, a host or a switch.
    pub neighbor: String,
    /// The neighbor's port.
    pub neighbor_port: String,
    /// Management address of the neighbor; `""` if unknown.
    pub neighbor_address: String,
}

impl SwitchNeighbor {
    /// Reads the labels of a series; `None` without a switch, a port or a neighbor.
    pub fn of(labels: &Labels) -> Option<Self> {
        let get = |name: &str| labels.get(name).to_owned();
        let [switch, port, neighbor, neighbor_port, neighbor_address] =
            ["host", "port", "neighbor", "neighbor_port", "neighbor_address"].map(get);
        let named = !switch.is_empty() && !port.is_empty() && !neighbor.is_empty();
        named.then_some(Self { switch, port, neighbor, neighbor_port, neighbor_address })
    }

    /// Neighbors of switches that a stored topology has from LLDP: the collector goes on with them after a restart.
    pub fn known(topology: &Topology) -> Vec<Self> {
        let heard = topology.links.iter().filter(|link| link.known == Provenance::Lldp);
        let ends = heard.flat_map(|link| [[&link.ends[0], &link.ends[1]], [&link.ends[1], &link.ends[0]]]);
        let switches = ends.filter(|[near, _]| topology.nodes[near.node].role != Role::Host);
        let named = switches.filter(|[near, _]| !near.port.starts_with(UNKNOWN));
        let name = |end: &LinkEnd| topology.nodes[end.node].name.clone();
        let port = |end: &LinkEnd| if end.port.starts_with(UNKNOWN) { String::new() } else { end.port.clone() };
        let address = |end: &LinkEnd| {
            let of = topology.addresses.iter().find(|(_, owner)| owner.node == end.node && owner.port.is_none());
            of.map(|(ip, _)| ip.to_string()).unwrap_or_default()
        };
        let one = |[near, far]: [&LinkEnd; 2]| Self {
            switch: name(near),
            port: port(near),
            neighbor: name(far),
            neighbor_port: port(far),
            neighbor_address: address(far),
        };
        named.map(one).collect()
    }
}

/// The cables that switches hear.
pub fn from_switches(neighbors: &[SwitchNeighbor]) -> TopologySource {
    let mut heard = TopologySource::new("switches (LLDP)", "LLDP");
    for (n, one) in neighbors.iter().enumerate() {
        if heard.nodes.last().is_none_or(|(last, _)| *last != one.switch) {
            heard.nodes.push((one.switch.clone(), Role::Spine));
        }
        let end =
            |node: &str, port: &str| CableEnd { node: node.to_owned(), port: port.to_owned(), ..CableEnd::default() };
        let sides = [end(&one.switch, &one.port), end(&one.neighbor, &one.neighbor_port)];
        heard.cable(n + 1, Cable { sides, rate: None, rail: None, known: Provenance::Lldp });
    }
    // Those of hosts are left out when sources are merged.
    let announced = neighbors.iter().map(|one| (&*one.neighbor_address, &*one.neighbor));
    heard.addresses = announced_addresses(announced);
    heard
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{AddressOwner, HostNames, PortInfo, from_agents, merge};
    use std::collections::BTreeMap;

    fn neighbor(switch: &str, port: &str, neighbor: &str, neighbor_port: &str) -> SwitchNeighbor {
        let labels = [("host", switch), ("port", port), ("neighbor", neighbor), ("neighbor_port", neighbor_port)];
        SwitchNeighbor::of(&Labels::new(labels)).unwrap()
    }

    fn links(topology: &Topology) -> Vec<String> {
        let end = |end: &LinkEnd| format!("{} {}", topology.nodes[end.node].name, end.port);
        let mut all: Vec<String> = topology
            .links
            .iter()
            .map(|link| {
                let mut ends = link.ends.each_ref().map(end);
                ends.sort();
                ends.join(" - ")
            })
            .collect();
        all.sort();
        all
    }

    #[test]
    fn both_ends_of_a_cable_are_one_cable_and_hosts_have_the_ports_of_their_agents() {
        let info = [("host", "gpu-01"), ("device", "mlx5_0"), ("port", "1"), ("netdev", "ens1f0np0")];
        let ports = [PortInfo::of(&Labels::new(info)).unwrap()];
        let neighbors = [
            neighbor("leaf1", "Ethernet0", "gpu-01.example", "ens1f0np0"),
            neighbor("leaf1", "Ethernet4", "spine1", "Ethernet8"),
            neighbor("spine1", "Ethernet8", "leaf1", "Ethernet4"),
        ];
        let mut described = from_agents(&ports);
        described.push(from_switches(&neighbors));
        let topology = merge(&described, &HostNames::new(&ports, &BTreeMap::new()));
        let expected = ["gpu-01 mlx5_0/1 - leaf1 Ethernet0", "leaf1 Ethernet4 - spine1 Ethernet8"];
        assert_eq!(links(&topology), expected);
        let roles = ["gpu-01", "leaf1", "spine1"].map(|name| topology.nodes[topology.node(name).unwrap()].role);
        assert_eq!(roles, [Role::Host, Role::Leaf, Role::Spine]);
        assert!(topology.contradictions.is_empty(), "{:?}", topology.contradictions);

        let resumed = [from_agents(&ports), vec![from_switches(&SwitchNeighbor::known(&topology))]].concat();
        let again = merge(&resumed, &HostNames::new(&ports, &BTreeMap::new()));
        assert_eq!(links(&again), expected, "as before the restart");
    }

    #[test]
    fn announced_addresses_are_hints_of_switches() {
        let info = |host: &str, switch: &str, address: &str| {
            let port = [("host", host), ("device", "mlx5_0"), ("port", "1"), ("switch", switch)];
            PortInfo::of(&Labels::new(port.into_iter().chain([("switch_address", address)]))).unwrap()
        };
        let ports = [
            info("h1", "leaf1", "10.0.0.1"),
            info("h2", "leaf1", "10.0.0.1"),
            info("h3", "leaf2", "192.168.1.1"),
            info("h4", "leaf3", "192.168.1.1"),
            info("h5", "leaf4", "10.0.0.4"),
        ];
        let with = |neighbor, address: &str| SwitchNeighbor { neighbor_address: address.into(), ..neighbor };
        let neighbors = [
            with(neighbor("leaf1", "9", "spine1", "1"), "10.0.0.9"),
            with(neighbor("leaf1", "1", "h1", "eth0"), "10.0.0.99"),
        ];
        let mut file = TopologySource::new("fabric.json", "JSON");
        file.nodes.push(("spine2".into(), Role::Spine));
        file.addresses.push(("10.0.0.4".parse().unwrap(), "spine2".into(), String::new()));
        let described = [from_agents(&ports), vec![from_switches(&neighbors), file]].concat();
        let topology = merge(&described, &HostNames::new(&ports, &BTreeMap::new()));
        let owner = |owner: &AddressOwner| topology.nodes[owner.node].name.as_str();
        let all: Vec<String> = topology.addresses.iter().map(|(ip, of)| format!("{ip} {}", owner(of))).collect();
        // 192.168.1.1 is of two switches, 10.0.0.99 of a host, and the file comes first.
        assert_eq!(all, ["10.0.0.1 leaf1", "10.0.0.4 spine2", "10.0.0.9 spine1"]);
        let resumed = SwitchNeighbor::known(&topology);
        let spine = resumed.iter().find(|one| one.neighbor == "spine1").unwrap();
        assert_eq!(spine.neighbor_address, "10.0.0.9", "as before the restart");
    }
}
