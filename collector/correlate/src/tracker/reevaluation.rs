//! Evaluates open incidents at each tick: still open, over, or split into parts.

use crate::baseline::window::Window;
use crate::detectors::counter_sanity::ImplausibleReason;
use crate::detectors::detector::Detector;
use crate::detectors::waiting_ports::places;
use crate::model::finding::Finding;
use crate::model::incident::Incident;
use crate::model::kind::Scope;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use crate::tracker::evaluation::EvaluationCache;
use crate::tracker::incident_tracker::IncidentTracker;
use crate::tracker::open_incident::OpenIncident;
use crate::tracker::open_summary::OpenSummary;
use crate::tracker::timing::{
    AGAIN_S, ALIVE, CHECKED, HEARD_S, HOST_DOWN_S, LEAST, LONGEST, QUIET_S, SILENT_S, SPLIT_S, STANDING_S, SUFFERED,
    TURNS, YOUNG_S,
};

/// Result of evaluating an open incident again.
enum Reevaluation {
    Open,
    Over,
    /// Over as a whole; these parts of it go on.
    Parts(Vec<Finding>),
}

impl IncidentTracker {
    fn check_counters(&mut self) {
        let now_ns = self.eval.history.now_ns();
        for port in self.eval.history.correct_glitches(CHECKED) {
            self.implausible.record(port, ImplausibleReason::Leaps, now_ns);
        }
        if let Some(ticks) = self.implausible.due(now_ns) {
            let implausible = &mut self.implausible;
            self.eval.ask_of_fabric(ticks, self.baseline_from_ns, |ctx| implausible.check(ctx));
        }
    }

    /// Evaluates all frames so far. Returns the incidents that closed.
    pub fn evaluate(&mut self) -> Vec<Incident> {
        self.check_counters();
        let now_ns = self.eval.history.now_ns();
        self.eval.fabric.routes.probes.close(now_ns);
        let cache = self.new_cache();
        self.evaluate_with(&cache)
    }

    pub(super) fn evaluate_with(&mut self, cache: &EvaluationCache) -> Vec<Incident> {
        let all = std::mem::take(&mut self.open);
        let due = self.due(&all);
        let verdicts: Vec<OpenSummary> = all.iter().map(|incident| self.summary(cache, incident)).collect();
        let (mut open, mut over, mut calmed) = (Vec::new(), Vec::new(), Vec::new());
        for (at, mut incident) in all.into_iter().enumerate() {
            if self.is_long_lived(&incident) {
                incident.shrink_baseline(&self.eval.fabric);
            }
            if !due.contains(&at) {
                open.push(incident);
                continue;
            }
            let other = |other: &&OpenSummary| other.id != incident.id && other.at.meets(&verdicts[at].at);
            let others: Vec<&OpenSummary> = verdicts.iter().filter(other).collect();
            match self.reevaluate(cache, &mut incident, &others) {
                Reevaluation::Open => open.push(incident),
                Reevaluation::Over => {
                    over.push(incident.to_incident(&self.eval.fabric, true));
                    calmed.push(self.close(cache, &incident));
                }
                Reevaluation::Parts(parts) => {
                    over.push(incident.to_incident(&self.eval.fabric, true));
                    calmed.push(self.close(cache, &incident));
                    parts.into_iter().for_each(|part| self.open_split(cache, &mut open, &incident, part));
                }
            }
        }
        self.begin(cache, &mut open, &calmed);
        for mut incident in open {
            // Two incidents of the whole fabric are the same only if their kinds are.
            let same =
                |a: &Finding, b: &Finding| a.root == b.root && (a.root != LocationId::Fabric || a.kind == b.kind);
            // Hardly any two have one root, and the rest takes longer to compare.
            let one = |other: &&OpenIncident| {
                same(other.verdict(), incident.verdict())
                    && self.containing(cache, other).meets(&self.containing(cache, &incident))
                    && self.summary(cache, other).covers(incident.verdict(), &self.eval.fabric)
            };
            match self.open.iter().find(one) {
                Some(other) => {
                    incident.part_of = Some(other.id.clone());
                    over.push(incident.to_incident(&self.eval.fabric, true));
                }
                None => self.open.push(incident),
            }
        }
        over.iter().for_each(|incident| self.eval.past.add(incident));
        over
    }

    /// Incidents that are evaluated in this tick: some young ones in turns, and the long-lived one that waits longest.
    fn due(&mut self, open: &[OpenIncident]) -> Vec<usize> {
        let (old, young): (Vec<usize>, Vec<usize>) = (0..open.len()).partition(|at| self.is_long_lived(&open[*at]));
        self.turn = self.turn.wrapping_add(1);
        let first = self.turn.wrapping_mul(TURNS);
        let in_turn = (0..TURNS.min(young.len())).map(|k| young[first.wrapping_add(k) % young.len()]);
        let again_ns = self.eval.history.now_ns().saturating_sub((AGAIN_S * 1e9) as i64);
        let waits = old.into_iter().filter(|at| open[*at].evaluated_ns <= again_ns);
        in_turn.chain(waits.min_by_key(|at| open[*at].evaluated_ns)).collect()
    }

    pub(super) fn summary(&self, cache: &EvaluationCache, incident: &OpenIncident) -> OpenSummary {
        let verdict = incident.verdict();
        OpenSummary {
            id: incident.id.clone(),
            root: verdict.root.clone(),
            places: places(&self.eval.fabric, verdict),
            kind: verdict.kind,
            priorities: verdict.priorities,
            victims: verdict.victims.clone(),
            observation: !incident.paged,
            harmless: verdict.is_harmless(),
            chronic: !incident.paged
                || verdict.kind.spec().scope == Scope::Job
                || self.is_long_lived(incident) && !verdict.kind.spec().freezes_baseline,
            lately: self.ticks_since(incident.alive_ns) <= self.eval.ticks(QUIET_S),
            at: cache.containing(verdict, &self.eval.fabric),
        }
    }

    pub(super) fn is_long_lived(&self, incident: &OpenIncident) -> bool {
        self.age(incident) > self.eval.ticks(self.long_lived_after_s(incident.verdict()))
    }

    /// Seconds after which an incident counts as part of the baseline.
    pub(super) fn long_lived_after_s(&self, finding: &Finding) -> f64 {
        if finding.is_host_down(&self.eval.fabric) { HOST_DOWN_S } else { STANDING_S }
    }

    pub(super) fn is_young(&self, incident: &OpenIncident) -> bool {
        self.age(incident) <= self.eval.ticks(YOUNG_S)
    }

    /// Ticks since it was detected.
    pub(super) fn age(&self, incident: &OpenIncident) -> usize {
        self.ticks_since(incident.detected_ns)
    }

    pub(super) fn ticks_since(&self, time_ns: i64) -> usize {
        let seconds = (self.eval.history.now_ns() - time_ns) as f64 / 1e9;
        (seconds / self.eval.history.step_s()).round().max(0.0) as usize
    }

    /// Evaluates an open incident again, without findings that belong to other incidents.
    fn reevaluate(
        &self,
        cache: &EvaluationCache,
        incident: &mut OpenIncident,
        others: &[&OpenSummary],
    ) -> Reevaluation {
        incident.evaluated_ns = self.eval.history.now_ns();
        self.eval.look_before(cache, incident);
        let (young, at) = (self.is_young(incident), self.containing(cache, incident));
        let root = incident.verdict().root.clone();
        // What is wrong with a host may explain a job that waits for it.
        let apart = |other: &OpenSummary, f: &Finding| other.root != root || f.kind.spec().scope == Scope::Job;
        let owner = |f: &Finding| others.iter().find(|other| apart(other, f) && other.owns(f, &self.eval.fabric));
        let found = |part: f64, which: &dyn Fn(&Detector) -> bool| {
            let ticks = |d: &Detector| self.eval.ticks(part * d.warm_up_s);
            let keep = |f: &Finding| (young || incident.recognizes(f)) && !incident.is_elsewhere(f, &self.eval.fabric);
            self.eval.findings(cache, (&incident.baseline, incident.start_ns, &at), ticks, which, keep)
        };
        let mut own = found(1.0, &|_| true);
        own.retain(|(_, f)| owner(f).is_none());
        let is_own = |found: &[(&'static Detector, Finding)]| found.iter().any(|(_, f)| owner(f).is_none());
        // Most often the same detectors find it in a longer window, and the others need not be asked.
        let again = found(ALIVE, &|detector| own.iter().any(|(known, _)| known.name == detector.name));
        let all = if is_own(&again) { again } else { found(ALIVE, &|_| true) };
        let lately = is_own(&all);
        let mut own: Vec<Finding> = own.into_iter().map(|(_, finding)| finding).collect();
        let now = !own.is_empty();
        if own.iter().any(|f| f.root == root) || !incident.verdict().is_aggregate() {
            incident.whole_ns = self.eval.history.now_ns();
        }
        if now && self.ticks_since(incident.whole_ns) > self.eval.ticks(SPLIT_S) {
            let kind = incident.verdict().kind;
            own.retain(|f| f.kind == kind);
            (incident.last_ns, incident.part_of) = (incident.whole_ns, None);
            return Reevaluation::Parts(own);
        }
        let owned = all.iter().filter(|_| !lately).find_map(|(_, finding)| owner(finding));
        incident.part_of = owned.map(|other| other.id.clone());
        incident.quiet += 1;
        if lately {
            incident.quiet = 0;
            incident.alive_ns = self.eval.history.now_ns();
        }
        if now {
            incident.last_ns = self.eval.history.now_ns();
            let baseline = incident.baseline.clone();
            let whole = |d: &Detector| if d.looks_back { self.eval.ticks(d.warm_up_s) } else { LONGEST };
            // A part that remains of an aggregate for a while does not change the incident.
            let is_whole = incident.verdict().is_aggregate();
            let of_it = |f: &Finding| !is_whole || f.root == root || f.kind != incident.verdict().kind;
            let keep = |f: &Finding| owner(f).is_none() && !incident.is_elsewhere(f, &self.eval.fabric) && of_it(f);
            let own = self.eval.findings(cache, (&baseline, incident.start_ns, &at), whole, |_| true, keep);
            let own = own.into_iter().map(|(_, finding)| finding);
            let long =
                self.eval.evaluation(cache, self.eval.history.span_since(SUFFERED, incident.start_ns), &baseline, &at);
            self.eval.record(incident, own, others.iter().copied(), &long);
        }
        // Without samples of the location its end cannot be detected. That of a job is known from the job.
        let is_measured = incident.verdict().kind.spec().scope == Scope::Network;
        if is_measured
            && !lately
            && self.ticks_since(incident.last_ns) <= self.eval.ticks(SILENT_S)
            && !self.has_samples(incident)
        {
            (incident.quiet, incident.alive_ns) = (0, self.eval.history.now_ns());
        }
        let over = incident.quiet > LEAST && self.ticks_since(incident.alive_ns) > self.eval.ticks(incident.quiet_s());
        if over { Reevaluation::Over } else { Reevaluation::Open }
    }

    /// Whether ports of the location that were measured in the baseline had samples lately.
    fn has_samples(&self, incident: &OpenIncident) -> bool {
        let now = self.eval.history.last_since(self.eval.ticks(HEARD_S), i64::MIN);
        let tells = |window: &Window, port: usize| {
            [Signal::Tx, Signal::Rx, Signal::Up].iter().any(|signal| window.values(*signal, port).next().is_some())
        };
        let ports = incident.verdict().root.ports(&self.eval.fabric);
        let known: Vec<usize> = ports.into_iter().filter(|port| tells(&incident.baseline.window, *port)).collect();
        if known.is_empty() {
            return now.frames().iter().any(|frame| !frame.is_empty());
        }
        known.into_iter().any(|port| tells(&now, port))
    }
}
