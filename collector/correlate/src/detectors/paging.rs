//! Which findings page. What is less certain, or costs no job anything, is kept as an observation: it is shown where it was
//! seen, notifies nobody, does not stop baselines from learning and hides no other finding.

use crate::detectors::thresholds::{Thresholds, thresholds};
use crate::model::finding::Finding;

thresholds! {
    /// confidence from which an incident pages; what is less certain is an observation
    CONFIDENCE = "page.confidence", 0.5, "probability";
}

/// Whether a finding pages.
pub fn pages(finding: &Finding, limits: &Thresholds) -> bool {
    !finding.is_harmless() && finding.confidence >= limits.get(&CONFIDENCE)
}
