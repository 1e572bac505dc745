//! Ports of this host from which paths are traced: those of RoCE v2 with an address that routers forward.

use fabriclens_agent_host::discover::{gid_netdev, roce_address};
use fabriclens_agent_host::inventory::{Device, Inventory, Port, Transport};
use fabriclens_agent_tracer::LocalPort;

/// RoCE v2 ports of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutedPorts {
    /// Those that are traced from.
    pub ports: Vec<LocalPort>,
    /// Those that are not, and why, as sentences.
    pub left_out: Vec<String>,
}

/// RoCE v2 ports of these devices. Reads the tables of GIDs, which the kernel holds in memory.
pub fn routed_ports(inventory: &Inventory) -> RoutedPorts {
    let mut found = RoutedPorts::default();
    for device in inventory.devices.iter().filter(|device| device.class.may_read()) {
        for port in device.ports.iter().filter(|port| port.transport == Transport::RoceV2) {
            match local_port(device, port) {
                Ok(local) => found.ports.push(local),
                Err(why) => found.left_out.push(format!("{}/{} is not traced from: {why}", device.name, port.number)),
            }
        }
    }
    found
}

fn local_port(device: &Device, port: &Port) -> Result<LocalPort, &'static str> {
    // The adapter chooses the member for its own packets; the kernel's choice for others may differ.
    if !device.lag.is_empty() {
        return Err("it is a bond, whose adapter chooses the link for RDMA by itself");
    }
    let address = roce_address(&port.dir).ok_or("it has link-local addresses only; give its interface an address")?;
    let device_of_gid = gid_netdev(&port.dir, address.index);
    let netdev = device_of_gid.or_else(|| port.netdev.as_ref().map(|netdev| netdev.name.to_string()));
    Ok(LocalPort { name: format!("{}/{}", device.name, port.number), address: address.address, device: netdev })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_agent_host::inventory::LinkLayer;
    use std::path::Path;
    use std::sync::Arc;

    fn device(name: &str, dir: &Path, gid: &str) -> Device {
        for (table, text) in [("gids", gid), ("gid_attrs/types", "RoCE v2"), ("gid_attrs/ndevs", "eth0.7")] {
            std::fs::create_dir_all(dir.join(table)).unwrap();
            std::fs::write(dir.join(table).join("0"), text).unwrap();
        }
        let port = Port {
            number: 1,
            link_layer: LinkLayer::Ethernet,
            transport: Transport::RoceV2,
            netdev: None,
            link: None,
            dir: dir.to_owned(),
        };
        Device { ports: vec![port], ..Device::bare(name, "mlx5_core") }
    }

    #[test]
    fn ports_with_an_address_of_their_own_are_traced_from() {
        let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let mapped = "0000:0000:0000:0000:0000:ffff:0a00:0101";
        let bond = Device { lag: vec!["eth1".into(), "eth2".into()], ..device("mlx5_bond_0", dirs[2].path(), mapped) };
        let devices = [
            device("mlx5_0", dirs[0].path(), mapped),
            device("mlx5_1", dirs[1].path(), "fe80:0000:0000:0000:0000:0000:0000:0001"),
            bond,
        ];
        let found = routed_ports(&Inventory { devices: devices.map(Arc::new).into(), ..Inventory::default() });
        let port =
            LocalPort { name: "mlx5_0/1".into(), address: "10.0.1.1".parse().unwrap(), device: Some("eth0.7".into()) };
        assert_eq!(found.ports, [port]);
        assert!(found.left_out[0].starts_with("mlx5_1/1 is not traced from: it has link-local"), "{found:?}");
        assert!(found.left_out[1].starts_with("mlx5_bond_0/1 is not traced from: it is a bond"), "{found:?}");
    }
}
