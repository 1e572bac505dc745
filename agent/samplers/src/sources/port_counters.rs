//! Performance management counters of a port: the files of `counters/`. Each file read is one MAD to the driver, so
//! only those are read that the catalog knows on this link: on Ethernet the traffic of this function, nothing else.

use crate::counter_dir::Files;
use crate::sampler::{Period, Sampler, Spec};
use crate::target::Subject;
use fabriclens_agent_host::batch::SampleError;
use fabriclens_catalog::CounterSource;

/// See the module.
pub const SPEC: Spec = Spec {
    name: "port_counters",
    source: CounterSource::SysfsCounters,
    period: Period::Full,
    default: true,
    needs: "",
    applies: |subject| subject.port.is_some(),
    open,
};

fn open(subject: &Subject) -> Result<Box<dyn Sampler>, SampleError> {
    let port = subject.port().ok_or_else(|| SampleError::Absent("no port".into()))?;
    let subject = subject.clone();
    let wanted = move |name: &str| subject.wants(CounterSource::SysfsCounters, name);
    Ok(Box::new(Files::open(port.dir.join("counters"), wanted)?))
}
