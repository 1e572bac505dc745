//! Interface of a sampler: its table row, and the read.

use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_catalog::CounterSource;

/// Sampling period of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// Each second; every 100 ms for counters that the catalog marks as fast on the driver.
    Full,
    /// Every 30 s.
    Slow,
}

/// Table row of a sampler; see `sources::ALL`.
#[derive(Debug)]
pub struct Spec {
    /// Name in config, `doctor` and self-metrics; the file's name.
    pub name: &'static str,
    /// Source of its counters; decides binding and precedence.
    pub source: CounterSource,
    /// Sampling period.
    pub period: Period,
    /// On unless configured otherwise.
    pub default: bool,
    /// Required privilege or package; empty for none.
    pub needs: &'static str,
    /// Whether it applies to a sampling target.
    pub applies: fn(&SamplingTarget) -> bool,
    /// Opens it; `Absent` if the target does not have this source.
    pub open: fn(&SamplingTarget) -> Result<Box<dyn Sampler>, SampleError>,
}

/// An open source of one sampling target.
pub trait Sampler: Send {
    /// Reads the source into `out`. `mask` selects the names to read; all of them if its length differs. Sources that
    /// return everything at once ignore it.
    ///
    /// # Errors
    /// [`SampleError`]; the contents of `out` are then ignored.
    fn sample(&mut self, mask: &[bool], out: &mut Batch) -> Result<(), SampleError>;
}
