//! What one open incident means for the others.

use crate::detectors::fault_domain::DomainSet;
use crate::model::fabric::Fabric;
use crate::model::finding::Finding;
use crate::model::kind::{IncidentKind, Scope};
use crate::model::location::LocationId;
use crate::model::priority::Priorities;
use std::collections::BTreeSet;

/// What one open incident means for the others.
pub(super) struct OpenSummary {
    pub id: String,
    pub root: LocationId,
    /// Ports of its location and those that receive too much, with their peers.
    pub places: BTreeSet<usize>,
    pub kind: IncidentKind,
    pub priorities: Priorities,
    /// Jobs that suffer by themselves.
    pub victims: Vec<usize>,
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
        match [self.kind, finding.kind].map(|kind| kind.spec().scope) {
            [Scope::Job, Scope::Job] => return self.kind == finding.kind && self.victims == finding.victims,
            [Scope::Job, Scope::Network] => return false,
            [Scope::Network, Scope::Job] => return self.cuts_off(finding, fabric),
            [Scope::Network, Scope::Network] => {}
        }
        if self.observation {
            let spec = self.kind.spec();
            let coarse = spec.is_coarse || self.harmless && self.lately && spec.holds_others_back;
            return coarse && finding.kind.spec().is_coarse || self.kind == finding.kind && self.root == finding.root;
        }
        let hides = !self.chronic || !finding.kind.spec().freezes_baseline;
        let all = self.root == LocationId::Fabric && self.kind.spec().may_spread && self.kind == finding.kind;
        hides && (all || self.root == finding.root || self.root.overlaps(&finding.root, fabric))
    }

    /// Whether a job waits for ranks because this keeps their host from the network. Where the host of the ranks is unknown, it may
    /// be any of the job's; then only what is seen at a port counts, because queue pairs to a dead process give up too.
    fn cuts_off(&self, finding: &Finding, fabric: &Fabric) -> bool {
        let spec = self.kind.spec();
        let is_host = matches!(finding.root, LocationId::Host(_));
        if self.observation || !self.lately || !spec.cuts_off || !is_host && !self.kind.is_observed() {
            return false;
        }
        let own = self.root.ports(fabric);
        let near = |port: &usize| own.contains(port) || fabric.ports.list[*port].peer.is_some_and(|p| own.contains(&p));
        self.root == LocationId::Fabric && spec.may_spread || finding.root.ports(fabric).iter().any(near)
    }

    /// Whether a finding is at its location, or a coarse one that it explains.
    pub(super) fn owns(&self, finding: &Finding, fabric: &Fabric) -> bool {
        let holds = || self.lately && self.kind.spec().holds_others_back && self.priorities.meets(finding.priorities);
        (self.root != LocationId::Fabric && self.covers(finding, fabric)) || (finding.kind.spec().is_coarse && holds())
    }
}
