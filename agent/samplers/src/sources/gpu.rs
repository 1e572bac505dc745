//! Identity and PCIe link of each GPU, from sysfs alone. A GPU in runtime suspend is not touched: only its identity is
//! exported, which the kernel has cached.

use crate::pcie_link::{End, narrowest};
use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::discover::{bridges, link};
use fabriclens_agent_host::gpu::{Gpu, is_awake};
use fabriclens_agent_host::sysfile::maybe;
use fabriclens_catalog::{CounterSource, Metric, metrics::gpu as metrics};
use fabriclens_wire::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "gpu",
    source: CounterSource::Pci,
    period: Period::Slow,
    default: true,
    needs: "",
    applies: |target| !target.gpus.is_empty() && target.nvml.is_none(),
    open,
};

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let gpus = target.gpus.iter().map(|gpu| (Arc::clone(gpu), bridges(&gpu.dir))).collect();
    Ok(Box::new(Gpus(gpus)))
}

/// GPUs, each with the bridges above it.
struct Gpus(Vec<(Arc<Gpu>, Vec<PathBuf>)>);

impl Sampler for Gpus {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        for (gpu, bridges) in self.0.iter().filter(|(gpu, _)| gpu.dir.exists()) {
            info(gpu, out);
            xgmi(gpu, out);
            if is_awake(&gpu.dir) {
                path(gpu, bridges, out);
            }
        }
        if out.is_empty() {
            return Err(SampleError::Gone("PCI functions of all GPUs are gone".into()));
        }
        Ok(())
    }
}

fn info(gpu: &Gpu, out: &mut Batch) {
    let driver = link(&gpu.dir.join("driver")).and_then(|to| Some(to.file_name()?.to_str()?.to_owned()));
    let numa = gpu.numa.map(|node| node.to_string()).unwrap_or_default();
    let labels = [
        ("driver", driver.as_deref().unwrap_or_default()),
        ("gpu", &gpu.index.to_string()),
        ("model", &gpu.model()),
        ("numa_node", &numa),
        ("pci_address", &gpu.address),
        ("vendor", &gpu.vendor_name()),
    ];
    out.fact(&metrics::GPU_INFO, &labels, Value::Int(1));
}

/// Hive of an AMD GPU, which the driver has cached. Its file of xGMI errors is never read: reading it resets them.
fn xgmi(gpu: &Gpu, out: &mut Batch) {
    let [hive, node] = ["xgmi_hive_info/xgmi_hive_id", "xgmi_device_id"].map(|file| maybe(&gpu.dir.join(file)));
    let is_id = |text: &String| text.len() <= 20 && text.bytes().all(|b| b.is_ascii_alphanumeric());
    if let (Some(hive), Some(node)) = (hive.filter(is_id), node.filter(is_id)) {
        let labels = [("gpu", &*gpu.index.to_string()), ("hive", &*hive), ("node", &*node)];
        out.fact(&metrics::GPU_XGMI_INFO, &labels, Value::Int(1));
    }
}

fn path(gpu: &Gpu, bridges: &[PathBuf], out: &mut Batch) {
    let [now, best] = ["current", "max"].map(|which| End::read(&gpu.dir, which));
    let labels = [("gpu", &*gpu.index.to_string())];
    let mut tell = |metric: &'static Metric, value: Option<Value>| out.fact_if(metric, &labels, value);
    tell(&metrics::GPU_PCIE_SPEED, now.map(|end| Value::Float(end.transfers)));
    tell(&metrics::GPU_PCIE_SPEED_MAX, best.map(|end| Value::Float(end.transfers)));
    tell(&metrics::GPU_PCIE_WIDTH, now.map(|end| Value::Int(end.lanes)));
    tell(&metrics::GPU_PCIE_WIDTH_MAX, best.map(|end| Value::Int(end.lanes)));
    // A bridge that does not say its speed may be the narrowest, but most say nothing only in guests.
    let above = |which: &'static str| {
        let read = move |dir: &PathBuf| End::read(Path::new(dir), which);
        bridges.iter().filter(|dir| is_awake(dir)).filter_map(read)
    };
    tell(&metrics::GPU_PCIE_RATE, narrowest(now.into_iter().chain(above("current"))).map(Value::Float));
    tell(&metrics::GPU_PCIE_RATE_MAX, narrowest(best.into_iter().chain(above("max"))).map(Value::Float));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspended_gpu_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let function = dir.path().join("sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0");
        std::fs::create_dir_all(function.join("power")).unwrap();
        for (file, text) in [
            ("current_link_speed", "32.0 GT/s PCIe"),
            ("current_link_width", "8"),
            ("max_link_speed", "32.0 GT/s PCIe"),
            ("max_link_width", "16"),
        ] {
            std::fs::write(function.join(file), text).unwrap();
        }
        let gpu = Gpu {
            index: 3,
            address: "0000:16:00.0".into(),
            dir: function.clone(),
            vendor: 0x10de,
            device: 0x2330,
            numa: Some(1),
        };
        let above = bridges(&function);
        std::fs::write(above[0].join("current_link_speed"), "16.0 GT/s PCIe").unwrap();
        std::fs::write(above[0].join("current_link_width"), "8").unwrap();
        let mut gpus = Gpus(vec![(Arc::new(gpu), above)]);
        let mut read = |status: &str| {
            std::fs::write(function.join("power/runtime_status"), status).unwrap();
            let mut batch = Batch::default();
            gpus.sample(&[], &mut batch).unwrap();
            let facts = batch.facts.iter();
            facts.map(|(column, value)| (column.metric.name, value.clone())).collect::<Vec<_>>()
        };
        assert_eq!(read("suspended"), [("fabric.gpu.info", Value::Int(1))]);
        let awake = read("active");
        assert_eq!(awake.len(), 7);
        assert!(awake.contains(&("fabric.gpu.pcie.width", Value::Int(8))), "{awake:?}");
        let rate = 16e9 * 8.0 * (128.0 / 130.0) / 8.0;
        assert!(awake.contains(&("fabric.gpu.pcie.rate", Value::Float(rate))), "of the bridge: {awake:?}");
        std::fs::remove_dir_all(&function).unwrap();
        assert!(matches!(gpus.sample(&[], &mut Batch::default()), Err(SampleError::Gone(_))));
    }
}
