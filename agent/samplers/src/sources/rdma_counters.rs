//! Driver counters of an RDMA port: one netlink `STAT_GET`, which queries the hardware once, or the files of
//! `hw_counters/` on kernels and in recordings without it. On mlx5 the files cost up to thirty times as much.

use crate::counter_dir::Files;
use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_catalog::CounterSource;
use fabriclens_kernel::{CallError, KernelCalls, RdmaLink};
use std::sync::Arc;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "rdma_counters",
    source: CounterSource::HwCounters,
    period: Period::Full,
    default: true,
    needs: "",
    applies: |target| target.port.is_some(),
    open,
};

/// A setting among the counters.
const LIFESPAN: &str = "lifespan";

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let port = target.port().ok_or_else(|| SampleError::Absent("no port".into()))?;
    if let Some(link) = &port.link {
        let mut netlink = Netlink { calls: Arc::clone(&target.calls), link: link.clone(), pairs: Vec::new() };
        match netlink.calls.rdma_counters(link, &mut netlink.pairs) {
            Ok(()) if !netlink.pairs.is_empty() => return Ok(Box::new(netlink)),
            Ok(()) | Err(CallError::Unsupported { .. }) => {}
            Err(error) => tracing::debug!(%error, "reading hw_counters from sysfs instead"),
        }
    }
    let target = target.clone();
    let wanted = move |name: &str| name != LIFESPAN && target.wants(CounterSource::HwCounters, name);
    Ok(Box::new(Files::open(port.dir.join("hw_counters"), wanted)?))
}

struct Netlink {
    calls: Arc<dyn KernelCalls>,
    link: RdmaLink,
    pairs: Vec<(Arc<str>, u64)>,
}

impl Sampler for Netlink {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        self.pairs.clear();
        self.calls.rdma_counters(&self.link, &mut self.pairs)?;
        out.set_pairs(&self.pairs);
        Ok(())
    }
}
