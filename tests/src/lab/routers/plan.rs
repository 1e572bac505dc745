//! Names, addresses and cables of a leaf-spine fabric.

use serde_json::{Value, json};

/// Numbers of the spines; each leaf has a trunk to each.
pub const SPINES: [u8; 2] = [1, 2];

/// Hosts and leaves. Host N is `h{N}`, and card `fab{N - 1}` of the routers' guest leads to it.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of the leaf of each host.
    leaf_of: &'static [u8],
}

/// Two hosts on each of two leaves. Both trunks of a spine are on the same paths, so losses cannot tell them apart.
pub const TWO_LEAVES: Plan = Plan { leaf_of: &[1, 1, 2, 2] };

/// Four hosts on three leaves: no two trunks are on the same paths.
pub const THREE_LEAVES: Plan = Plan { leaf_of: &[1, 1, 2, 3] };

impl Plan {
    /// Numbers of the hosts.
    pub fn hosts(self) -> impl Iterator<Item = u8> {
        (1..).take(self.leaf_of.len())
    }

    /// Numbers of the leaves.
    pub fn leaves(self) -> impl Iterator<Item = u8> {
        1..=self.leaf_of.iter().copied().max().unwrap_or(0)
    }

    /// Leaf of a host.
    ///
    /// # Panics
    /// When there is no such host.
    #[must_use]
    pub fn leaf_of(self, host: u8) -> u8 {
        self.leaf_of[usize::from(host) - 1]
    }

    /// All trunks.
    pub fn trunks(self) -> impl Iterator<Item = Trunk> {
        self.leaves().flat_map(|leaf| SPINES.into_iter().map(move |spine| Trunk { leaf, spine }))
    }

    /// Names of all routers.
    pub fn routers(self) -> impl Iterator<Item = String> {
        self.leaves().map(|n| format!("leaf{n}")).chain(SPINES.map(|n| format!("spine{n}")))
    }

    /// Cables and addresses as a topology file of the collector. Ports of routers are named after what they lead to.
    #[must_use]
    pub fn topology(self) -> Value {
        let (mut links, mut addresses) = (Vec::new(), Vec::new());
        for host in self.hosts() {
            let (name, leaf) = (format!("h{host}"), format!("leaf{}", self.leaf_of(host)));
            links.push(json!({"a": name, "a_port": "rxe0/1", "b": leaf, "b_port": name, "rate_gbps": 25}));
            addresses.push(json!({"node": leaf, "port": name, "address": gateway(host)}));
        }
        for trunk in self.trunks() {
            let [(leaf, up), (spine, down)] = trunk.ends();
            links.push(json!({"a": leaf, "a_port": up, "b": spine, "b_port": down, "rate_gbps": 25}));
            addresses.push(json!({"node": leaf, "port": up, "address": trunk.leaf_address()}));
            addresses.push(json!({"node": spine, "port": down, "address": trunk.spine_address()}));
        }
        let named = |id: String| json!({"id": id});
        let hosts: Vec<Value> = self.hosts().map(|n| named(format!("h{n}"))).collect();
        let switches: Vec<Value> = self.routers().map(named).collect();
        json!({"hosts": hosts, "switches": switches, "links": links, "addresses": addresses})
    }
}

/// The link between a leaf and a spine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trunk {
    /// Number of the leaf.
    pub leaf: u8,
    /// Number of the spine.
    pub spine: u8,
}

impl Trunk {
    /// Address of the leaf's port.
    #[must_use]
    pub fn leaf_address(self) -> String {
        format!("10.78.{}{}.1", self.leaf, self.spine)
    }

    /// Address of the spine's port.
    #[must_use]
    pub fn spine_address(self) -> String {
        format!("10.78.{}{}.2", self.leaf, self.spine)
    }

    /// Leaf and spine: name of the router, and name of its port.
    #[must_use]
    pub fn ends(self) -> [(String, String); 2] {
        let (leaf, spine) = (format!("leaf{}", self.leaf), format!("spine{}", self.spine));
        [(leaf.clone(), spine.clone()), (spine, leaf)]
    }
}

/// Address of a host.
#[must_use]
pub fn host_address(host: u8) -> String {
    format!("10.77.{host}.2")
}

/// Address of the leaf's port to a host.
#[must_use]
pub fn gateway(host: u8) -> String {
    format!("10.77.{host}.1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cable_and_each_address_is_in_the_topology() {
        let told = TWO_LEAVES.topology();
        let count = |key: &str| told[key].as_array().map_or(0, Vec::len);
        assert_eq!([count("hosts"), count("switches"), count("links"), count("addresses")], [4, 4, 8, 12]);
        assert_eq!(
            told["links"][6],
            json!({"a": "leaf2", "a_port": "spine1", "b": "spine1", "b_port": "leaf2", "rate_gbps": 25})
        );
        assert_eq!(told["addresses"][9], json!({"node": "spine1", "port": "leaf2", "address": "10.78.21.2"}));
        assert_eq!(THREE_LEAVES.trunks().count(), 6);
    }
}
