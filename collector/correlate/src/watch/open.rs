//! What opens an incident: findings that no other explains, where there is room.

use super::episode::Episode;
use super::look::{Looked, row};
use super::{BEFORE_S, COMPARES_S, LAG_S, LEAST, MOST, Other, Watch, YOUNG_S};
use crate::finding::{Finding, Root};
use crate::usual::Usual;
use std::sync::Arc;

impl Watch {
    /// Opens what is not open yet.
    pub(super) fn begin(&mut self, looked: &Looked, open: &mut Vec<Episode>) {
        let usual = self.history.usual(&self.fabric, self.calm_ns);
        // Links and adapters that are bad for weeks hide nothing.
        let others: Vec<Other> = open.iter().map(|episode| self.other(episode)).collect();
        let first = others.iter().all(|other| other.chronic);
        self.full = false;
        // What is open bends nothing, or is a part of what is usual by now.
        let straight = open.iter().all(|e| self.standing(e) || !e.verdict().kind.bends());
        let mut found: Vec<(Finding, usize, i64)> = Vec::new();
        for (length, detectors) in self.by_length(&usual, |d| self.ticks(d.needs_s)) {
            // What needs no comparison needs no calm before it.
            for compares in [false, true] {
                let span = self.span(length, if compares { self.calm_ns } else { self.over_ns });
                if span.len() < LEAST {
                    continue;
                }
                let seen = self.see(looked, span, &usual);
                for detector in detectors.iter().filter(|d| (d.usual_s > 0.0) == compares) {
                    let apart = |f: &Finding| {
                        let owned = |o: &Other| o.covers(f, &self.fabric) || o.kind.explains(f.kind);
                        let inferred = || straight && detector.usual_s >= COMPARES_S && f.root != Root::Fabric;
                        // What waits in another priority waits for another.
                        let apart = || !f.kind.is_coarse() && !others.iter().any(|o| o.priorities.meets(f.priorities));
                        (first || !f.inferred || inferred() || apart()) && !others.iter().any(owned)
                    };
                    let findings = self.found(&seen, detector).iter().filter(|f| apart(f));
                    found.extend(findings.map(|f| (f.clone(), row(detector), seen.now.window_ns()[0])));
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
    pub(super) fn open_part(&mut self, looked: &Looked, open: &mut Vec<Episode>, whole: &Episode, finding: Finding) {
        if !self.has_room(open, &finding) {
            return;
        }
        let since = self.history.span_since(usize::MAX, whole.begin_ns());
        let seen = self.see(looked, since.clone(), &whole.usual);
        // As long as is known: then it began with the whole.
        let began = self.began(looked, &whole.usual, &finding, since);
        let began = began.map(|ns| if ns <= seen.now.window_ns()[0] { whole.begin_ns() } else { ns });
        let finding = Finding { began_ns: began.or(finding.began_ns), ..finding };
        let (id, now_ns) = (self.new_id(), self.history.now_ns());
        let mut part = whole.part(id, &finding, now_ns);
        part.note([finding], &self.scene(&seen));
        open.push(part);
    }

    fn has_room(&mut self, open: &[Episode], finding: &Finding) -> bool {
        let alike = |e: &&Episode| e.verdict().kind.bends() == finding.kind.bends();
        let room = open.iter().filter(alike).count() < MOST;
        self.full |= !room;
        room
    }

    fn new_id(&mut self) -> String {
        self.opened += 1;
        format!("{}-{}", self.history.now_ns() / 1_000_000, self.opened)
    }

    fn open_one(
        &mut self,
        looked: &Looked,
        open: &mut Vec<Episode>,
        usual: &Arc<Usual>,
        (mut finding, since_ns): (Finding, i64),
    ) {
        if open.iter().any(|e| self.other(e).covers(&finding, &self.fabric)) {
            return;
        }
        if !self.has_room(open, &finding) {
            return;
        }
        // What the first findings are of may still show; those that are seen where they are are two from the start.
        let one =
            |young: &Finding| young.inferred || finding.inferred || (young.kind.spreads() && finding.kind.spreads());
        let faces = |young: &Finding| young.priorities.meets(finding.priorities) && one(young);
        if open.iter().any(|e| self.young(e) && faces(e.verdict())) {
            return;
        }
        let (id, now_ns) = (self.new_id(), self.history.now_ns());
        // It had to wait until the last that opened was no longer young.
        if finding.began_ns == Some(since_ns) && open.iter().any(|e| self.age(e) <= self.ticks(YOUNG_S) + LEAST) {
            let waited = self.history.span_between(since_ns - self.nanoseconds(YOUNG_S), now_ns + 1);
            finding.began_ns = self.began(looked, usual, &finding, waited).or(finding.began_ns);
        }
        // Where its begin does not show, it may be earlier than what was judged.
        let to_ns = finding.began_ns.unwrap_or(since_ns - self.nanoseconds(LAG_S));
        let before = self.history.span_between(to_ns - self.nanoseconds(BEFORE_S), to_ns);
        let before = self.see(looked, before, usual);
        let mut episode = Episode::new(id, usual.clone(), &finding, since_ns, now_ns).after(&self.scene(&before));
        // Of those that it was taken for a part of, the first.
        let had = open.iter_mut().filter_map(|e| e.cede(&finding).then(|| e.id.clone()));
        episode.split_from = had.reduce(|first, _| first);
        let long = self.see(looked, self.history.span_since(usize::MAX, since_ns), usual);
        episode.note([finding], &self.scene(&long));
        self.look_before(looked, &mut episode);
        open.push(episode);
    }
}
