//! Which ports of a host can send datagrams, and with what: GID or LID, and how their driver chooses source ports.

use fabriclens_agent_host::discover::roce_address;
use fabriclens_agent_host::inventory::{Class, Device, LinkLayer, Port, Transport};
use fabriclens_kernel::datagrams::{OpenError, PortSource, SourcePorts};
use std::fs;

/// Drivers by how they choose the UDP source port of UD datagrams. Others: unknown.
const DRIVERS: &[(&str, SourcePorts)] = &[
    ("mlx5_core", SourcePorts::Chosen),
    ("hns3", SourcePorts::Chosen),
    ("hns_roce_hw_v2", SourcePorts::Chosen),
    ("rdma_rxe", SourcePorts::Fixed),
];

/// What must be known to open a port; `None` for ports that carry no RDMA of their own: management devices, functions that
/// the fabric manager has reserved, representors.
///
/// # Errors
/// The port cannot send datagrams.
pub fn source(device: &Device, port: &Port) -> Option<Result<PortSource, OpenError>> {
    let is_own = matches!(device.class, Class::Physical | Class::Virtual | Class::Subfunction | Class::Software);
    is_own.then(|| read(device, port))
}

fn read(device: &Device, port: &Port) -> Result<PortSource, OpenError> {
    let name = format!("{}/{}", device.name, port.number);
    let number = u8::try_from(port.number).map_err(|_| OpenError::NoDatagrams(name.clone()))?;
    if matches!(port.transport, Transport::Iwarp | Transport::Efa) {
        return Err(OpenError::NoDatagrams(name));
    }
    let found = PortSource { device: device.name.to_string(), port: number, ..PortSource::default() };
    if port.link_layer == LinkLayer::InfiniBand {
        let text = fs::read_to_string(port.dir.join("lid")).unwrap_or_default();
        let lid = u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok();
        // Unicast LIDs.
        let lid = lid.filter(|lid| (1..0xc000).contains(lid)).ok_or(OpenError::NoLid(name))?;
        return Ok(PortSource { lid, ..found });
    }
    let gid = roce_address(&port.dir).and_then(|gid| Some((u8::try_from(gid.index).ok()?, gid.address)));
    let rule = DRIVERS.iter().find(|(driver, _)| *driver == &*device.driver);
    let source_ports = rule.map_or(SourcePorts::Unknown, |(_, rule)| *rule);
    Ok(PortSource { gid: Some(gid.ok_or(OpenError::NoGid(name))?), source_ports, ..found })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn device(driver: &str, link_layer: LinkLayer, transport: Transport, dir: &Path) -> Device {
        let port = Port { number: 1, link_layer, transport, netdev: None, link: None, dir: dir.to_owned() };
        Device { ports: vec![port], ..Device::bare("mlx5_0", driver) }
    }

    fn of(device: &Device) -> Result<PortSource, String> {
        source(device, &device.ports[0]).unwrap().map_err(|error| error.to_string())
    }

    #[test]
    fn ports_tell_how_they_send() {
        let dir = tempfile::tempdir().unwrap();
        let roce = |driver| device(driver, LinkLayer::Ethernet, Transport::RoceV2, dir.path());
        assert_eq!(
            of(&roce("mlx5_core")).unwrap_err(),
            "mlx5_0/1 has no RoCE v2 GID of a routable address; give its network interface an IP address"
        );
        for part in ["gids", "gid_attrs/types"] {
            fs::create_dir_all(dir.path().join(part)).unwrap();
        }
        fs::write(dir.path().join("gids/0"), "0000:0000:0000:0000:0000:ffff:0a4d:0001\n").unwrap();
        fs::write(dir.path().join("gid_attrs/types/0"), "RoCE v2\n").unwrap();
        for (driver, rule) in
            [("mlx5_core", SourcePorts::Chosen), ("rdma_rxe", SourcePorts::Fixed), ("bnxt_re", SourcePorts::Unknown)]
        {
            let found = of(&roce(driver)).unwrap();
            assert_eq!((found.gid, found.source_ports), (Some((0, [10, 77, 0, 1].into())), rule), "{driver}");
        }
        let iwarp = device("siw", LinkLayer::Ethernet, Transport::Iwarp, dir.path());
        assert_eq!(of(&iwarp).unwrap_err(), "mlx5_0/1 has a transport without unreliable datagrams");
        let infiniband = device("mlx5_core", LinkLayer::InfiniBand, Transport::InfiniBand, dir.path());
        fs::write(dir.path().join("lid"), "0x0\n").unwrap();
        assert_eq!(of(&infiniband).unwrap_err(), "mlx5_0/1 has no LID; a subnet manager must run");
        fs::write(dir.path().join("lid"), "0x1a\n").unwrap();
        assert_eq!(of(&infiniband).map(|found| (found.lid, found.gid)), Ok((0x1a, None)));
        let mut restricted = infiniband;
        restricted.class = Class::Restricted;
        assert!(source(&restricted, &restricted.ports[0]).is_none());
    }
}
