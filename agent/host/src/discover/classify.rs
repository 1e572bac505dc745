//! Classifies a device from names and cached attributes before its first counter is read.
//!
//! The fabric manager of NVLink systems (B200 class) reserves ConnectX-7 functions: "limited" functions whose registers
//! answer every read with an error and a line in the kernel log. Their vital product data has the keyword `SW_MNG`,
//! which NVIDIA's own scripts check. VPD is readable by root only; without it the back-off of the samplers bounds the
//! damage (`samplers::counter_dir`).

use super::link;
use crate::inventory::{Class, Device};
use crate::sysfile::maybe;
use std::path::Path;

const SW_MANAGED: &str =
    "kept by the fabric manager (SW_MNG in its vital product data): reads would flood the kernel log";

/// Class of an RDMA device, and the reason if reads are refused.
pub(super) fn device(device: &Device) -> (Class, &'static str) {
    if device.ports.iter().filter_map(|p| p.link.as_ref()).any(|l| l.smi_only) {
        return (Class::Management, "management-only (SMI) device: carries no traffic");
    }
    if matches!(&*device.driver, "rdma_rxe" | "siw") {
        return (Class::Software, "");
    }
    if is_subfunction(&device.dir) {
        return (Class::Subfunction, "");
    }
    let netdevs = || device.ports.iter().filter_map(|p| p.netdev.as_ref());
    if netdevs().any(|n| n.class == Class::Representor) {
        return (Class::Representor, "");
    }
    match &device.pci_dir {
        Some(dir) if dir.join("physfn").exists() => (Class::Virtual, ""),
        Some(dir) if is_software_managed(&device.driver, dir) => (Class::Restricted, SW_MANAGED),
        _ => (Class::Physical, ""),
    }
}

/// Class of a netdev.
pub(super) fn netdev(dir: &Path, driver: &str, pci_dir: Option<&Path>) -> Class {
    let port_name = maybe(&dir.join("phys_port_name")).unwrap_or_default();
    if is_representor_name(&port_name) {
        Class::Representor
    } else if is_subfunction(dir) {
        Class::Subfunction
    } else if driver == "iavf" || pci_dir.is_some_and(|d| d.join("physfn").exists()) {
        Class::Virtual
    } else {
        Class::Physical
    }
}

/// True for names of representors such as `pf0vf3`, `pf0sf88`, `pf1`, `c1pf0vf0`; an uplink is `p0`.
fn is_representor_name(name: &str) -> bool {
    let rest = match name.strip_prefix('c') {
        Some(after) => after.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => name,
    };
    rest.strip_prefix("pf").is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()))
}

fn is_subfunction(dir: &Path) -> bool {
    link(&dir.join("device")).and_then(|t| Some(t.file_name()?.to_str()?.contains(".sf."))).unwrap_or(false)
}

fn is_software_managed(driver: &str, pci_dir: &Path) -> bool {
    driver == "mlx5_core" && maybe(&pci_dir.join("vpd")).is_some_and(|vpd| vpd.contains("SW_MNG"))
}

/// Reason why nothing of this device is read; `None` if it is read.
pub fn classify_reason(device: &Device) -> Option<&'static str> {
    (!device.class.may_read()).then_some(device.class_reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uplinks_are_not_representors() {
        for name in ["pf0vf3", "pf0", "c1pf0sf2", "pf1sf88"] {
            assert!(is_representor_name(name), "{name}");
        }
        for name in ["p0", "", "1", "port1", "pfx", "c1"] {
            assert!(!is_representor_name(name), "{name}");
        }
    }
}
