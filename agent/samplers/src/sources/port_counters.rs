//! Performance management counters of a port: the files of `counters/`. Reading a file makes the driver execute one
//! MAD, so only counters that the catalog has for this link are read: on Ethernet the traffic of this function only.

use crate::counter_dir::Files;
use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::SampleError;
use fabriclens_catalog::CounterSource;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "port_counters",
    source: CounterSource::SysfsCounters,
    period: Period::Full,
    default: true,
    needs: "",
    applies: |target| target.port.is_some(),
    open,
};

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let port = target.port().ok_or_else(|| SampleError::Absent("no port".into()))?;
    let target = target.clone();
    let wanted = move |name: &str| target.wants(CounterSource::SysfsCounters, name);
    Ok(Box::new(Files::open(port.dir.join("counters"), wanted)?))
}
