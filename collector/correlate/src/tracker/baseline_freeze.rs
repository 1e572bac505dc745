//! Where all is calm, and since when: trouble in one part of the fabric bends nothing in another.

use crate::detectors::fault_domain::DomainSet;
use crate::detectors::fault_partition::FaultDomains;
use crate::tracker::evaluation::EvaluationCache;
use crate::tracker::incident_tracker::IncidentTracker;
use crate::tracker::open_incident::OpenIncident;
use crate::tracker::timing::{HEARD_S, SETTLE_S};

/// Incidents that are over and still tell since when all is usual at their places: of each, minutes.
const ENDED: usize = 256;

impl IncidentTracker {
    /// Nothing is worked out yet but the parts of the fabric.
    pub(super) fn new_cache(&mut self) -> EvaluationCache {
        let baseline = self.eval.history.baseline(&self.eval.fabric, self.calm_ns);
        let now = self.eval.history.last_since(self.eval.ticks(HEARD_S), i64::MIN);
        EvaluationCache::of(FaultDomains::of(&self.eval.fabric, &self.eval.thresholds, &now, &baseline))
    }

    /// Parts of the fabric that an incident touches.
    pub(super) fn containing(&self, cache: &EvaluationCache, episode: &OpenIncident) -> DomainSet {
        cache.containing(episode.verdict(), &self.eval.fabric)
    }

    /// When the last incident that touched these parts was over, Unix ns.
    pub(super) fn over_ns(&self, cache: &EvaluationCache, at: &DomainSet) -> i64 {
        let here = self.ended.iter().rev().find(|(ports, _)| cache.domains.containing(ports.iter().copied()).meets(at));
        here.map_or(i64::MIN, |(_, over_ns)| *over_ns)
    }

    /// Notes where it was, and tells which parts of the fabric are calm from now on.
    pub(super) fn close(&mut self, cache: &EvaluationCache, episode: &OpenIncident) -> DomainSet {
        let verdict = episode.verdict();
        if verdict.kind.spec().freezes_baseline && !verdict.is_host_down(&self.eval.fabric) {
            let now_ns = self.eval.history.now_ns();
            self.calm_ns = now_ns + (SETTLE_S * 1e9) as i64;
            self.ended.push_back((verdict.ports(&self.eval.fabric), now_ns));
            if self.ended.len() > ENDED {
                self.ended.pop_front();
            }
        }
        self.containing(cache, episode)
    }

    /// Since when all of these are a part of what is usual, and not before `calm_ns`; Unix ns.
    pub(super) fn frozen_until_ns<'a>(&self, open: impl Iterator<Item = &'a OpenIncident>, calm_ns: i64) -> i64 {
        let standing =
            |e: &OpenIncident| e.start_ns.saturating_add((self.long_lived_after_s(e.verdict()) * 1e9) as i64);
        open.filter(|e| e.verdict().kind.spec().freezes_baseline).map(standing).fold(calm_ns, i64::max)
    }
}
