//! Distance of an adapter to each GPU of the host, and whose nearest adapter it is. The pairs are derived at discovery from
//! the paths of the PCI functions; nothing is read here.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_catalog::{CounterSource, metrics::gpu};
use fabriclens_wire::Value;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "gpu_affinity",
    source: CounterSource::Pci,
    period: Period::Slow,
    default: true,
    needs: "",
    applies: |target| target.port.is_none() && target.device.is_some(),
    open: |target| Ok(Box::new(Affinity { target: target.clone() })),
};

struct Affinity {
    target: SamplingTarget,
}

impl Sampler for Affinity {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let name = self.target.device.as_ref().map(|device| &*device.name).unwrap_or_default();
        for pair in self.target.gpu_affinity.of(name) {
            let labels = [("gpu", &*pair.gpu.to_string())];
            let level = pair.distance.map(|distance| Value::Int(distance as u64));
            out.fact_if(&gpu::GPU_NIC_DISTANCE, &labels, level);
            out.fact_if(&gpu::GPU_NIC_NEAREST, &labels, pair.is_nearest.then_some(Value::Int(1)));
        }
        if out.is_empty() {
            return Err(SampleError::Absent("no GPU on this host, or no adapter that a GPU uses".into()));
        }
        Ok(())
    }
}
