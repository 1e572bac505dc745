//! Standard statistics of ethtool netlink: pause, FEC, MAC, PHY, control and size histograms. Values that the driver
//! does not report are absent, not zero.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_catalog::CounterSource;
use fabriclens_kernel::KernelCalls;
use std::sync::Arc;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "ethtool_std",
    source: CounterSource::EthtoolStd,
    period: Period::Full,
    default: true,
    needs: "",
    applies: |target| target.netdev.as_ref().is_some_and(|n| !n.infiniband),
    open,
};

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let netdev = target.netdev.as_ref().ok_or_else(|| SampleError::Absent("no netdev".into()))?;
    let calls = Arc::clone(&target.calls);
    let mut pairs = Vec::new();
    calls.std_stats(&netdev.name, &mut pairs)?;
    if pairs.is_empty() {
        return Err(SampleError::Absent(format!("{}: the driver reports no standard statistics", netdev.name)));
    }
    Ok(Box::new(Standard { calls, netdev: Arc::clone(&netdev.name), pairs }))
}

struct Standard {
    calls: Arc<dyn KernelCalls>,
    netdev: Arc<str>,
    pairs: Vec<(Arc<str>, u64)>,
}

impl Sampler for Standard {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        self.calls.std_stats(&self.netdev, &mut self.pairs)?;
        out.set_pairs(&self.pairs);
        Ok(())
    }
}
