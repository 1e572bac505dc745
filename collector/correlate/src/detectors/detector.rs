//! What a detector is. Each detector file has one constant of this type, and `detectors::ALL` lists them.

use crate::detectors::context::DetectorContext;
use crate::detectors::thresholds::Threshold;
use crate::model::finding::Finding;

/// A detector: a pure function from a [`DetectorContext`] to findings, and the time it needs.
pub struct Detector {
    /// Name in `docs/verdicts.md` and before the dot of its thresholds.
    pub name: &'static str,
    /// Seconds of frames that it needs to detect that something began.
    pub warm_up_s: f64,
    /// Seconds of baseline that it compares with; 0 if it does not compare.
    pub baseline_s: f64,
    /// Counts over its whole warm-up, also over frames before the incident began.
    pub looks_back: bool,
    /// Runs on each fault domain by itself, because it compares ports of one domain with each other.
    pub per_fault_domain: bool,
    /// Thresholds that are defined in its file.
    pub thresholds: &'static [&'static Threshold],
    /// Returns what it finds in a window.
    pub run: fn(&DetectorContext<'_>) -> Vec<Finding>,
}
