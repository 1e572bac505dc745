//! What every sampler has: a row that describes it, and the read itself.

use crate::target::Subject;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_catalog::CounterSource;

/// How often a source is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// Each second, and every 100 ms where the catalog calls it fast on that driver.
    Full,
    /// Every 30 s.
    Slow,
}

/// A row of [`ALL`].
#[derive(Debug)]
pub struct Spec {
    /// Name in config, `doctor` and self-metrics; the file's name.
    pub name: &'static str,
    /// What it reads, in the catalog's words; decides binding and precedence.
    pub source: CounterSource,
    /// How often.
    pub period: Period,
    /// On unless configured otherwise.
    pub default: bool,
    /// Privilege or package that it needs; empty for none.
    pub needs: &'static str,
    /// Whether it applies to such a subject at all.
    pub applies: fn(&Subject) -> bool,
    /// Opens it; `Absent` when the subject does not have it.
    pub open: fn(&Subject) -> Result<Box<dyn Sampler>, SampleError>,
}

/// One source of one subject.
pub trait Sampler: Send {
    /// Reads. `mask` says which of the batch's names are wanted; with a mask of another length all are. Sources that
    /// tell everything at once ignore it.
    ///
    /// # Errors
    /// [`SampleError`]; what was put into `out` is then ignored.
    fn sample(&mut self, mask: &[bool], out: &mut Batch) -> Result<(), SampleError>;
}
