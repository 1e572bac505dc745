//! What opens an incident: findings that no other explains, where there is room.

use crate::tracker::timing::{BEFORE_S, COMPARES_S, LAG_S, LEAST, MOST, SETTLE_S, YOUNG_S};
use crate::tracker::evaluation::{EvaluationCache, row};
use crate::tracker::incident_tracker::{IncidentTracker, OpenSummary};
use crate::tracker::open_incident::OpenIncident;
use crate::detectors::fault_domain::DomainSet;
use crate::model::finding::Finding;
use crate::model::location::LocationId;
use crate::baseline::reference::Baseline;
use std::sync::Arc;

impl IncidentTracker {
    /// Opens what is not open yet, in each part of the fabric where nothing was over just now.
    pub(super) fn begin(&mut self, looked: &EvaluationCache, open: &mut Vec<OpenIncident>, over: &[DomainSet]) {
        self.full = false;
        for at in looked.districts.each().filter(|at| !over.iter().any(|over| over.meets(at))) {
            self.begin_at(looked, open, &at);
        }
    }

    fn begin_at(&mut self, looked: &EvaluationCache, open: &mut Vec<OpenIncident>, at: &DomainSet) {
        let over_ns = self.over_ns(looked, at);
        let calm_ns = over_ns.saturating_add((SETTLE_S * 1e9) as i64);
        let near: Vec<&OpenIncident> = open.iter().filter(|episode| self.touched(looked, episode).meets(at)).collect();
        let (lag, straight_ns) = (self.eval.ticks(LAG_S), self.straight_ns(near.iter().copied(), calm_ns));
        let usual = self.eval.history.usual_there(&self.eval.fabric, lag, straight_ns, calm_ns);
        // Links and adapters that are bad for weeks hide nothing.
        let others: Vec<OpenSummary> = near.iter().map(|episode| self.other(looked, episode)).collect();
        let first = others.iter().all(|other| other.chronic);
        // What is open bends nothing, or is a part of what is usual by now.
        let straight = near.iter().all(|e| self.standing(e) || !e.verdict().kind.spec().freezes_baseline);
        let mut found: Vec<(Finding, usize, i64)> = Vec::new();
        for (length, detectors) in self.eval.by_length(&usual, |d| self.eval.ticks(d.warm_up_s)) {
            // What needs no comparison needs no calm before it.
            for compares in [false, true] {
                let span = self.eval.span(length, if compares { calm_ns } else { over_ns });
                if span.len() < LEAST {
                    continue;
                }
                let since_ns = self.eval.see(looked, span.clone(), &usual, at).now.window_ns()[0];
                for detector in detectors.iter().filter(|d| (d.baseline_s > 0.0) == compares) {
                    let apart = |f: &Finding| {
                        let owned = |o: &OpenSummary| o.covers(f, &self.eval.fabric) || o.kind.explains(f.kind);
                        let inferred = || straight && detector.baseline_s >= COMPARES_S && f.root != LocationId::Fabric;
                        // What waits in another priority waits for another.
                        let apart = || !f.kind.spec().is_coarse && !others.iter().any(|o| o.priorities.meets(f.priorities));
                        (first || !f.inferred || inferred() || apart()) && !others.iter().any(owned)
                    };
                    let findings = self.eval.found(looked, (span.clone(), &usual, at), detector).into_iter().filter(apart);
                    found.extend(findings.map(|f| (f, row(detector), since_ns)));
                }
            }
        }
        found.sort_by(|a, b| b.0.confidence.total_cmp(&a.0.confidence).then(a.1.cmp(&b.1)));
        if first {
            found.truncate(1);
        }
        for (finding, _, since_ns) in found {
            self.open_one(looked, open, &usual, (finding, since_ns));
        }
    }

    /// Opens what is left of one that is over.
    pub(super) fn open_part(&mut self, looked: &EvaluationCache, open: &mut Vec<OpenIncident>, whole: &OpenIncident, finding: Finding) {
        if !self.has_room(open, &finding) {
            return;
        }
        let since = self.eval.history.span_since(usize::MAX, whole.begin_ns());
        let at = looked.touched(&finding, &self.eval.fabric);
        let seen = self.eval.see(looked, since.clone(), &whole.usual, &at);
        // As long as is known: then it began with the whole.
        let began = self.eval.began(looked, &whole.usual, &finding, since);
        let began = began.map(|ns| if ns <= seen.now.window_ns()[0] { whole.begin_ns() } else { ns });
        let finding = Finding { began_ns: began.or(finding.began_ns), ..finding };
        let (id, now_ns) = (self.new_id(), self.eval.history.now_ns());
        let mut part = whole.part(id, &finding, now_ns);
        part.note([finding], &self.eval.scene(&seen));
        open.push(part);
    }

    fn has_room(&mut self, open: &[OpenIncident], finding: &Finding) -> bool {
        let alike = |e: &&OpenIncident| e.verdict().kind.spec().freezes_baseline == finding.kind.spec().freezes_baseline;
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
        looked: &EvaluationCache,
        open: &mut Vec<OpenIncident>,
        usual: &Arc<Baseline>,
        (mut finding, since_ns): (Finding, i64),
    ) {
        let at = looked.touched(&finding, &self.eval.fabric);
        let near = |e: &&OpenIncident| self.touched(looked, e).meets(&at);
        if open.iter().filter(near).any(|e| self.other(looked, e).covers(&finding, &self.eval.fabric)) {
            return;
        }
        if !self.has_room(open, &finding) {
            return;
        }
        // What the first findings are of may still show; those that are seen where they are are two from the start.
        let one =
            |young: &Finding| young.inferred || finding.inferred || (young.kind.spec().may_spread && finding.kind.spec().may_spread);
        let faces = |young: &Finding| young.priorities.meets(finding.priorities) && one(young);
        let near = |e: &&OpenIncident| self.touched(looked, e).meets(&at);
        if open.iter().filter(near).any(|e| self.young(e) && faces(e.verdict())) {
            return;
        }
        let waited = open.iter().filter(near).any(|e| self.age(e) <= self.eval.ticks(YOUNG_S) + LEAST);
        let (id, now_ns) = (self.new_id(), self.eval.history.now_ns());
        // It had to wait until the last that opened was no longer young.
        if waited && finding.began_ns == Some(since_ns) {
            let waited = self.eval.history.span_between(since_ns - self.eval.nanoseconds(YOUNG_S), now_ns + 1);
            finding.began_ns = self.eval.began(looked, usual, &finding, waited).or(finding.began_ns);
        }
        // Where its begin does not show, it may be earlier than what was judged.
        let to_ns = finding.began_ns.unwrap_or(since_ns - self.eval.nanoseconds(LAG_S));
        let before = self.eval.history.span_between(to_ns - self.eval.nanoseconds(BEFORE_S), to_ns);
        let before = self.eval.see(looked, before, usual, &at);
        let mut episode = OpenIncident::new(id, usual.clone(), &finding, since_ns, now_ns).after(&self.eval.scene(&before));
        // Of those that it was taken for a part of, the first.
        let had = open.iter_mut().filter_map(|e| e.cede(&finding).then(|| e.id.clone()));
        episode.split_from = had.reduce(|first, _| first);
        let long = self.eval.see(looked, self.eval.history.span_since(usize::MAX, since_ns), usual, &at);
        episode.note([finding], &self.eval.scene(&long));
        self.eval.look_before(looked, &mut episode);
        open.push(episode);
    }
}
