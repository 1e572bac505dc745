//! What one open incident means for the others.

use crate::detectors::fault_domain::DomainSet;
use crate::model::fabric::Fabric;
use crate::model::finding::Finding;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::priority::Priorities;

/// What one open incident means for the others.
pub(super) struct OpenSummary {
    pub id: String,
    pub root: LocationId,
    pub kind: IncidentKind,
    pub priorities: Priorities,
    /// It does not page.
    pub observation: bool,
    /// It costs no job anything that is not the job's own doing.
    pub harmless: bool,
    /// An observation, or open for long and it does not freeze the baseline.
    pub chronic: bool,
    /// It was found lately, so that it explains what is found now.
    pub lately: bool,
    /// Fault domains that it touches.
    pub at: DomainSet,
}

impl OpenSummary {
    /// Whether a finding is at its location. A chronic incident does not hide a storm there. An observation hides the same
    /// finding, and a coarse one other coarse findings, between which samples decide differently; if it is harmless, also the
    /// coarse findings that it explains.
    pub(super) fn covers(&self, finding: &Finding, fabric: &Fabric) -> bool {
        if self.observation {
            let spec = self.kind.spec();
            let coarse = spec.is_coarse || self.harmless && self.lately && spec.holds_others_back;
            return coarse && finding.kind.spec().is_coarse || self.kind == finding.kind && self.root == finding.root;
        }
        let hides = !self.chronic || !finding.kind.spec().freezes_baseline;
        let all = self.root == LocationId::Fabric && self.kind.spec().may_spread && self.kind == finding.kind;
        hides && (all || self.root == finding.root || self.root.overlaps(&finding.root, fabric))
    }

    /// Whether a finding is at its location, or a coarse one that it explains.
    pub(super) fn owns(&self, finding: &Finding, fabric: &Fabric) -> bool {
        let holds = || self.lately && self.kind.spec().holds_others_back && self.priorities.meets(finding.priorities);
        (self.root != LocationId::Fabric && self.covers(finding, fabric)) || (finding.kind.spec().is_coarse && holds())
    }
}
