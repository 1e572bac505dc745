//! Whether an adapter can read and write the memory of the host's GPUs (GPUDirect RDMA), and by which way.
//!
//! Only on hosts with GPUs whose driver is loaded. An answer that is not certain is left out: an adapter that has peer
//! memory has a way whatever verbs say; without it, verbs must say whether there is another.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::sysfile::maybe;
use fabriclens_catalog::{CounterSource, metrics::gpu};
use fabriclens_wire::Value;
use std::path::Path;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "gpudirect",
    source: CounterSource::Other,
    period: Period::Slow,
    default: true,
    needs: "rdma-core for dma-buf",
    applies: |target| target.port.is_none() && target.device.is_some(),
    open,
};

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let name = target.device.as_ref().map(|device| device.name.to_string()).unwrap_or_default();
    if target.gpu_affinity.of(&name).is_empty() {
        return Err(SampleError::Absent("no GPU on this host, or no adapter that a GPU uses".into()));
    }
    let sys = target.roots.sys();
    let [nvidia, amd] = ["nvidia", "amdgpu"].map(|module| sys.join("module").join(module).exists());
    if !nvidia && !amd {
        return Err(SampleError::Absent("no driver of GPUs is loaded".into()));
    }
    // The closed kernel module of NVIDIA exports no dma-buf.
    let is_closed = || {
        let version = maybe(&target.roots.proc().join("driver/nvidia/version"));
        version.is_some_and(|version| version.contains("NVRM") && !version.contains("Open Kernel Module"))
    };
    let by_dma_buf = if nvidia && !amd && is_closed() { Some(false) } else { target.calls.dma_buf(&name).ok() };
    Ok(Box::new(GpuDirect { target: target.clone(), by_dma_buf }))
}

struct GpuDirect {
    target: SamplingTarget,
    /// Answer of the driver, which does not change while it is loaded; `None` if it cannot be asked.
    by_dma_buf: Option<bool>,
}

impl Sampler for GpuDirect {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let by_peer_memory = peer_memory(self.target.roots.sys());
        if !by_peer_memory && self.by_dma_buf.is_none() {
            return Err(SampleError::Absent("no peer memory module, and verbs do not say if dma-buf works".into()));
        }
        let mut tell = |method: &str, is_there: bool| {
            out.fact(&gpu::GPUDIRECT_AVAILABLE, &[("method", method)], Value::Int(is_there.into()));
        };
        tell("peer_memory", by_peer_memory);
        if let Some(is_there) = self.by_dma_buf {
            tell("dma_buf", is_there);
        }
        Ok(())
    }
}

/// Whether a peer memory module is loaded: NVIDIA's own, its former ones, or that of amdgpu.
fn peer_memory(sys: &Path) -> bool {
    let clients = sys.join("kernel/mm/memory_peers");
    let is_client = |name: &str| name.starts_with("nv_mem") || name == "amdkfd";
    let mut names = std::fs::read_dir(&clients).into_iter().flatten().flatten().map(|entry| entry.file_name());
    sys.join("module/nvidia_peermem/version").exists()
        || names.any(|name| name.to_str().is_some_and(is_client) && clients.join(&name).join("version").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_all_generations_are_known() {
        for (path, is_there) in [
            ("module/nvidia_peermem/version", true),
            ("kernel/mm/memory_peers/nv_mem/version", true),
            ("kernel/mm/memory_peers/nv_mem_nc/version", true),
            ("kernel/mm/memory_peers/amdkfd/version", true),
            ("kernel/mm/memory_peers/other/version", false),
            ("module/nvidia/version", false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "1\n").unwrap();
            assert_eq!(peer_memory(dir.path()), is_there, "{path}");
        }
    }
}
