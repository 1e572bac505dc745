//! Driver counters of a whole device (`<device>/hw_counters/`): efa, mlx4, hfi1, mana, cxgb4.

use crate::counter_dir::Files;
use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::SampleError;
use fabriclens_catalog::CounterSource;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "device_counters",
    source: CounterSource::DeviceHwCounters,
    period: Period::Full,
    default: true,
    needs: "",
    applies: |target| target.device.is_some() && target.port.is_none(),
    open,
};

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let device = target.device.as_ref().ok_or_else(|| SampleError::Absent("no device".into()))?;
    let dir = device.dir.join("hw_counters");
    let target = target.clone();
    let wanted = move |name: &str| name != "lifespan" && target.wants(CounterSource::DeviceHwCounters, name);
    Ok(Box::new(Files::open(dir, wanted)?))
}
