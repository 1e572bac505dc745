//! Tells RoCE version 1, version 2, iWARP, InfiniBand, Omni-Path and EFA apart.

use crate::inventory::{Device, LinkLayer, Transport};
use crate::sysfile::maybe;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

/// GID tables have up to 1,024 slots, filled from the front.
const SLOTS: u32 = 64;
/// Empty slots in a row after which the table is taken to end (each costs a failing read).
const GAP: u32 = 8;

/// RDMA transport of the port at `dir`.
pub fn transport(device: &Device, dir: &Path, link_layer: LinkLayer) -> Transport {
    match &*device.driver {
        "hfi1" => return Transport::OmniPath,
        "efa" => return Transport::Efa,
        "siw" | "i40iw" | "iw_cxgb4" => return Transport::Iwarp,
        _ => {}
    }
    // node_type "4: RNIC": irdma reports it for iWARP ports only.
    if maybe(&device.dir.join("node_type")).is_some_and(|t| t.ends_with("RNIC")) {
        return Transport::Iwarp;
    }
    match link_layer {
        LinkLayer::InfiniBand => Transport::InfiniBand,
        LinkLayer::Unknown => Transport::Unknown,
        LinkLayer::Ethernet => roce(dir),
    }
}

/// An address of a RoCE v2 port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoceAddress {
    /// Index in the port's GID table.
    pub index: u32,
    /// The address of the GID.
    pub address: IpAddr,
}

/// Address from which flows of the RoCE v2 port at `dir` are sent: the first IPv4 address of the GID table, else the first
/// IPv6 address. `None` if it has link-local addresses only, which no router forwards.
pub fn roce_address(dir: &Path) -> Option<RoceAddress> {
    let mut found: Option<RoceAddress> = None;
    for (index, _) in gid_types(dir).filter(|(_, kind)| *kind == Transport::RoceV2) {
        let gid = maybe(&dir.join("gids").join(index.to_string())).and_then(|text| text.parse::<Ipv6Addr>().ok());
        let Some(gid) = gid.filter(|gid| !gid.is_unspecified() && !gid.is_unicast_link_local()) else { continue };
        let address = IpAddr::from(gid).to_canonical();
        if address.is_ipv4() {
            return Some(RoceAddress { index, address });
        }
        found = found.or(Some(RoceAddress { index, address }));
    }
    found
}

/// Interface of a GID: the one through which its flows go, which is a VLAN's if the address is. `None` on old kernels.
pub fn gid_netdev(dir: &Path, index: u32) -> Option<String> {
    maybe(&dir.join("gid_attrs/ndevs").join(index.to_string())).filter(|name| !name.is_empty())
}

fn roce(dir: &Path) -> Transport {
    let mut found = Transport::Roce;
    for (_, version) in gid_types(dir) {
        found = version;
        if version == Transport::RoceV2 {
            break;
        }
    }
    found
}

/// Occupied slots of the GID table of the RoCE port at `dir`, and the version of each.
fn gid_types(dir: &Path) -> impl Iterator<Item = (u32, Transport)> {
    let types = dir.join("gid_attrs/types");
    let slots = (0..SLOTS).scan(0, move |empty, slot| {
        let kind = match maybe(&types.join(slot.to_string())).as_deref() {
            Some("RoCE v2") => Some(Transport::RoceV2),
            Some("IB/RoCE v1") => Some(Transport::RoceV1),
            _ => None,
        };
        *empty = if kind.is_some() { 0 } else { *empty + 1 };
        (*empty < GAP).then_some(kind.map(|kind| (slot, kind)))
    });
    slots.flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(gids: &[(&str, &str)]) -> Option<RoceAddress> {
        let dir = tempfile::tempdir().unwrap();
        for part in ["gids", "gid_attrs/types"] {
            std::fs::create_dir_all(dir.path().join(part)).unwrap();
        }
        for (slot, (kind, gid)) in gids.iter().enumerate() {
            std::fs::write(dir.path().join(format!("gids/{slot}")), format!("{gid}\n")).unwrap();
            std::fs::write(dir.path().join(format!("gid_attrs/types/{slot}")), format!("{kind}\n")).unwrap();
        }
        roce_address(dir.path())
    }

    #[test]
    fn the_address_is_the_one_that_routers_forward() {
        let local = ("RoCE v2", "fe80:0000:0000:0000:0202:c9ff:fe00:0001");
        let v1 = ("IB/RoCE v1", "0000:0000:0000:0000:0000:ffff:0a00:0009");
        let v4 = ("RoCE v2", "0000:0000:0000:0000:0000:ffff:0a00:0001");
        let v6 = ("RoCE v2", "fd00:0000:0000:0000:0000:0000:0000:0007");
        let at = |index, address: &str| Some(RoceAddress { index, address: address.parse().unwrap() });
        assert_eq!(port(&[local, v1, v6, v4]), at(3, "10.0.0.1"), "IPv4, as most jobs choose");
        assert_eq!(port(&[local, v6]), at(1, "fd00::7"));
        assert_eq!(port(&[local]), None);
        assert_eq!(port(&[v1]), None, "version 1 is not routed");
    }
}
