//! Opens incidents for findings that no open incident explains.

use crate::baseline::reference::Baseline;
use crate::detectors::fault_domain::DomainSet;
use crate::detectors::paging::pages;
use crate::model::finding::Finding;
use crate::model::kind::Scope;
use crate::model::location::LocationId;
use crate::tracker::evaluation::{EvaluationCache, row};
use crate::tracker::incident_tracker::IncidentTracker;
use crate::tracker::open_incident::OpenIncident;
use crate::tracker::open_summary::OpenSummary;
use crate::tracker::timing::{BEFORE_S, COMPARES_S, LAG_S, LAG_TICKS, LEAST, MOST, SETTLE_S, YOUNG_S};
use std::sync::Arc;

impl IncidentTracker {
    /// Opens incidents in each fault domain in which none has just closed.
    pub(super) fn begin(&mut self, cache: &EvaluationCache, open: &mut Vec<OpenIncident>, over: &[DomainSet]) {
        self.full = false;
        let mut touched = Vec::new();
        for at in cache.domains.each().filter(|at| !over.iter().any(|over| over.meets(at))) {
            touched.extend(open[touched.len()..].iter().map(|incident| self.containing(cache, incident)));
            self.begin_at(cache, open, &touched, &at);
        }
    }

    /// The same in one fault domain; `touched` has the fault domains of each open incident.
    fn begin_at(
        &mut self,
        cache: &EvaluationCache,
        open: &mut Vec<OpenIncident>,
        touched: &[DomainSet],
        at: &DomainSet,
    ) {
        let over_ns = self.over_ns(cache, at);
        let baseline_from_ns = over_ns.saturating_add((SETTLE_S * 1e9) as i64);
        let near = open.iter().zip(touched).filter(|(_, touched)| touched.meets(at));
        let near: Vec<&OpenIncident> = near.map(|(incident, _)| incident).collect();
        let (lag, frozen_until_ns) =
            (self.eval.ticks(LAG_S).max(LAG_TICKS), self.frozen_until_ns(near.iter().copied(), baseline_from_ns));
        let baseline = self.eval.history.local_baseline(&self.eval.fabric, lag, frozen_until_ns, baseline_from_ns);
        // Long-lived faults that do not change traffic hide nothing.
        let others: Vec<OpenSummary> = near.iter().map(|incident| self.summary(cache, incident)).collect();
        let first = others.iter().all(|other| other.chronic);
        // No open incident changes traffic, or all that do are part of the baseline by now.
        let unfrozen = near.iter().all(|e| self.is_long_lived(e) || !e.freezes_baseline());
        let mut found: Vec<(Finding, usize, i64)> = Vec::new();
        for (length, detectors) in self.eval.by_length(&baseline, |d| self.eval.ticks(d.warm_up_s)) {
            // Detectors that compare nothing need no calm time before.
            for compares in [false, true] {
                let span = self.eval.span(length, if compares { baseline_from_ns } else { over_ns });
                if span.len() < LEAST {
                    continue;
                }
                let since_ns = self.eval.evaluation(cache, span.clone(), &baseline, at).window.time_range_ns()[0];
                for detector in detectors.iter().filter(|d| (d.baseline_s > 0.0) == compares) {
                    let apart = |f: &Finding| {
                        let owned = |o: &OpenSummary| o.covers(f, &self.eval.fabric) || o.kind.explains(f.kind);
                        let inferred = || unfrozen && detector.baseline_s >= COMPARES_S && f.root != LocationId::Fabric;
                        // Traffic of another priority waits for another cause.
                        let apart =
                            || !f.kind.spec().is_coarse && !others.iter().any(|o| o.priorities.meets(f.priorities));
                        (first || !f.inferred || inferred() || apart()) && !others.iter().any(owned)
                    };
                    let findings =
                        self.eval.run(cache, (span.clone(), &baseline, at), detector).into_iter().filter(apart);
                    found.extend(findings.map(|f| (f, row(detector), since_ns)));
                }
            }
        }
        found.sort_by(|a, b| b.0.confidence.total_cmp(&a.0.confidence).then(a.1.cmp(&b.1)));
        if first {
            found.truncate(1);
        }
        for (finding, _, since_ns) in found {
            self.open_one(cache, open, &baseline, (finding, since_ns));
        }
    }

    /// Opens an incident for a remaining part of one that is over.
    pub(super) fn open_split(
        &mut self,
        cache: &EvaluationCache,
        open: &mut Vec<OpenIncident>,
        whole: &OpenIncident,
        finding: Finding,
    ) {
        if !self.has_room(open, &finding) {
            return;
        }
        let since = self.eval.history.span_since(usize::MAX, whole.begin_ns());
        let at = cache.containing(&finding, &self.eval.fabric);
        let seen = self.eval.evaluation(cache, since.clone(), &whole.baseline, &at);
        // If all known frames show it, it began with the whole.
        let began = self.eval.began(cache, &whole.baseline, &finding, since);
        let began = began.map(|ns| if ns <= seen.window.time_range_ns()[0] { whole.begin_ns() } else { ns });
        let finding = Finding { began_ns: began.or(finding.began_ns), ..finding };
        let (id, now_ns) = (self.new_id(), self.eval.history.now_ns());
        let mut part = whole.split_off(id, &finding, now_ns);
        let others = self.summaries(cache, open.iter(), &at);
        self.eval.record(&mut part, [finding], &others, &seen);
        open.push(part);
    }

    /// What open incidents of some fault domains mean for another there.
    fn summaries<'a>(
        &self,
        cache: &EvaluationCache,
        open: impl IntoIterator<Item = &'a OpenIncident>,
        at: &DomainSet,
    ) -> Vec<OpenSummary> {
        let near = open.into_iter().filter(|incident| self.containing(cache, incident).meets(at));
        near.map(|incident| self.summary(cache, incident)).collect()
    }

    fn has_room(&mut self, open: &[OpenIncident], finding: &Finding) -> bool {
        let pages = pages(finding, &self.eval.thresholds);
        let freezes = finding.kind.spec().freezes_baseline && pages;
        let alike = |e: &&OpenIncident| (e.paged, e.freezes_baseline()) == (pages, freezes);
        let room = open.iter().filter(alike).count() < MOST;
        self.full |= !room;
        room
    }

    fn new_id(&mut self) -> String {
        self.opened += 1;
        format!("{}-{}", self.eval.history.now_ns() / 1_000_000, self.opened)
    }

    fn open_one(
        &mut self,
        cache: &EvaluationCache,
        open: &mut Vec<OpenIncident>,
        baseline: &Arc<Baseline>,
        (mut finding, since_ns): (Finding, i64),
    ) {
        let at = cache.containing(&finding, &self.eval.fabric);
        let near: Vec<&OpenIncident> = open.iter().filter(|e| self.containing(cache, e).meets(&at)).collect();
        if near.iter().any(|e| self.summary(cache, e).covers(&finding, &self.eval.fabric)) {
            return;
        }
        if !self.has_room(open, &finding) {
            return;
        }
        // The first findings may still change form; two directly observed problems are two from the start.
        let one = |young: &Finding| {
            young.inferred || finding.inferred || (young.kind.spec().may_spread && finding.kind.spec().may_spread)
        };
        let faces = |young: &Finding| young.priorities.meets(finding.priorities) && one(young);
        if near.iter().any(|e| self.is_young(e) && faces(e.verdict())) {
            return;
        }
        let waited = near.iter().any(|e| self.age(e) <= self.eval.ticks(YOUNG_S) + LEAST);
        let (id, now_ns) = (self.new_id(), self.eval.history.now_ns());
        // It had to wait until the last opened incident was no longer young.
        if waited && finding.began_ns == Some(since_ns) {
            let waited = self.eval.history.span_between(since_ns - self.eval.nanoseconds(YOUNG_S), now_ns + 1);
            finding.began_ns = self.eval.began(cache, baseline, &finding, waited).or(finding.began_ns);
        }
        // If the samples do not show the start, it may be before the window.
        let to_ns = finding.began_ns.unwrap_or(since_ns - self.eval.nanoseconds(LAG_S));
        let before = self.eval.history.span_between(to_ns - self.eval.nanoseconds(BEFORE_S), to_ns);
        let before = self.eval.evaluation(cache, before, baseline, &at);
        let mut incident = OpenIncident::new(id, baseline.clone(), &finding, since_ns, now_ns);
        if finding.kind.spec().scope == Scope::Network {
            incident = incident.with_losses_before(&self.eval.context(&before));
        }
        // The first of the incidents that it was attributed to.
        let had = open.iter_mut().filter_map(|e| e.give_up(&finding).then(|| e.id.clone()));
        incident.split_from = had.reduce(|first, _| first);
        let long = self.eval.evaluation(cache, self.eval.history.span_since(usize::MAX, since_ns), baseline, &at);
        let others = self.summaries(cache, open.iter(), &at);
        self.eval.record(&mut incident, [finding], &others, &long);
        self.eval.look_before(cache, &mut incident);
        open.push(incident);
    }
}
