//! Netdevs: those of RDMA ports, members of bonds, and separate physical ones.

use super::{class_dir, classify, driver, entries, followed, link, pci};
use crate::inventory::Netdev;
use crate::roots::Roots;
use crate::sysfile::maybe;
use fabriclens_kernel::RdmaLink;
use std::path::Path;

const ARPHRD_INFINIBAND: &str = "32";
const ARPHRD_LOOPBACK: &str = "772";

/// Drivers of netdevs without hardware.
const VIRTUAL: &[&str] =
    &["bonding", "bridge", "dummy", "ifb", "macvlan", "ipvlan", "openvswitch", "team", "tun", "veth", "vrf", "vxlan"];

/// (port, netdev) of an RDMA device: from netlink, else the GID table, else `device/net`, else `parent`.
pub(super) fn of_device(roots: &Roots, device: &str, dir: &Path, links: &[&RdmaLink]) -> Vec<(u32, String)> {
    let linked: Vec<_> = links.iter().filter_map(|l| Some((l.port, l.netdev.clone()?))).collect();
    if !linked.is_empty() {
        return linked;
    }
    let ports: Vec<u32> = entries(&dir.join("ports")).iter().filter_map(|p| p.parse().ok()).collect();
    let by_gid = |port: &u32| {
        let ndevs = dir.join("ports").join(port.to_string()).join("gid_attrs/ndevs");
        (0..4).find_map(|slot| Some((*port, maybe(&ndevs.join(slot.to_string()))?)))
    };
    let by_gid: Vec<_> = ports.iter().filter_map(by_gid).collect();
    if !by_gid.is_empty() {
        return by_gid;
    }
    if let Some(parent) = maybe(&dir.join("parent")) {
        return vec![(1, parent)];
    }
    let mut found = entries(&followed(&dir.join("device")).join("net"));
    if found.is_empty() && !device.is_empty() {
        found = same_function(roots, dir);
    }
    found.retain(|name| maybe(&class_dir(roots, "net", name).join("type")).as_deref() != Some(ARPHRD_INFINIBAND));
    ports.iter().filter_map(|&port| Some((port, on_port(roots, &found, port, ports.len())?))).collect()
}

/// Netdevs of the same PCI function.
fn same_function(roots: &Roots, dir: &Path) -> Vec<String> {
    let Some(function) = pci::of(roots, dir) else { return Vec::new() };
    let net = roots.sys().join("class/net");
    let same =
        |name: &String| pci::of(roots, &class_dir(roots, "net", name)).is_some_and(|f| f.address == function.address);
    entries(&net).into_iter().filter(same).collect()
}

/// Selects the netdev of a port: mlx4 has two ports on one function, and `dev_port` counts from 0.
fn on_port(roots: &Roots, netdevs: &[String], port: u32, ports: usize) -> Option<String> {
    let at = |name: &&String| {
        let dev_port = maybe(&class_dir(roots, "net", name).join("dev_port"));
        dev_port.and_then(|p| p.parse::<u32>().ok()).is_some_and(|p| p + 1 == port)
    };
    match netdevs {
        [only] if ports == 1 => Some(only.clone()),
        several => several.iter().find(at).cloned(),
    }
}

/// Members of a RoCE LAG: of the bond that the device's netdev is, or is a member of.
pub(super) fn bond_members(roots: &Roots, device: &str, names: &[(u32, String)]) -> Vec<String> {
    if !device.contains("bond") {
        return Vec::new();
    }
    let slaves = |name: &str| maybe(&class_dir(roots, "net", name).join("bonding/slaves"));
    let members = names.iter().find_map(|(_, name)| {
        slaves(name).or_else(|| slaves(link(&class_dir(roots, "net", name).join("master"))?.file_name()?.to_str()?))
    });
    match members {
        Some(list) => list.split_whitespace().map(str::to_string).collect(),
        None => names.iter().map(|(_, name)| name.clone()).collect(),
    }
}

/// Attributes of a netdev.
pub(super) fn facts(roots: &Roots, name: &str) -> Netdev {
    let dir = class_dir(roots, "net", name);
    let function = pci::of(roots, &dir);
    let driver = driver::of_netdev(roots, name).unwrap_or_default();
    let pci_dir = function.as_ref().map(|f| f.dir.clone());
    Netdev {
        name: name.into(),
        class: classify::netdev(&dir, &driver, pci_dir.as_deref()),
        driver: driver.into(),
        firmware: None,
        numa: function.as_ref().and_then(|f| f.numa()),
        pci: function.map(|f| f.address),
        pci_dir,
        master: link(&dir.join("master")).and_then(|t| Some(t.file_name()?.to_str()?.to_string())),
        rdma_bond: None,
        infiniband: maybe(&dir.join("type")).as_deref() == Some(ARPHRD_INFINIBAND),
        dir,
    }
}

/// A netdev with hardware, or `None`.
pub(super) fn physical(roots: &Roots, name: &str) -> Option<Netdev> {
    let dir = class_dir(roots, "net", name);
    if name == "lo" || maybe(&dir.join("type")).as_deref() == Some(ARPHRD_LOOPBACK) {
        return None;
    }
    let has_device = dir.join("device").exists() || link(&dir.join("device")).is_some();
    let found = facts(roots, name);
    // A recording may lack the link to the device; the driver name then suffices.
    let named = roots.is_recorded() && !found.driver.is_empty();
    ((has_device || named) && !VIRTUAL.contains(&&*found.driver)).then_some(found)
}
