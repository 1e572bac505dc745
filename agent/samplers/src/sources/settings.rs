//! Single-number files next to the counter directories: congestion-control settings of vendor drivers, sensors, carrier
//! transitions, diagnostic counters of old drivers. Missing files cost nothing after the first look.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::roce_class::read_class;
use fabriclens_agent_host::sysfile::{CachedFile, FileError};
use fabriclens_catalog::CounterSource;
use std::path::PathBuf;
use std::sync::Arc;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "settings",
    source: CounterSource::Other,
    period: Period::Slow,
    default: true,
    needs: "root for debugfs and configfs",
    applies: |target| target.device.is_some() || target.netdev.is_some(),
    open,
};

/// Base directory of the paths of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    /// `/sys/class/net/<if>`
    Netdev,
    /// `ports/<n>` of the RDMA device.
    Port,
    /// `/sys/class/infiniband/<dev>`, for its ports.
    Device,
    /// The PCI function, for devices.
    Pci,
    /// debugfs of the mlx5 function, for its ports.
    Mlx5Debug,
    /// RDMA-CM's configfs, for ports.
    RdmaCm,
    /// Congestion control in configfs of Broadcom's driver, for ports; only where the site has made the directory.
    BnxtConfig,
}

/// Base, path and catalog name; `{}` in both stands for each existing entry, or for each priority.
const ROWS: &[(Base, &str, &str)] = &[
    (Base::Netdev, "carrier_up_count", "net/carrier_up_count"),
    (Base::Netdev, "carrier_down_count", "net/carrier_down_count"),
    (Base::Netdev, "ecn/roce_np/enable/{}", "sysfs net/ecn/roce_np/enable/{}"),
    (Base::Netdev, "ecn/roce_rp/enable/{}", "sysfs net/ecn/roce_rp/enable/{}"),
    (Base::Netdev, "ecn/roce_np/cnp_dscp", "sysfs net/ecn/roce_np/cnp_dscp"),
    (Base::Netdev, "ecn/roce_np/cnp_802p_prio", "sysfs net/ecn/roce_np/cnp_802p_prio"),
    (Base::Netdev, "ecn/roce_np/min_time_between_cnps", "sysfs net/ecn/roce_np/min_time_between_cnps"),
    (Base::Port, "diag_counters/{}", "ports/1/diag_counters/{}"),
    (Base::Device, "tc/{port}/traffic_class", "tc/{port}/traffic_class"),
    (Base::Pci, "sriov_numvfs", "net/device/sriov_numvfs"),
    (Base::Pci, "hwmon/hwmon{n}/{}", "hwmon/{}"),
    (Base::Mlx5Debug, "cc_params/{}", "debugfs/cc_params/{}"),
    (Base::BnxtConfig, "cc/{}", "configfs/bnxt_re/{dev}/ports/{port}/cc/{}"),
    (Base::RdmaCm, "default_roce_tos", "configfs/rdma_cm/{dev}/ports/{port}/default_roce_tos"),
];

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let mut files = Vec::new();
    for (base, path, name) in ROWS {
        let Some(dir) = dir(target, *base) else { continue };
        let device = target.device.as_ref().map(|d| &*d.name).unwrap_or_default();
        let port = target.port().map(|p| p.number.to_string()).unwrap_or_default();
        let fill = |text: &str| text.replace("{port}", &port).replace("{dev}", device);
        let Some((folder, file)) = fill(path).rsplit_once('/').map(|(d, f)| (d.to_string(), f.to_string())) else {
            files.push((dir.join(path), fill(name)));
            continue;
        };
        for folder in folders(&dir, &folder) {
            if file != "{}" {
                files.push((folder.join(&file), fill(name)));
                continue;
            }
            for entry in entries(&folder) {
                files.push((folder.join(&entry), fill(name).replace("{}", &entry)));
            }
        }
    }
    files.retain(|(path, name)| path.is_file() && target.bind(CounterSource::Other, name).is_some());
    if files.is_empty() {
        return Err(SampleError::Absent(format!("{}: no such settings on this driver", target.name())));
    }
    files.sort_by(|a, b| a.1.cmp(&b.1));
    let (files, names): (_, Vec<_>) =
        files.into_iter().map(|(path, name)| (CachedFile::new(path), Arc::from(name))).unzip();
    Ok(Box::new(Settings { files, names: names.into() }))
}

fn dir(target: &SamplingTarget, base: Base) -> Option<PathBuf> {
    let (device, port) = (target.device.as_ref(), target.port());
    match base {
        Base::Netdev => Some(target.netdev.as_ref()?.dir.clone()),
        Base::Port => Some(port?.dir.clone()),
        Base::Device => port.and(Some(device?.dir.clone())),
        Base::Pci if port.is_none() => {
            device.and_then(|d| d.pci_dir.clone()).or_else(|| target.netdev.as_ref()?.pci_dir.clone())
        }
        Base::Pci => None,
        Base::Mlx5Debug => Some(target.roots.sys().join("kernel/debug/mlx5").join(port.and(device)?.pci.as_ref()?)),
        Base::RdmaCm => configfs(target, "rdma_cm"),
        Base::BnxtConfig => configfs(target, "bnxt_re"),
    }
}

/// Directory of a port below `kernel/config/<subsystem>`. The kernel makes it when somebody else calls `mkdir`; it is only
/// looked for here.
fn configfs(target: &SamplingTarget, subsystem: &str) -> Option<PathBuf> {
    let device = target.device.as_ref()?;
    let dir = target.roots.sys().join("kernel/config").join(subsystem).join(&*device.name);
    Some(dir.join("ports").join(target.port()?.number.to_string()))
}

/// Existing entries of `hwmon/hwmon{n}`; any other path is returned unchanged.
fn folders(dir: &std::path::Path, folder: &str) -> Vec<PathBuf> {
    match folder.split_once('/') {
        Some((parent, pattern)) if pattern.ends_with("{n}") => {
            entries(&dir.join(parent)).iter().map(|entry| dir.join(parent).join(entry)).collect()
        }
        _ => vec![dir.join(folder)],
    }
}

fn entries(dir: &std::path::Path) -> Vec<String> {
    let Ok(found) = std::fs::read_dir(dir) else { return Vec::new() };
    found.filter_map(Result::ok).filter_map(|e| e.file_name().into_string().ok()).collect()
}

struct Settings {
    files: Vec<CachedFile>,
    names: Arc<[Arc<str>]>,
}

impl Sampler for Settings {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        out.set_names(&self.names);
        for file in &mut self.files {
            // mlx5 prints words before it.
            let is_class = file.path().ends_with("traffic_class");
            match if is_class { read_class(file) } else { file.prefixed_number() } {
                Ok(value) => out.values.push(Some(value)),
                Err(error @ FileError::Gone { .. }) => return Err(error.into()),
                Err(error) => {
                    out.drop_row(&error);
                    out.values.push(None);
                }
            }
        }
        Ok(())
    }
}
