//! Kernel-path statistics of a netdev (`statistics/`), with carrier changes and link facts of the interface.

use super::{Period, Sampler, Spec};
use crate::batch::{Batch, SampleError};
use crate::counter_dir::CounterDir;
use crate::subject::Subject;
use fabriclens_catalog::Source;

/// See the module.
pub const SPEC: Spec = Spec {
    name: "netdev",
    source: Source::NetStatistics,
    period: Period::Full,
    default: true,
    needs: "",
    applies: |subject| subject.netdev.is_some(),
    open,
};

fn open(subject: &Subject) -> Result<Box<dyn Sampler>, SampleError> {
    let netdev = subject.netdev.as_ref().ok_or_else(|| SampleError::Absent("no netdev".into()))?;
    let dir = netdev.dir.join("statistics");
    let subject = subject.clone();
    let wanted = move |name: &str| subject.wants(Source::NetStatistics, name);
    Ok(Box::new(Statistics { dir: CounterDir::open(dir, &wanted)?, wanted: Box::new(wanted) }))
}

struct Statistics {
    dir: CounterDir,
    wanted: Box<dyn Fn(&str) -> bool + Send>,
}

impl Sampler for Statistics {
    fn sample(&mut self, mask: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        self.dir.refresh(&self.wanted)?;
        self.dir.read(mask, out)
    }
}
