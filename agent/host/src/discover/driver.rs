//! Finds the driver of a device: by the driver link, else uevent, else `ethtool -i`, else the name.

use super::{class_dir, followed, link};
use crate::roots::Roots;
use crate::sysfile::maybe;
use fabriclens_catalog::DriverFamily;
use std::path::Path;

/// Driver of an RDMA device; empty if unknown.
pub(super) fn rdma(roots: &Roots, name: &str, dir: &Path, netdev: Option<&str>) -> String {
    let by_name =
        DriverFamily::for_device(name).and_then(|family| family.drivers.first()).map(|driver| (*driver).to_string());
    // Software devices sit on a netdev (`parent`), whose hardware driver is not theirs.
    if dir.join("parent").exists() && !dir.join("device").exists() {
        return by_name.unwrap_or_else(|| "rdma_rxe".into());
    }
    of_bus_device(&dir.join("device"))
        .or(by_name)
        .or_else(|| maybe(&dir.join("hca_type")).filter(|t| t.starts_with("MT4")).map(|_| "mlx5_core".into()))
        .or_else(|| netdev.and_then(|n| of_netdev(roots, n)))
        .unwrap_or_default()
}

/// Driver of a netdev.
pub(super) fn of_netdev(roots: &Roots, name: &str) -> Option<String> {
    of_bus_device(&class_dir(roots, "net", name).join("device"))
        .or_else(|| roots.calls().driver(name).ok().map(|info| info.driver).filter(|d| !d.is_empty()))
}

fn of_bus_device(device: &Path) -> Option<String> {
    let device = followed(device);
    let by_link = link(&device.join("driver")).and_then(|t| Some(t.file_name()?.to_str()?.to_string()));
    by_link.or_else(|| {
        let uevent = maybe(&device.join("uevent"))?;
        uevent.lines().find_map(|l| l.strip_prefix("DRIVER=")).map(str::to_string)
    })
}
