//! Switches of the simulated fabric: names, ports and cables.

use super::layout::{
    LEAVES, POD, Port, RAILS, SPINES, downlink, from_spine, host_name, leaf, netdev_name, ports, to_spine, uplink,
};

/// A switch.
pub struct Switch {
    pub name: String,
    pub ports: Vec<SwitchPort>,
}

/// A port of a switch.
pub struct SwitchPort {
    pub name: String,
    /// Links that it sends into and receives from.
    pub egress: usize,
    pub ingress: usize,
    /// Device and port at the other end of its cable.
    pub neighbor: (String, String),
}

/// Name of the leaf of a NIC: `leaf-0-3`, by pod and rail.
pub fn leaf_name(port: Port) -> String {
    leaf_by_index(leaf(port))
}

fn leaf_by_index(leaf: usize) -> String {
    format!("leaf-{}-{}", leaf / RAILS, leaf % RAILS)
}

/// Name of a spine.
pub fn spine_name(spine: usize) -> String {
    format!("spine-{spine}")
}

/// Port of a leaf to a NIC, as Cumulus names it.
pub fn port_to_host((host, _): Port) -> String {
    format!("swp{}", host % POD + 1)
}

fn port_to_spine(spine: usize) -> String {
    format!("swp{}", POD + spine + 1)
}

/// Port of a spine to a leaf, as SONiC names it: by the first of its eight lanes.
fn port_to_leaf(leaf: usize) -> String {
    format!("Ethernet{}", leaf * 8)
}

/// Every leaf.
pub fn leaves() -> Vec<Switch> {
    let hosts = |at: usize| {
        ports().filter(move |port| leaf(*port) == at).map(|port| SwitchPort {
            name: port_to_host(port),
            egress: downlink(port),
            ingress: uplink(port),
            neighbor: (host_name(port.0), netdev_name(port.1)),
        })
    };
    let spines = |at: usize| {
        (0..SPINES).map(move |spine| SwitchPort {
            name: port_to_spine(spine),
            egress: to_spine(at, spine),
            ingress: from_spine(at, spine),
            neighbor: (spine_name(spine), port_to_leaf(at)),
        })
    };
    (0..LEAVES).map(|at| Switch { name: leaf_by_index(at), ports: hosts(at).chain(spines(at)).collect() }).collect()
}

/// Every spine.
pub fn spines() -> Vec<Switch> {
    let port = |spine: usize| {
        move |at: usize| SwitchPort {
            name: port_to_leaf(at),
            egress: from_spine(at, spine),
            ingress: to_spine(at, spine),
            neighbor: (leaf_by_index(at), port_to_spine(spine)),
        }
    };
    (0..SPINES).map(|s| Switch { name: spine_name(s), ports: (0..LEAVES).map(port(s)).collect() }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::layout::{HOSTS, LINKS};
    use super::*;

    #[test]
    fn each_link_has_two_ends_that_name_each_other() {
        let switches: Vec<Switch> = leaves().into_iter().chain(spines()).collect();
        let mut ends = vec![0; LINKS];
        let all = || switches.iter().flat_map(|switch| switch.ports.iter().map(move |port| (switch, port)));
        for (switch, port) in all() {
            ends[port.egress] += 1;
            ends[port.ingress] += 1;
            let other = all().find(|(s, p)| (&s.name, &p.name) == (&port.neighbor.0, &port.neighbor.1));
            if let Some((_, other)) = other {
                assert_eq!((other.egress, other.ingress), (port.ingress, port.egress));
                assert_eq!(other.neighbor, (switch.name.clone(), port.name.clone()));
            } else {
                assert!(port.neighbor.0.starts_with("gpu-"), "{:?}", port.neighbor);
            }
        }
        let (hosts, trunks) = ends.split_at(2 * HOSTS * RAILS);
        assert!(hosts.iter().all(|ends| *ends == 1) && trunks.iter().all(|ends| *ends == 2));
    }
}
