//! Freezes the baseline while incidents are open, per fault domain: an incident in one domain changes nothing in
//! another.

use crate::detectors::fault_domain::DomainSet;
use crate::detectors::fault_partition::FaultDomains;
use crate::tracker::evaluation::EvaluationCache;
use crate::tracker::incident_tracker::IncidentTracker;
use crate::tracker::open_incident::OpenIncident;
use crate::tracker::timing::{HEARD_S, SETTLE_S};

/// Frames from which a baseline is known.
const KNOWN_TICKS: usize = 10;
/// Ended incidents that still define the start of the local baseline, each for minutes.
const ENDED: usize = 256;

impl IncidentTracker {
    /// A cache that holds the fault domains of this tick.
    pub(super) fn new_cache(&mut self) -> EvaluationCache {
        let baseline = self.eval.history.baseline(&self.eval.fabric, self.baseline_from_ns);
        let now = self.eval.history.last_since(self.eval.ticks(HEARD_S), i64::MIN);
        EvaluationCache::of(FaultDomains::of(&self.eval.fabric, &self.eval.thresholds, &now, &baseline))
    }

    /// Fault domains that an incident touches.
    pub(super) fn containing(&self, cache: &EvaluationCache, incident: &OpenIncident) -> DomainSet {
        cache.containing(incident.verdict(), &self.eval.fabric)
    }

    /// When the last incident that touched these domains ended, Unix ns.
    pub(super) fn over_ns(&self, cache: &EvaluationCache, at: &DomainSet) -> i64 {
        let here = self.ended.iter().rev().find(|(ports, _)| cache.domains.containing(ports.iter().copied()).meets(at));
        here.map_or(i64::MIN, |(_, over_ns)| *over_ns)
    }

    /// Remembers where a closed incident was, and returns the domains that are free of it from now on.
    pub(super) fn close(&mut self, cache: &EvaluationCache, incident: &OpenIncident) -> DomainSet {
        let verdict = incident.verdict();
        if incident.freezes_baseline() && !verdict.is_host_down(&self.eval.fabric) {
            let now_ns = self.eval.history.now_ns();
            self.baseline_from_ns = now_ns + (SETTLE_S * 1e9) as i64;
            self.ended.push_back((verdict.ports(&self.eval.fabric), now_ns));
            if self.ended.len() > ENDED {
                self.ended.pop_front();
            }
        }
        self.containing(cache, incident)
    }

    /// When all of these incidents count as part of the baseline, at the earliest `baseline_from_ns`; Unix ns. Incidents
    /// that began before any baseline was known do not freeze it: it holds what they leave of the traffic.
    pub(super) fn frozen_until_ns<'a>(
        &self,
        open: impl Iterator<Item = &'a OpenIncident>,
        baseline_from_ns: i64,
    ) -> i64 {
        let standing =
            |e: &OpenIncident| e.start_ns.saturating_add((self.long_lived_after_s(e.verdict()) * 1e9) as i64);
        let freezes = |e: &&OpenIncident| e.freezes_baseline() && e.baseline.window.ticks() >= KNOWN_TICKS;
        open.filter(freezes).map(standing).fold(baseline_from_ns, i64::max)
    }
}
