//! What only verbs tell of a port: active MTU, and speeds that old kernels cannot name. Absent without rdma-core.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::Subject;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_catalog::{CounterSource, metrics::state};
use fabriclens_wire::Value;

/// See the module.
pub const SPEC: Spec = Spec {
    name: "verbs",
    source: CounterSource::Other,
    period: Period::Slow,
    default: true,
    needs: "rdma-core (libibverbs)",
    applies: |subject| subject.port.is_some(),
    open,
};

fn open(subject: &Subject) -> Result<Box<dyn Sampler>, SampleError> {
    let mut verbs = Verbs { subject: subject.clone() };
    verbs.sample(&[], &mut Batch::default())?;
    Ok(Box::new(verbs))
}

struct Verbs {
    subject: Subject,
}

impl Sampler for Verbs {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let (Some(device), Some(port)) = (&self.subject.device, self.subject.port()) else { return Ok(()) };
        let told = self.subject.calls.verbs_port(&device.name, port.number)?;
        if let Some(bits) = told.rate_bits {
            self.subject.tell_rate(bits);
        }
        out.fact_if(&state::PORT_MTU, &[], told.mtu.map(|mtu| Value::Int(mtu.into())));
        out.fact_if(&state::PORT_MTU_MAX, &[], told.mtu_max.map(|mtu| Value::Int(mtu.into())));
        Ok(())
    }
}
