//! `ethtool -S`: all counters of a netdev's driver, by one ioctl. The list of names is read again when its length
//! changes; mlx5 changes it when PFC or channels are configured.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_catalog::CounterSource;
use fabriclens_kernel::{CallError, KernelCalls, StatNames};
use std::sync::Arc;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "ethtool",
    source: CounterSource::Ethtool,
    period: Period::Full,
    default: true,
    needs: "",
    applies: |target| target.netdev.is_some(),
    open,
};

/// Attempts per read to get matching names and values.
const ATTEMPTS: usize = 3;

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let netdev = target.netdev.as_ref().ok_or_else(|| SampleError::Absent("no netdev".into()))?;
    let calls = Arc::clone(&target.calls);
    let names = calls.stat_names(&netdev.name)?;
    if names.is_empty() {
        return Err(SampleError::Absent(format!("{}: the driver has no ethtool statistics", netdev.name)));
    }
    Ok(Box::new(Ethtool { calls, netdev: Arc::clone(&netdev.name), names, values: Vec::new() }))
}

struct Ethtool {
    calls: Arc<dyn KernelCalls>,
    netdev: Arc<str>,
    names: StatNames,
    values: Vec<u64>,
}

impl Sampler for Ethtool {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        for attempt in 1.. {
            match self.calls.stat_values(&self.netdev, &self.names, &mut self.values) {
                Ok(()) => break,
                Err(CallError::ListChanged { .. }) if attempt < ATTEMPTS => {
                    self.names = self.calls.stat_names(&self.netdev)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        out.set_names(&self.names);
        out.values.extend(self.values.iter().map(|value| Some(*value)));
        Ok(())
    }
}
