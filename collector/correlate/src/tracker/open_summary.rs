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
    /// Not certain enough to page.
    pub observation: bool,
    /// An observation, or open for long and it does not freeze the baseline.
    pub chronic: bool,
    /// Fault domains that it touches.
    pub at: DomainSet,
}

impl OpenSummary {
    /// Whether a finding is at its location. A chronic incident does not hide a storm there. An observation hides the same
    /// finding, and a coarse one other coarse findings, between which samples decide differently.
    pub(super) fn covers(&self, finding: &Finding, fabric: &Fabric) -> bool {
        if self.observation {
            let coarse = self.kind.spec().is_coarse && finding.kind.spec().is_coarse;
            return coarse || self.kind == finding.kind && self.root == finding.root;
        }
        let hides = !self.chronic || !finding.kind.spec().freezes_baseline;
        let all = self.root == LocationId::Fabric && self.kind.spec().may_spread && self.kind == finding.kind;
        hides && (all || self.root == finding.root || self.root.overlaps(&finding.root, fabric))
    }

    /// Whether a finding is at its location, or a coarse one that it explains.
    pub(super) fn owns(&self, finding: &Finding, fabric: &Fabric) -> bool {
        let holds = || self.kind.spec().holds_others_back && self.priorities.meets(finding.priorities);
        (self.root != LocationId::Fabric && self.covers(finding, fabric)) || (finding.kind.spec().is_coarse && holds())
    }
}
