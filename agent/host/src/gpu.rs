//! GPUs and other accelerators of a host, by the class, vendor and device id that the kernel keeps of each PCI function.
//!
//! These attributes are cached: reading them touches no device, and wakes none that is suspended.

use crate::sysfile::maybe;
use std::path::{Path, PathBuf};

/// Most GPUs of one host that are read. Compute nodes have at most 16.
pub const MOST_GPUS: usize = 32;

const NVIDIA: u16 = 0x10de;
const AMD: u16 = 0x1002;
/// Base class and subclass: VGA controller, 3D controller, other display controller (AMD Instinct).
const DISPLAY: [u32; 3] = [0x0300, 0x0302, 0x0380];
/// Base class and subclass of a processing accelerator, of any vendor.
const ACCELERATOR: u32 = 0x1200;

/// A GPU or accelerator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Position among the GPUs of the host in the order of PCI addresses, from 0: the index of `nvidia-smi`.
    pub index: usize,
    /// PCI address.
    pub address: String,
    /// Real directory of the PCI function.
    pub dir: PathBuf,
    /// PCI vendor id.
    pub vendor: u16,
    /// PCI device id.
    pub device: u16,
    /// NUMA node; `None` if the kernel says -1.
    pub numa: Option<u32>,
}

impl Gpu {
    /// The GPU at `dir`; `None` for any other function, and for virtual functions that the host gives to guests.
    pub(crate) fn at(index: usize, address: &str, dir: &Path) -> Option<Self> {
        let id = |name: &str| u32::from_str_radix(maybe(&dir.join(name))?.strip_prefix("0x")?, 16).ok();
        let class = id("class")? >> 8;
        if class != ACCELERATOR && !DISPLAY.contains(&class) {
            return None;
        }
        let [vendor, device] = ["vendor", "device"].map(|name| id(name).and_then(|id| u16::try_from(id).ok()));
        let vendor = vendor?;
        if (class != ACCELERATOR && ![NVIDIA, AMD].contains(&vendor)) || dir.join("physfn").exists() {
            return None;
        }
        let numa = maybe(&dir.join("numa_node")).and_then(|node| node.parse().ok());
        Some(Self { index, address: address.into(), dir: dir.into(), vendor, device: device?, numa })
    }

    /// Vendor, as the label `vendor` has it; the PCI vendor id if it is neither NVIDIA nor AMD.
    pub fn vendor_name(&self) -> String {
        match self.vendor {
            NVIDIA => "nvidia".into(),
            AMD => "amd".into(),
            other => format!("{other:04x}"),
        }
    }

    /// Whether it is a GPU of NVIDIA.
    pub fn is_nvidia(&self) -> bool {
        self.vendor == NVIDIA
    }

    /// PCI ids of vendor and device, for instance `10de:2330`.
    pub fn model(&self) -> String {
        format!("{:04x}:{:04x}", self.vendor, self.device)
    }
}

/// Whether a PCI function may be read beyond cached attributes: its configuration space and the state of its link. A
/// function in runtime suspend would be resumed by the read.
pub fn is_awake(dir: &Path) -> bool {
    maybe(&dir.join("power/runtime_status")).is_none_or(|status| matches!(&*status, "active" | "unsupported"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_apart_by_class_and_vendor() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("device", "0x2330\n");
        write("numa_node", "-1\n");
        for (class, vendor, found) in [
            ("0x030200", "0x10de", Some("nvidia")),
            ("0x030000", "0x10de", Some("nvidia")),
            ("0x038000", "0x1002", Some("amd")),
            ("0x120000", "0x1da3", Some("1da3")),
            ("0x030000", "0x1a03", None), // the display of the management controller
            ("0x068000", "0x10de", None), // an NVSwitch
            ("0x040300", "0x10de", None), // the sound device of a GPU
            ("0x020700", "0x15b3", None),
            ("nonsense", "0x10de", None),
        ] {
            write("class", class);
            write("vendor", vendor);
            let gpu = Gpu::at(0, "0000:19:00.0", dir.path());
            assert_eq!(gpu.as_ref().map(Gpu::vendor_name).as_deref(), found, "{class} {vendor}");
            assert_eq!(gpu.and_then(|gpu| gpu.numa), None);
        }
        write("class", "0x030200");
        assert_eq!(Gpu::at(0, "0000:19:00.0", dir.path()).unwrap().model(), "10de:2330");
        std::fs::create_dir(dir.path().join("physfn")).unwrap();
        assert_eq!(Gpu::at(0, "0000:19:00.4", dir.path()), None, "a virtual function is a guest's");
    }

    #[test]
    fn suspended_functions_are_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        assert!(is_awake(dir.path()), "no runtime power management");
        std::fs::create_dir(dir.path().join("power")).unwrap();
        for (status, awake) in
            [("active", true), ("unsupported", true), ("suspended", false), ("resuming", false), ("error", false)]
        {
            std::fs::write(dir.path().join("power/runtime_status"), format!("{status}\n")).unwrap();
            assert_eq!(is_awake(dir.path()), awake, "{status}");
        }
    }
}
