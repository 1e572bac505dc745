//! Settings of an adapter's PCIe function and of the bridges above it: sizes of requests, ordering, address translation,
//! access control, IOMMU. Nothing is read of a function in runtime suspend.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::discover::bridges;
use fabriclens_agent_host::gpu::is_awake;
use fabriclens_agent_host::inventory::Class;
use fabriclens_agent_host::pci_config::{ACS, ATS, CONTROL, ConfigSpace, DEVICE_CONTROL, EXPRESS};
use fabriclens_agent_host::sysfile::{FileError, maybe};
use fabriclens_catalog::{CounterSource, metrics::pcie};
use fabriclens_wire::Value;
use std::path::{Path, PathBuf};

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "pcie_settings",
    source: CounterSource::Pci,
    period: Period::Slow,
    default: true,
    needs: "CAP_SYS_ADMIN for PCI capabilities",
    applies: |target| target.port.is_none() && target.device.is_some(),
    open,
};

/// Controls of ACS, from bit 0.
const ACS_CONTROLS: [&str; 7] = [
    "source_validation",
    "translation_blocking",
    "request_redirect",
    "completion_redirect",
    "upstream_forwarding",
    "egress_control",
    "direct_translated",
];

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let dir = target.device.as_ref().and_then(|device| device.pci_dir.clone()).filter(|dir| dir.exists());
    let dir = dir.ok_or_else(|| SampleError::Absent("no PCI function below".into()))?;
    Ok(Box::new(Settings { bridges: bridges(&dir), dir, target: target.clone() }))
}

struct Settings {
    target: SamplingTarget,
    dir: PathBuf,
    bridges: Vec<PathBuf>,
}

impl Sampler for Settings {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        if let Some(kind) = iommu(self.target.roots.sys(), &self.dir) {
            out.fact(&pcie::PCIE_IOMMU, &[("type", &kind)], Value::Int(1));
        }
        out.note.clear();
        if let Err(error) = self.capabilities(out) {
            if out.is_empty() {
                return Err(error.into());
            }
            out.note = error.to_string();
        }
        Ok(())
    }
}

impl Settings {
    fn capabilities(&self, out: &mut Batch) -> Result<(), FileError> {
        let configs = self.target.roots.pci_configs();
        if !is_awake(&self.dir) || !self.bridges.iter().all(|dir| is_awake(dir)) {
            return Ok(());
        }
        let own = configs.of(&self.dir)?;
        // These bits of a virtual function mean nothing: the physical one's apply.
        let is_virtual = self.target.device.as_ref().is_some_and(|device| device.class == Class::Virtual);
        if let Some(at) = own.capability(EXPRESS)?.filter(|_| !is_virtual) {
            let control = own.u16(at + DEVICE_CONTROL)?;
            let bytes = |shift: u16| Value::Int(128 << (control >> shift & 7).min(5));
            out.fact(&pcie::PCIE_MAX_PAYLOAD, &[], bytes(5));
            out.fact(&pcie::PCIE_MAX_READ_REQUEST, &[], bytes(12));
            out.fact(&pcie::PCIE_RELAXED_ORDERING, &[], Value::Int(u64::from(control >> 4 & 1)));
        }
        let ats = control(&own, ATS)?;
        out.fact(&pcie::PCIE_ATS, &[], Value::Int(u64::from(ats >> 15)));
        let above = self.bridges.iter().map(|dir| control(&configs.of(dir)?, ACS)).collect::<Result<Vec<_>, _>>()?;
        for (bit, name) in ACS_CONTROLS.iter().enumerate().filter(|_| !above.is_empty()) {
            let on = above.iter().filter(|control| *control >> bit & 1 == 1).count();
            out.fact(&pcie::PCIE_ACS, &[("control", name)], Value::Int(on as u64));
        }
        Ok(())
    }
}

/// Control register of an extended capability; 0 if the function lacks the capability, as nothing is on then.
fn control(config: &ConfigSpace, id: u16) -> Result<u16, FileError> {
    config.extended(id)?.map_or(Ok(0), |at| config.u16(at + CONTROL))
}

/// How the IOMMU treats the function, in the kernel's words (`DMA`, `DMA-FQ`, `identity` …); `none` if the kernel has
/// IOMMU groups and the function is in none.
fn iommu(sys: &Path, dir: &Path) -> Option<String> {
    let is_word = |text: &String| text.len() <= 32 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let group = dir.join("iommu_group");
    if group.exists() {
        return maybe(&group.join("type")).filter(is_word);
    }
    sys.join("kernel/iommu_groups").is_dir().then(|| "none".to_owned())
}
