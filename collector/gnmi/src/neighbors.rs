//! LLDP neighbors of a switch's ports, which the topology reads.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fabriclens_catalog::metrics::switch_events;

use crate::leaf::{Leaf, Receiver, Scalar};
use crate::outbox::Row;
use crate::output::Output;

/// Most ports of a switch.
const PORTS: usize = 10_000;
/// Longest name of a neighbor or its port, bytes.
const NAME: usize = 255;

/// Neighbors of one switch.
pub(crate) struct Neighbors {
    output: Output,
    /// The neighbor, its port's identifier and description, and its management address, by port, of the message that is being read.
    ports: BTreeMap<String, [String; 4]>,
    time_ms: i64,
}

/// Fields of SONiC's table and of OpenConfig's model, in the order of [`Neighbors::ports`].
const FIELDS: [[&str; 2]; 4] = [
    ["lldp_rem_sys_name", "system-name"],
    ["lldp_rem_port_id", "port-id"],
    ["lldp_rem_port_desc", "port-description"],
    ["lldp_rem_man_addr", "management-address"],
];

impl Neighbors {
    pub(crate) fn new(output: Output) -> Self {
        Self { output, ports: BTreeMap::new(), time_ms: 0 }
    }
}

impl Receiver for Neighbors {
    fn leaf(&mut self, leaf: Leaf<'_>) {
        let Scalar::Text(text) = leaf.value else { return };
        let port = leaf.keys.iter().find(|(key, _)| key == "object_name" || key == "interface.name");
        let Some((_, port)) = port.filter(|_| text.len() <= NAME) else { return };
        let full = self.ports.len() >= PORTS && !self.ports.contains_key(port);
        if full {
            return self.output.counters.dropped("paths", 1);
        }
        self.time_ms = leaf.time_ms;
        let field = leaf.name.rsplit('/').next().unwrap_or_default();
        if let Some(at) = FIELDS.iter().position(|names| names.contains(&field)) {
            text.trim().clone_into(&mut self.ports.entry(port.clone()).or_default()[at]);
        }
    }

    fn delete(&mut self, _: &str, _: &[(String, String)], _: i64) {}

    fn end(&mut self) {
        let mut row = Row { time_ms: self.time_ms, ..Row::default() };
        for (port, [neighbor, id, description, addresses]) in std::mem::take(&mut self.ports) {
            if neighbor.is_empty() {
                continue;
            }
            // Where the identifier is a MAC address, the description is the name.
            let neighbor_port = if is_address(&id) && !description.is_empty() { description } else { id };
            // SONiC lists several; the first is the one of the management port.
            let address = addresses.split(',').find_map(|text| text.trim().parse::<IpAddr>().ok());
            let address = address.map(|address| address.to_string()).unwrap_or_default();
            let names = [("neighbor", neighbor), ("neighbor_address", address), ("neighbor_port", neighbor_port)];
            row.series.push(self.output.labels(&switch_events::PORT_NEIGHBOR, Some(&port), &names));
            row.values.push(1.0);
        }
        if !row.values.is_empty() {
            self.output.push(row);
        }
    }
}

/// Whether a name is a MAC address.
fn is_address(name: &str) -> bool {
    let mut bytes = name.split([':', '-']);
    bytes.clone().count() == 6 && bytes.all(|byte| byte.len() == 2 && byte.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_of_both_kinds_of_switches() {
        let output = Output::for_tests("leaf1");
        let mut neighbors = Neighbors::new(output.clone());
        let mut told = |key: &str, port: &str, leaves: &[(&str, &str)]| {
            let keys = [(key.to_owned(), port.to_owned())];
            for (name, value) in leaves {
                neighbors.leaf(Leaf { name, keys: &keys, value: Scalar::Text(value), time_ms: 5 });
            }
            neighbors.end();
            output.outbox.take().iter().flat_map(|row| row.series.iter().map(ToString::to_string)).collect::<Vec<_>>()
        };
        let sonic = [
            ("LLDP_ENTRY_TABLE/lldp_rem_port_id", "0c:42:a1:00:00:01"),
            ("LLDP_ENTRY_TABLE/lldp_rem_port_desc", "ens1f0np0"),
            ("LLDP_ENTRY_TABLE/lldp_rem_sys_name", "gpu-01"),
            ("LLDP_ENTRY_TABLE/lldp_rem_man_addr", "10.3.147.196,fe80::5054:ff:fe12:3456"),
        ];
        let expected = r#"fabric_port_neighbor_info{host="leaf1", neighbor="gpu-01", neighbor_address="10.3.147.196", neighbor_port="ens1f0np0", port="Ethernet0"}"#;
        assert_eq!(told("object_name", "Ethernet0", &sonic), [expected]);
        let model = ["port-description", "port-id", "system-name", "management-address"]
            .map(|leaf| format!("lldp/interfaces/interface/neighbors/neighbor/state/{leaf}"));
        let model =
            [(&*model[0], "to leaf1"), (&*model[1], "swp7"), (&*model[2], "spine1"), (&*model[3], "not an address")];
        let lines = told("interface.name", "swp1", &model);
        let expected =
            r#"fabric_port_neighbor_info{host="leaf1", neighbor="spine1", neighbor_port="swp7", port="swp1"}"#;
        assert_eq!(lines, [expected]);
        assert!(told("object_name", "Ethernet4", &sonic[..2]).is_empty(), "nobody is there");
    }
}
