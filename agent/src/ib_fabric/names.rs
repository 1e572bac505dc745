//! Names of the ports of a subnet in series, and the labels of their identity.

use fabriclens_agent_mad::smp::NodeType;
use fabriclens_agent_mad::subnet::{Node, PortId, Subnet};
use fabriclens_base::infiniband::{hex, host, switch, unique_switch};
use fabriclens_wire::Resource;
use fabriclens_wire::decode::cut;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Longest name in a label, bytes: a node description, and the GUID that equal ones get.
const LONGEST: usize = 64 + 20;

/// Names of all switches of a subnet.
pub struct SwitchNames {
    by_guid: BTreeMap<u64, Arc<str>>,
    /// Label names and values so far: the ports of a node share most of them.
    texts: RefCell<HashSet<Arc<str>>>,
}

impl SwitchNames {
    /// Names the switches of a subnet: by their descriptions, with the GUID where two have the same or none.
    pub fn of(subnet: &Subnet) -> Self {
        let plain: BTreeMap<u64, String> =
            subnet.switches().map(|(guid, node)| (guid, switch(&node.description))).collect();
        let mut times: HashMap<&str, usize> = HashMap::new();
        plain.values().for_each(|name| *times.entry(name).or_default() += 1);
        let named =
            |(guid, name): (&u64, &String)| (*guid, unique_switch(name, *guid, times[name.as_str()] > 1).into());
        Self { by_guid: plain.iter().map(named).collect(), texts: RefCell::default() }
    }

    /// Identity of a port in series; `None` for a port of an adapter whose description names no host.
    pub fn resource(&self, node: &Node, port: u8) -> Option<Resource> {
        if let Some(name) = self.by_guid.get(&node.info.guid) {
            return Some(Resource { host: Arc::clone(name), device: None, port: Some(port.into()) });
        }
        let (host, device) = host(&node.description)?;
        Some(Resource {
            host: host.into(),
            device: Some(device.into()).filter(|_| !device.is_empty()),
            port: Some(port.into()),
        })
    }

    /// Name of a switch.
    pub fn get(&self, guid: u64) -> Option<&Arc<str>> {
        self.by_guid.get(&guid)
    }

    /// Labels of `fabric.port.info`: identity, and the port at the other end of the cable.
    pub fn info(&self, subnet: &Subnet, (guid, port): PortId) -> Vec<(Arc<str>, Arc<str>)> {
        let Some(node) = subnet.nodes.get(&guid) else { return Vec::new() };
        let far = subnet.links.get(&(guid, port)).and_then(|(far, port)| Some((subnet.nodes.get(far)?, *port)));
        let (neighbor, neighbor_guid, neighbor_port) = match far {
            Some((far, port)) => {
                let name = self.by_guid.get(&far.info.guid).map_or(far.description.as_str(), |name| name);
                (short(name), hex(far.info.guid), port.to_string())
            }
            None => Default::default(),
        };
        let kind = match node.info.kind {
            NodeType::Adapter => "1: CA",
            NodeType::Switch => "2: switch",
            NodeType::Router => "3: router",
        };
        let system = if node.info.system_guid == 0 { String::new() } else { hex(node.info.system_guid) };
        let labels = [
            ("fabric", "infiniband".to_owned()),
            ("link_layer", "InfiniBand".to_owned()),
            ("node_desc", short(&node.description)),
            ("node_guid", hex(guid)),
            ("node_type", kind.to_owned()),
            ("switch", neighbor),
            ("switch_id", neighbor_guid),
            ("switch_port", neighbor_port),
            ("system_guid", system),
        ];
        let labels = labels.into_iter().filter(|(_, value)| !value.is_empty());
        let mut labels: Vec<_> = labels.map(|(name, value)| (self.shared(name), self.shared(&value))).collect();
        // Thousands of ports keep theirs.
        labels.shrink_to_fit();
        labels
    }

    /// A text, allocated once.
    fn shared(&self, text: &str) -> Arc<str> {
        let mut texts = self.texts.borrow_mut();
        if let Some(text) = texts.get(text) {
            return Arc::clone(text);
        }
        let shared: Arc<str> = text.into();
        texts.insert(Arc::clone(&shared));
        shared
    }
}

fn short(text: &str) -> String {
    cut(text, LONGEST).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_agent_mad::route::Route;
    use fabriclens_agent_mad::smp::{NodeInfo, SwitchInfo};

    fn node(kind: NodeType, guid: u64, description: &str) -> (u64, Node) {
        let info =
            NodeInfo { kind, ports: 2, system_guid: 0, guid, port_guid: guid, device: 0, local_port: 1, vendor: 0 };
        let (description, route) = (description.to_owned(), Route::local());
        (guid, Node { info, description, route, switch: SwitchInfo::default(), ports: BTreeMap::new() })
    }

    #[test]
    fn ports_are_named_by_their_switch_or_host() {
        let mut subnet = Subnet::default();
        subnet.nodes.extend([
            node(NodeType::Switch, 1, "MF0;leaf1:MQM9700/U1"),
            node(NodeType::Switch, 2, "twin"),
            node(NodeType::Switch, 3, "twin"),
            node(NodeType::Switch, 4, ""),
            node(NodeType::Adapter, 5, "node08 mlx5_0"),
            node(NodeType::Adapter, 6, "MT4129 ConnectX7   Mellanox Technologies"),
        ]);
        subnet.links.extend([((1, 7), (5, 1)), ((5, 1), (1, 7)), ((1, 8), (2, 9))]);
        let names = SwitchNames::of(&subnet);
        let name = |guid: u64| names.resource(&subnet.nodes[&guid], 7).map(|r| (r.host.to_string(), r.device, r.port));
        assert_eq!(name(1), Some(("leaf1".into(), None, Some(7))));
        assert_eq!(name(2), Some(("twin 0x0000000000000002".into(), None, Some(7))));
        assert_eq!(name(4), Some(("0x0000000000000004".into(), None, Some(7))));
        assert_eq!(name(5), Some(("node08".into(), Some("mlx5_0".into()), Some(7))));
        assert_eq!(name(6), None);
        let label = |id, name: &str| {
            let labels = names.info(&subnet, id);
            labels.iter().find(|(n, _)| **n == *name).map(|(_, v)| v.to_string()).unwrap_or_default()
        };
        assert_eq!((label((1, 7), "switch"), label((1, 7), "switch_port")), ("node08 mlx5_0".into(), "1".into()));
        assert_eq!(label((1, 7), "switch_id"), "0x0000000000000005");
        assert_eq!(label((1, 8), "switch"), "twin 0x0000000000000002");
        assert_eq!((label((1, 9), "switch"), label((1, 9), "node_type")), (String::new(), "2: switch".into()));
    }
}
