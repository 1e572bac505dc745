//! What sysfs tells of a port before it is opened: link layer, driver, LID, and the GID from which datagrams are sent.

use crate::datagrams::{OpenError, SourcePorts};
use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// Entries of a GID table that are read.
const GIDS: usize = 256;

/// Drivers by how they choose the UDP source port of UD datagrams. Others: unknown.
const DRIVERS: &[(&str, SourcePorts)] =
    &[("mlx5_core", SourcePorts::Chosen), ("hns3", SourcePorts::Chosen), (RXE, SourcePorts::Fixed)];
const RXE: &str = "rdma_rxe";

/// Facts of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSource {
    /// RoCE v2: index of the GID, and its address. `None` on InfiniBand.
    pub gid: Option<(u8, IpAddr)>,
    /// InfiniBand: LID; 0 on Ethernet.
    pub lid: u16,
    /// How the driver chooses source ports.
    pub source_ports: SourcePorts,
}

/// Reads the facts of a port; `sys` is the root of sysfs.
///
/// # Errors
/// The port cannot send datagrams.
pub fn read(sys: &Path, device: &str, port: u32) -> Result<PortSource, OpenError> {
    let base = sys.join("class/infiniband").join(device);
    let at = base.join("ports").join(port.to_string());
    let name = || format!("{device}/{port}");
    let text = |path: PathBuf| fs::read_to_string(path).map(|text| text.trim().to_owned());
    let layer = text(at.join("link_layer")).map_err(|_| OpenError::NoDevice(name()))?;
    if layer == "InfiniBand" {
        let lid = text(at.join("lid")).ok().and_then(|lid| u16::from_str_radix(lid.trim_start_matches("0x"), 16).ok());
        let lid = lid.filter(|lid| (1..0xc000).contains(lid)).ok_or_else(|| OpenError::NoLid(name()))?;
        return Ok(PortSource { gid: None, lid, source_ports: SourcePorts::Unknown });
    }
    // iWARP: `4: RNIC`.
    if text(base.join("node_type")).is_ok_and(|kind| kind.starts_with('4')) {
        return Err(OpenError::NoDatagrams(name()));
    }
    let gid = choose(&at).ok_or_else(|| OpenError::NoGid(name()))?;
    let driver = driver(&base);
    let source_ports =
        DRIVERS.iter().find(|row| Some(row.0) == driver.as_deref()).map_or_else(Default::default, |r| r.1);
    Ok(PortSource { gid: Some(gid), lid: 0, source_ports })
}

/// Kernel module of a device. Soft-RoCE has no bus device, but names its network interface in `parent`.
fn driver(base: &Path) -> Option<String> {
    match fs::read_link(base.join("device/driver")) {
        Ok(link) => link.file_name().map(|name| name.to_string_lossy().into_owned()),
        Err(_) => base.join("parent").exists().then(|| RXE.to_owned()),
    }
}

/// GID of RoCE v2: of the port's own interface before those of VLANs on it, IPv4 before global before link-local IPv6.
fn choose(port: &Path) -> Option<(u8, IpAddr)> {
    let attributes = port.join("gid_attrs");
    let read = |directory: &Path, index: usize| fs::read_to_string(directory.join(index.to_string())).ok();
    let own = read(&attributes.join("ndevs"), 0).map(|name| name.trim().to_owned());
    let candidates = (0..GIDS).filter_map(|index| {
        let kind = read(&attributes.join("types"), index)?;
        let address = address(read(&port.join("gids"), index)?.trim())?;
        let netdev = read(&attributes.join("ndevs"), index)?;
        let foreign = own.as_deref() != Some(netdev.trim());
        let rank = match address {
            IpAddr::V4(_) => 0,
            IpAddr::V6(v6) if (v6.segments()[0] & 0xffc0) != 0xfe80 => 1,
            IpAddr::V6(_) => 2,
        };
        (kind.trim() == "RoCE v2").then_some((foreign, rank, u8::try_from(index).ok()?, address))
    });
    candidates
        .min_by_key(|(foreign, rank, index, _)| (*foreign, *rank, *index))
        .map(|(.., index, address)| (index, address))
}

/// IP address of a GID as sysfs prints it; `None` for the zero GID of an empty entry.
fn address(gid: &str) -> Option<IpAddr> {
    let v6: Ipv6Addr = gid.parse().ok().filter(|gid: &Ipv6Addr| !gid.is_unspecified())?;
    Some(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4))
}

/// A GID as it stands in a route.
pub fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(layer: &str, gids: &[(&str, &str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("class/infiniband/mlx5_0");
        let port = device.join("ports/1");
        for folder in ["gids", "gid_attrs/types", "gid_attrs/ndevs"] {
            fs::create_dir_all(port.join(folder)).unwrap();
        }
        fs::write(port.join("link_layer"), layer).unwrap();
        fs::write(port.join("lid"), "0x1a\n").unwrap();
        for (index, (gid, kind, netdev)) in gids.iter().enumerate() {
            let index = index.to_string();
            fs::write(port.join("gids").join(&index), gid).unwrap();
            // The kernel refuses to read the attributes of empty entries.
            if !kind.is_empty() {
                fs::write(port.join("gid_attrs/types").join(&index), format!("{kind}\n")).unwrap();
                fs::write(port.join("gid_attrs/ndevs").join(&index), format!("{netdev}\n")).unwrap();
            }
        }
        root
    }

    const LINK_LOCAL: &str = "fe80:0000:0000:0000:bace:f6ff:fe00:0001\n";
    const MAPPED: &str = "0000:0000:0000:0000:0000:ffff:0a4d:0001\n";

    #[test]
    fn the_gid_is_of_roce_v2_and_of_the_ports_own_interface() {
        let rows = [
            (LINK_LOCAL, "IB/RoCE v1", "ens1"),
            (LINK_LOCAL, "RoCE v2", "ens1"),
            ("0000:0000:0000:0000:0000:ffff:0a58:0001", "RoCE v2", "ens1.88"),
            (MAPPED, "IB/RoCE v1", "ens1"),
            (MAPPED, "RoCE v2", "ens1"),
            ("0000:0000:0000:0000:0000:0000:0000:0000", "", ""),
        ];
        let root = tree("Ethernet\n", &rows);
        let found = read(root.path(), "mlx5_0", 1).unwrap();
        assert_eq!((found.gid, found.lid), (Some((4, "10.77.0.1".parse().unwrap())), 0));
        let root = tree("Ethernet\n", &rows[..3]);
        assert_eq!(read(root.path(), "mlx5_0", 1).unwrap().gid.map(|gid| gid.0), Some(1), "link-local of its own");
        let root = tree("Ethernet\n", &rows[..1]);
        let why = read(root.path(), "mlx5_0", 1).unwrap_err().to_string();
        assert_eq!(why, "mlx5_0/1 has no RoCE v2 GID; give its network interface an IP address");
        assert!(matches!(read(root.path(), "mlx5_9", 1), Err(OpenError::NoDevice(_))));
    }

    #[test]
    fn source_ports_follow_the_driver() {
        let root = tree("Ethernet\n", &[(MAPPED, "RoCE v2", "ens1")]);
        let device = root.path().join("class/infiniband/mlx5_0");
        let ports = || read(root.path(), "mlx5_0", 1).unwrap().source_ports;
        assert_eq!(ports(), SourcePorts::Unknown);
        fs::write(device.join("parent"), "ens1\n").unwrap();
        assert_eq!(ports(), SourcePorts::Fixed, "soft-RoCE");
        fs::create_dir(device.join("device")).unwrap();
        std::os::unix::fs::symlink("/sys/bus/pci/drivers/mlx5_core", device.join("device/driver")).unwrap();
        assert_eq!(ports(), SourcePorts::Chosen);
        fs::write(device.join("node_type"), "4: RNIC\n").unwrap();
        assert!(matches!(read(root.path(), "mlx5_0", 1), Err(OpenError::NoDatagrams(_))));
    }

    #[test]
    fn infiniband_has_a_lid() {
        let root = tree("InfiniBand\n", &[]);
        let found = read(root.path(), "mlx5_0", 1).unwrap();
        assert_eq!((found.gid, found.lid, found.source_ports), (None, 0x1a, SourcePorts::Unknown));
        fs::write(root.path().join("class/infiniband/mlx5_0/ports/1/lid"), "0x0\n").unwrap();
        assert!(matches!(read(root.path(), "mlx5_0", 1), Err(OpenError::NoLid(_))));
    }
}
