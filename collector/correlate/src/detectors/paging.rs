//! Which findings page. What is less certain, or costs no job anything, is kept as an observation: it is shown where it was
//! seen, notifies nobody, does not stop baselines from learning and hides no other finding.

use crate::detectors::thresholds::{Thresholds, thresholds};
use crate::model::finding::Finding;

thresholds! {
    /// confidence from which an incident pages; what is less certain is an observation
    CONFIDENCE = "page.confidence", 0.5, "probability";
    /// days of the last seven, or weeks of the last four, in which an incident of load began at the same place and time, from which it is an observation
    RECURS_PERIODS = "page.recurs_periods", 3.0, "times";
    /// how far apart the times of day may be
    RECURS_WITHIN = "page.recurs_within", 1200.0, "seconds";
    /// probability that as many would begin at this time by chance, below which they are no chance
    RECURS_CHANCE = "page.recurs_chance", 0.01, "probability";
    /// length relative to the longest of those, from which it pages after all
    RECURS_LONGER = "page.recurs_longer", 2.0, "times";
}

/// Whether a finding pages.
pub fn pages(finding: &Finding, limits: &Thresholds) -> bool {
    !finding.is_harmless() && finding.confidence >= limits.get(&CONFIDENCE)
}
