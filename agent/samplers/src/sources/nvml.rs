//! GPUs and NVLinks as NVIDIA's driver reports them, on a thread of its own: a GPU that hangs blocks the library.
//!
//! Not asked while a GPU is in runtime suspend, because the library opens all of them. Where a report takes more than a
//! second (no program uses the GPUs and persistence mode is off, so that the driver starts them for it), reports take one
//! percent of the time, and the source is absent between them.

use crate::nvml_memory::NvmlMemory;
use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::gpu::is_awake;
use fabriclens_agent_host::sysfile::maybe;
use fabriclens_catalog::{CounterSource, metrics::nvlink};
use fabriclens_kernel::nvml::{NvLink, NvmlGpu, NvmlReport};
use fabriclens_wire::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "nvml",
    source: CounterSource::Other,
    period: Period::Slow,
    default: true,
    needs: "NVIDIA's driver with libnvidia-ml.so.1",
    applies: |target| target.nvml.is_some(),
    open: |target| Ok(Box::new(Nvml { target: target.clone() })),
};

/// Time after boot in which NVLinks may train.
const TRAINING: f64 = 600.0;

struct Nvml {
    target: SamplingTarget,
}

impl Sampler for Nvml {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let absent = |why: String| Err(SampleError::Absent(why));
        let Some(memory) = &self.target.nvml else { return absent("not the thread of NVML".into()) };
        if self.target.gpus.iter().any(|gpu| gpu.is_nvidia() && !is_awake(&gpu.dir)) {
            return absent("a GPU is in runtime suspend, and NVML would resume it".into());
        }
        let begin = Instant::now();
        if let Some((took, wait)) = memory.lock().wait(begin) {
            return absent(slow(took, wait));
        }
        let report = self.target.calls.nvml();
        let (now, took) = (Instant::now(), begin.elapsed());
        memory.lock().took(took, now);
        let report = report?;
        let has_trained = uptime(self.target.roots.proc()).is_none_or(|seconds| seconds >= TRAINING);
        for gpu in &report.gpus {
            // A GPU that sysfs does not have is not one of this host.
            let known = self.target.gpus.iter().find(|known| known.address == gpu.pci_address);
            let Some(index) = known.map(|known| known.index.to_string()) else { continue };
            let memory = &mut memory.lock();
            memory.observe(gpu);
            tell(&report, gpu, &index, memory, has_trained, out);
        }
        if out.is_empty() {
            return absent("NVML shows none of the GPUs to this process".into());
        }
        Ok(())
    }
}

fn slow(took: Duration, wait: Duration) -> String {
    format!(
        "a report took {:.1} s, so the next one comes in {} s; with persistence mode on, reports are cheap",
        took.as_secs_f64(),
        wait.as_secs()
    )
}

/// Time since boot, seconds; `None` in recordings.
fn uptime(proc: &Path) -> Option<f64> {
    maybe(&proc.join("uptime"))?.split_whitespace().next()?.parse().ok()
}

fn tell(report: &NvmlReport, gpu: &NvmlGpu, index: &str, memory: &NvmlMemory, has_trained: bool, out: &mut Batch) {
    let labels = [
        ("driver_version", report.driver.as_deref().unwrap_or_default()),
        ("gpu", index),
        ("product", gpu.name.as_deref().unwrap_or_default()),
        ("uuid", gpu.uuid.as_deref().unwrap_or_default()),
    ];
    out.fact(&nvlink::GPU_PRODUCT_INFO, &labels, Value::Int(1));
    let of_gpu = [("gpu", index)];
    out.fact(&nvlink::GPU_LOST, &of_gpu, Value::Int(gpu.is_lost.into()));
    if let Some(rows) = gpu.remapped {
        for (reason, count) in [("correctable", rows.correctable), ("uncorrectable", rows.uncorrectable)] {
            out.fact(&nvlink::GPU_REMAPPED_ROWS, &[("gpu", index), ("reason", reason)], Value::Int(count));
        }
        for (state, is_so) in [("pending", rows.is_pending), ("failed", rows.has_failed)] {
            out.fact(&nvlink::GPU_REMAPPING, &[("gpu", index), ("state", state)], Value::Int(is_so.into()));
        }
    }
    for link in &gpu.links {
        let down = memory.is_down(gpu, link.link).filter(|_| has_trained);
        tell_link(index, link, down, out);
    }
    let Some(domain) = &gpu.fabric else { return };
    let clique = domain.clique.to_string();
    if !domain.cluster.is_empty() {
        let labels = [("clique", &*clique), ("cluster", &*domain.cluster), ("gpu", index)];
        out.fact(&nvlink::NVLINK_DOMAIN_INFO, &labels, Value::Int(1));
    }
    out.fact(&nvlink::NVLINK_DOMAIN_STATE, &of_gpu, Value::Int(domain.state.into()));
    out.fact(&nvlink::NVLINK_DOMAIN_STATUS, &of_gpu, Value::Int(domain.status.into()));
    out.fact_if(&nvlink::NVLINK_DOMAIN_HEALTH, &of_gpu, domain.health.map(|health| Value::Int(health.into())));
    for problem in &domain.problems {
        out.fact(&nvlink::NVLINK_DOMAIN_PROBLEM, &[("gpu", index), ("problem", problem)], Value::Int(1));
    }
}

fn tell_link(gpu: &str, link: &NvLink, down: Option<bool>, out: &mut Batch) {
    let number = link.link.to_string();
    let labels = [("gpu", gpu), ("link", &*number)];
    out.fact(&nvlink::NVLINK_UP, &labels, Value::Int(link.is_active.into()));
    out.fact_if(&nvlink::NVLINK_DOWN, &labels, down.map(|down| Value::Int(down.into())));
    out.fact_if(&nvlink::NVLINK_RATE, &labels, link.speed.map(Value::Int));
    for (direction, bytes) in ["transmit", "receive"].into_iter().zip(link.transferred) {
        let labels = [("direction", direction), ("gpu", gpu), ("link", &*number)];
        out.fact_if(&nvlink::NVLINK_IO, &labels, bytes.map(Value::Int));
    }
    for (reason, count) in &link.errors {
        let labels = [("gpu", gpu), ("link", &*number), ("reason", &**reason)];
        out.fact(&nvlink::NVLINK_ERRORS, &labels, Value::Int(*count));
    }
    for (reason, ratio) in &link.bit_error_ratios {
        let labels = [("gpu", gpu), ("link", &*number), ("reason", &**reason)];
        out.fact(&nvlink::NVLINK_BIT_ERRORS, &labels, Value::Float(*ratio));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_since_boot_is_read() {
        let proc = tempfile::tempdir().unwrap();
        assert_eq!(uptime(proc.path()), None);
        std::fs::write(proc.path().join("uptime"), "12345.67 99999.00\n").unwrap();
        assert_eq!(uptime(proc.path()), Some(12345.67));
    }
}
