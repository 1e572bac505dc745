//! What opens an incident: findings that no other explains, where there is room.

use super::episode::Episode;
use super::look::{Looked, row};
use super::{BEFORE_S, COMPARES_S, LAG_S, LEAST, MOST, Other, SETTLE_S, Watch, YOUNG_S};
use crate::district::Touched;
use crate::finding::{Finding, Root};
use crate::usual::Usual;
use std::sync::Arc;

impl Watch {
    /// Opens what is not open yet, in each part of the fabric where nothing was over just now.
    pub(super) fn begin(&mut self, looked: &Looked, open: &mut Vec<Episode>, over: &[Touched]) {
        self.full = false;
        for at in looked.districts.each().filter(|at| !over.iter().any(|over| over.meets(at))) {
            self.begin_at(looked, open, &at);
        }
    }

    fn begin_at(&mut self, looked: &Looked, open: &mut Vec<Episode>, at: &Touched) {
        let over_ns = self.over_ns(looked, at);
        let calm_ns = over_ns.saturating_add((SETTLE_S * 1e9) as i64);
        let near: Vec<&Episode> = open.iter().filter(|episode| self.touched(looked, episode).meets(at)).collect();
        let (lag, straight_ns) = (self.ticks(LAG_S), self.straight_ns(near.iter().copied(), calm_ns));
        let usual = self.history.usual_there(&self.fabric, lag, straight_ns, calm_ns);
        // Links and adapters that are bad for weeks hide nothing.
        let others: Vec<Other> = near.iter().map(|episode| self.other(looked, episode)).collect();
        let first = others.iter().all(|other| other.chronic);
        // What is open bends nothing, or is a part of what is usual by now.
        let straight = near.iter().all(|e| self.standing(e) || !e.verdict().kind.bends());
        let mut found: Vec<(Finding, usize, i64)> = Vec::new();
        for (length, detectors) in self.by_length(&usual, |d| self.ticks(d.needs_s)) {
            // What needs no comparison needs no calm before it.
            for compares in [false, true] {
                let span = self.span(length, if compares { calm_ns } else { over_ns });
                if span.len() < LEAST {
                    continue;
                }
                let since_ns = self.see(looked, span.clone(), &usual, at).now.window_ns()[0];
                for detector in detectors.iter().filter(|d| (d.usual_s > 0.0) == compares) {
                    let apart = |f: &Finding| {
                        let owned = |o: &Other| o.covers(f, &self.fabric) || o.kind.explains(f.kind);
                        let inferred = || straight && detector.usual_s >= COMPARES_S && f.root != Root::Fabric;
                        // What waits in another priority waits for another.
                        let apart = || !f.kind.is_coarse() && !others.iter().any(|o| o.priorities.meets(f.priorities));
                        (first || !f.inferred || inferred() || apart()) && !others.iter().any(owned)
                    };
                    let findings = self.found(looked, (span.clone(), &usual, at), detector).into_iter().filter(apart);
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
    pub(super) fn open_part(&mut self, looked: &Looked, open: &mut Vec<Episode>, whole: &Episode, finding: Finding) {
        if !self.has_room(open, &finding) {
            return;
        }
        let since = self.history.span_since(usize::MAX, whole.begin_ns());
        let at = looked.touched(&finding, &self.fabric);
        let seen = self.see(looked, since.clone(), &whole.usual, &at);
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
        let at = looked.touched(&finding, &self.fabric);
        let near = |e: &&Episode| self.touched(looked, e).meets(&at);
        if open.iter().filter(near).any(|e| self.other(looked, e).covers(&finding, &self.fabric)) {
            return;
        }
        if !self.has_room(open, &finding) {
            return;
        }
        // What the first findings are of may still show; those that are seen where they are are two from the start.
        let one =
            |young: &Finding| young.inferred || finding.inferred || (young.kind.spreads() && finding.kind.spreads());
        let faces = |young: &Finding| young.priorities.meets(finding.priorities) && one(young);
        let near = |e: &&Episode| self.touched(looked, e).meets(&at);
        if open.iter().filter(near).any(|e| self.young(e) && faces(e.verdict())) {
            return;
        }
        let waited = open.iter().filter(near).any(|e| self.age(e) <= self.ticks(YOUNG_S) + LEAST);
        let (id, now_ns) = (self.new_id(), self.history.now_ns());
        // It had to wait until the last that opened was no longer young.
        if waited && finding.began_ns == Some(since_ns) {
            let waited = self.history.span_between(since_ns - self.nanoseconds(YOUNG_S), now_ns + 1);
            finding.began_ns = self.began(looked, usual, &finding, waited).or(finding.began_ns);
        }
        // Where its begin does not show, it may be earlier than what was judged.
        let to_ns = finding.began_ns.unwrap_or(since_ns - self.nanoseconds(LAG_S));
        let before = self.history.span_between(to_ns - self.nanoseconds(BEFORE_S), to_ns);
        let before = self.see(looked, before, usual, &at);
        let mut episode = Episode::new(id, usual.clone(), &finding, since_ns, now_ns).after(&self.scene(&before));
        // Of those that it was taken for a part of, the first.
        let had = open.iter_mut().filter_map(|e| e.cede(&finding).then(|| e.id.clone()));
        episode.split_from = had.reduce(|first, _| first);
        let long = self.see(looked, self.history.span_since(usize::MAX, since_ns), usual, &at);
        episode.note([finding], &self.scene(&long));
        self.look_before(looked, &mut episode);
        open.push(episode);
    }
}
