//! The sysfs part of a recording: class links, the directories of devices, ports and netdevs, their PCI chain, and GPUs.

use super::CaptureError;
use super::out::RecordingWriter;
use fabriclens_agent_host::gpu::is_awake;
use fabriclens_agent_host::inventory::Inventory;
use fabriclens_agent_host::pci_config::PciConfigs;
use fabriclens_agent_host::roots::Roots;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Levels below a device that are followed: `ports/1/gid_attrs/types/0` has five.
const DEPTH: usize = 7;

/// Levels below a settings directory that are followed.
const SETTINGS: usize = 4;

/// Directories that no sampler reads: per queue, per CPU, or of other subsystems.
const SKIP: &[&str] = &["power", "queues", "subsystem", "firmware_node", "brport", "bridge", "batman_adv", "phydev"];

/// Attributes of a PCI function. The others may have side effects (`reset`, `rom`) or are large (`config`,
/// `resource0`).
const PCI: &[&str] = &[
    "vendor",
    "device",
    "subsystem_vendor",
    "subsystem_device",
    "class",
    "revision",
    "numa_node",
    "local_cpulist",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
    "aer_dev_correctable",
    "aer_dev_nonfatal",
    "aer_dev_fatal",
    "aer_rootport_total_err_cor",
    "aer_rootport_total_err_nonfatal",
    "aer_rootport_total_err_fatal",
    "sriov_numvfs",
    "sriov_totalvfs",
    "uevent",
];

/// How NVIDIA's open kernel module calls itself.
const OPEN_MODULE: &str = "Open Kernel Module";

/// Kind of a directory; it selects the files to record.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Rdma { counters: bool },
    Net,
    Pci,
}

pub(super) fn record(roots: &Roots, inventory: &Inventory, out: &mut RecordingWriter<'_>) -> Result<(), CaptureError> {
    let Ok(real) = roots.sys().canonicalize() else {
        out.skip(Path::new("sys"), "not there");
        return Ok(());
    };
    let mut walk = Walk { sys: real, seen: BTreeSet::new(), out };
    for device in &inventory.devices {
        let class = Path::new("class/infiniband").join(&*device.name);
        if !device.class.may_read() {
            walk.out.skip(&Path::new("sys").join(&class), format!("its counters: {}", device.class_reason));
        }
        walk.place(&class, Kind::Rdma { counters: device.class.may_read() })?;
        if device.class.may_read() {
            walk.settings(&device.name, device.pci.as_deref())?;
        }
        // Discovery reads it to find functions that must not be read; only its marker file matters.
        if let Some(dir) = device.pci_dir.as_ref().and_then(|d| walk.relative(d)) {
            walk.vpd(&dir)?;
        }
    }
    for gpu in &inventory.gpus {
        walk.place(&Path::new("bus/pci/devices").join(&gpu.address), Kind::Pci)?;
        if let Some(dir) = walk.relative(&gpu.dir) {
            for file in ["xgmi_device_id", "xgmi_hive_info/xgmi_hive_id"] {
                walk.file(&dir.join(file))?;
            }
        }
    }
    if walk.sys.join("kernel/iommu_groups").is_dir() {
        walk.out.dir(&sys(Path::new("kernel/iommu_groups")))?;
    }
    if !inventory.gpus.is_empty() {
        walk.file(Path::new("devices/system/node/online"))?;
        walk.gpudirect()?;
        if let Ok(version) = std::fs::read_to_string(roots.proc().join("driver/nvidia/version")) {
            // The line also names who built the module.
            let kind = if version.contains(OPEN_MODULE) { OPEN_MODULE } else { "Kernel Module" };
            walk.out.harmless(
                Path::new("proc/driver/nvidia/version"),
                format!("NVRM version: NVIDIA UNIX {kind}\n").as_bytes(),
            )?;
        }
    }
    let of_ports = inventory.devices.iter().flat_map(|d| &d.ports).filter_map(|p| p.netdev.as_ref());
    for netdev in of_ports.chain(&inventory.netdevs) {
        walk.netdev(&netdev.name)?;
        for other in netdev.master.iter() {
            walk.netdev(other)?;
        }
    }
    Ok(())
}

struct Walk<'a, 'b> {
    sys: PathBuf,
    seen: BTreeSet<PathBuf>,
    out: &'a mut RecordingWriter<'b>,
}

impl Walk<'_, '_> {
    fn netdev(&mut self, name: &str) -> Result<(), CaptureError> {
        self.place(&Path::new("class/net").join(name), Kind::Net)
    }

    fn file(&mut self, at: &Path) -> Result<(), CaptureError> {
        let from = self.sys.join(at);
        if from.exists() { self.out.copy(&from, &sys(at)) } else { Ok(()) }
    }

    /// Records which drivers of GPUs and which modules for peer memory are loaded.
    fn gpudirect(&mut self) -> Result<(), CaptureError> {
        for module in ["nvidia", "amdgpu", "nvidia_peermem"].map(|name| Path::new("module").join(name)) {
            if self.sys.join(&module).is_dir() {
                self.out.dir(&sys(&module))?;
                self.file(&module.join("version"))?;
            }
        }
        let clients = Path::new("kernel/mm/memory_peers");
        for client in self.entries(clients) {
            self.file(&clients.join(client).join("version"))?;
        }
        Ok(())
    }

    /// Records congestion-control settings of a device from debugfs and configfs, if mounted and readable.
    fn settings(&mut self, device: &str, pci: Option<&str>) -> Result<(), CaptureError> {
        let debug = pci.map(|pci| Path::new("kernel/debug/mlx5").join(pci).join("cc_params"));
        let config = ["rdma_cm", "bnxt_re"].map(|of| Path::new("kernel/config").join(of).join(device));
        for dir in debug.into_iter().chain(config) {
            if self.seen.insert(dir.clone()) && self.sys.join(&dir).is_dir() {
                self.tree(&dir, Kind::Net, SETTINGS)?;
            }
        }
        Ok(())
    }

    /// Records a path below `sys`: the link, if it is one, and its target.
    fn place(&mut self, at: &Path, kind: Kind) -> Result<(), CaptureError> {
        let full = self.sys.join(at);
        if let Ok(target) = std::fs::read_link(&full) {
            if target.is_absolute() {
                self.out.skip(&sys(at), "an absolute link");
                return Ok(());
            }
            self.out.link(&sys(at), &target)?;
        }
        let Some(real) = self.relative(&full) else {
            self.out.skip(&sys(at), "points to nothing in sysfs");
            return Ok(());
        };
        // Recordings without device directories may hold a device within its class, below other links.
        let real = if std::fs::symlink_metadata(&full).is_ok_and(|m| m.is_dir()) { at.to_owned() } else { real };
        if !self.seen.insert(real.clone()) {
            return Ok(());
        }
        match kind {
            Kind::Pci => self.pci(&real),
            _ => self.tree(&real, kind, DEPTH),
        }
    }

    /// The real path of `full`, relative to sysfs.
    fn relative(&self, full: &Path) -> Option<PathBuf> {
        full.canonicalize().ok()?.strip_prefix(&self.sys).ok().map(Path::to_owned)
    }

    /// Records everything readable below a device or netdev.
    fn tree(&mut self, at: &Path, kind: Kind, depth: usize) -> Result<(), CaptureError> {
        self.out.dir(&sys(at))?;
        for name in self.entries(at) {
            let path = at.join(&name);
            let Ok(meta) = std::fs::symlink_metadata(self.sys.join(&path)) else { continue };
            let top = depth == DEPTH;
            if meta.is_symlink() {
                self.link_of(&path, &name, top)?;
            } else if meta.is_dir() {
                let closed = kind == Kind::Rdma { counters: false } && name.ends_with("counters");
                if top && name == "device" {
                    // Recordings without device directories hold the PCI function in place of the link to it.
                    self.pci(&path)?;
                } else if closed {
                    // A setting, not a counter: the only file in this directory that does not query firmware.
                    let lifespan = path.join("lifespan");
                    if self.sys.join(&lifespan).exists() {
                        self.out.copy(&self.sys.join(&lifespan), &sys(&lifespan))?;
                    }
                } else if depth > 0 && !SKIP.contains(&name.as_str()) {
                    self.tree(&path, kind, depth - 1)?;
                }
            } else {
                self.out.copy(&self.sys.join(&path), &sys(&path))?;
            }
        }
        Ok(())
    }

    fn link_of(&mut self, path: &Path, name: &str, top: bool) -> Result<(), CaptureError> {
        match name {
            "device" if top => self.place(path, Kind::Pci),
            _ if SKIP.contains(&name) => Ok(()),
            _ => self.bare_link(path),
        }
    }

    /// Records a link without its target: the name suffices (driver, master, lower and upper devices).
    fn bare_link(&mut self, path: &Path) -> Result<(), CaptureError> {
        match std::fs::read_link(self.sys.join(path)) {
            Ok(target) if !target.is_absolute() => self.out.link(&sys(path), &target),
            _ => Ok(()),
        }
    }

    /// Records a PCI function, or the device in its place, and every bridge above it.
    fn pci(&mut self, at: &Path) -> Result<(), CaptureError> {
        self.function(at)?;
        for above in at.ancestors().skip(1).filter(|a| is_address(a)) {
            self.function(above)?;
        }
        let full = self.sys.join(at);
        // Sources without a class link read the directory of the function.
        for class in ["net", "infiniband"] {
            for name in self.entries(&at.join(class)) {
                self.out.dir(&sys(&at.join(class).join(name)))?;
            }
        }
        for name in self.entries(&at.join("msi_irqs")) {
            let path = at.join("msi_irqs").join(name);
            self.out.copy(&self.sys.join(&path), &sys(&path))?;
        }
        for sensor in self.entries(&at.join("hwmon")) {
            let dir = at.join("hwmon").join(sensor);
            for name in self.entries(&dir).iter().filter(|n| n.starts_with("temp") || *n == "name") {
                self.out.copy(&self.sys.join(&dir).join(name), &sys(&dir.join(name)))?;
            }
        }
        if full.join("physfn").exists() {
            self.place(&at.join("physfn"), Kind::Pci)?;
        }
        Ok(())
    }

    fn function(&mut self, at: &Path) -> Result<(), CaptureError> {
        self.out.dir(&sys(at))?;
        let awake = is_awake(&self.sys.join(at));
        for name in PCI.iter().filter(|name| awake || !name.contains("_link_")) {
            let from = self.sys.join(at).join(name);
            if from.symlink_metadata().is_ok() {
                self.out.copy(&from, &sys(&at.join(name)))?;
            }
        }
        if awake {
            self.config(at)?;
        }
        self.file(&at.join("iommu_group/type"))?;
        self.bare_link(&at.join("driver"))?;
        if let Some(address) = at.file_name().filter(|_| is_address(at)) {
            self.bare_link(&Path::new("bus/pci/devices").join(address))?;
        }
        Ok(())
    }

    /// Records where the capabilities of a function are, and the settings in them. The rest of a configuration space may
    /// have serial numbers.
    fn config(&mut self, at: &Path) -> Result<(), CaptureError> {
        let config = PciConfigs::default().of(&self.sys.join(at));
        match config.and_then(|config| config.settings()) {
            Ok(bytes) => self.out.harmless(&sys(&at.join("config")), &bytes),
            Err(error) if error.is_absent() => Ok(()),
            Err(error) => {
                self.out.skip(&sys(&at.join("config")), error);
                Ok(())
            }
        }
    }

    fn vpd(&mut self, at: &Path) -> Result<(), CaptureError> {
        const MARK: &[u8] = b"SW_MNG";
        let vpd = std::fs::read(self.sys.join(at).join("vpd")).unwrap_or_default();
        if vpd.windows(MARK.len()).any(|w| w == MARK) {
            self.out.text(&sys(&at.join("vpd")), "SW_MNG\n")
        } else {
            Ok(())
        }
    }

    fn entries(&self, at: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(self.sys.join(at)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

fn sys(relative: &Path) -> PathBuf {
    Path::new("sys").join(relative)
}

/// `0000:3b:00.0`
fn is_address(path: &Path) -> bool {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let parts: Vec<&str> = name.split([':', '.']).collect();
    parts.len() == 4 && parts.iter().all(|p| !p.is_empty() && p.chars().all(|c| c.is_ascii_hexdigit()))
}
