//! Kernel-path statistics of a netdev (`statistics/`), with carrier changes and link facts of the interface.

use crate::counter_dir::CounterDir;
use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::inventory::Class;
use fabriclens_catalog::CounterSource;
use fabriclens_catalog::metrics::traffic::PORT_IO;
use fabriclens_wire::Value;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "netdev",
    source: CounterSource::NetStatistics,
    period: Period::Full,
    default: true,
    needs: "",
    applies: |target| target.netdev.is_some(),
    open,
};

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let netdev = target.netdev.as_ref().ok_or_else(|| SampleError::Absent("no netdev".into()))?;
    let dir = netdev.dir.join("statistics");
    let target = target.clone();
    let software = target.device.as_ref().is_some_and(|device| device.class == Class::Software);
    let wanted = move |name: &str| target.wants(CounterSource::NetStatistics, name);
    Ok(Box::new(Statistics { dir: CounterDir::open(dir, &wanted)?, wanted: Box::new(wanted), software }))
}

struct Statistics {
    dir: CounterDir,
    wanted: Box<dyn Fn(&str) -> bool + Send>,
    /// RDMA in software counts no bytes of its own; all of them pass the interface.
    software: bool,
}

/// Byte counters of the interface, and their direction.
const BYTES: [(&str, &str); 2] = [("rx_bytes", "receive"), ("tx_bytes", "transmit")];

impl Sampler for Statistics {
    fn sample(&mut self, mask: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        self.dir.refresh(&self.wanted)?;
        self.dir.read(mask, out)?;
        if self.software {
            for (name, direction) in BYTES {
                let at = out.names().iter().position(|own| **own == *name);
                let value = at.and_then(|at| out.values.get(at).copied().flatten());
                out.fact_if(&PORT_IO, &[("direction", direction)], value.map(Value::Int));
            }
        }
        Ok(())
    }
}
