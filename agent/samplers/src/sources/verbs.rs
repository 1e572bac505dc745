//! Port attributes that only verbs report: active MTU, and speeds that old kernels cannot name. Absent without
//! rdma-core.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_catalog::{CounterSource, metrics::state};
use fabriclens_wire::Value;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "verbs",
    source: CounterSource::Other,
    period: Period::Slow,
    default: true,
    needs: "rdma-core (libibverbs)",
    applies: |target| target.port.is_some(),
    open,
};

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let mut verbs = Verbs { target: target.clone() };
    verbs.sample(&[], &mut Batch::default())?;
    Ok(Box::new(verbs))
}

struct Verbs {
    target: SamplingTarget,
}

impl Sampler for Verbs {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let (Some(device), Some(port)) = (&self.target.device, self.target.port()) else { return Ok(()) };
        let port_attributes = self.target.calls.verbs_port(&device.name, port.number)?;
        if let Some(bits) = port_attributes.rate_bits {
            self.target.record_rate(bits);
        }
        out.fact_if(&state::PORT_MTU, &[], port_attributes.mtu.map(|mtu| Value::Int(mtu.into())));
        out.fact_if(&state::PORT_MTU_MAX, &[], port_attributes.mtu_max.map(|mtu| Value::Int(mtu.into())));
        Ok(())
    }
}
