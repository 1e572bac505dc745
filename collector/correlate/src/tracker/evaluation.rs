//! Runs detectors over windows, each with its own length, and caches their findings for one tick.

use crate::baseline::history::History;
use crate::baseline::reference::Baseline;
use crate::baseline::window::Window;
use crate::detectors;
use crate::detectors::context::{DetectorContext, SlowdownCache};
use crate::detectors::detector::Detector;
use crate::detectors::fault_domain::{DomainSet, FaultDomain};
use crate::detectors::fault_partition::FaultDomains;
use crate::detectors::thresholds::Thresholds;
use crate::model::fabric::Fabric;
use crate::model::finding::Finding;
use crate::tracker::open_incident::OpenIncident;
use crate::tracker::open_summary::OpenSummary;
use crate::tracker::past_incidents::PastIncidents;
use crate::tracker::timing::{LEAST, QUIET_S};
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Frames of a window, and whether it may start before the incident.
pub(super) type Length = (usize, bool);

/// What detectors run on.
pub(super) struct Evaluator {
    pub fabric: Fabric,
    pub thresholds: Thresholds,
    pub history: History,
    pub past: PastIncidents,
}

/// Frames of a window, and the address of a baseline.
type WindowKey = (Range<usize>, *const Baseline);

/// Results of one tick. Incidents that are evaluated in it need much of the same: what all detectors find in the last
/// seconds against the global baseline.
#[derive(Default)]
pub(super) struct EvaluationCache {
    pub domains: FaultDomains,
    pub(super) windows: RefCell<HashMap<Range<usize>, Arc<Window>>>,
    slowdowns: RefCell<HashMap<WindowKey, Rc<SlowdownCache>>>,
    pub(super) seen: RefCell<HashMap<(WindowKey, *const FaultDomain), Rc<Evaluation>>>,
}

impl EvaluationCache {
    /// An empty cache for these fault domains.
    pub fn of(domains: FaultDomains) -> Self {
        Self { domains, ..Self::default() }
    }

    /// Fault domains that a finding touches.
    pub fn containing(&self, finding: &Finding, fabric: &Fabric) -> DomainSet {
        self.domains.containing(finding.ports(fabric))
    }
}

/// A window with a baseline, and what detectors found in it.
pub(super) struct Evaluation {
    pub window: Arc<Window>,
    /// All known frames up to the end of the window.
    pub history: Arc<Window>,
    /// Kept so that its address stays unique.
    pub baseline: Arc<Baseline>,
    pub domain: Arc<FaultDomain>,
    slowdowns: Rc<SlowdownCache>,
    pub(super) found: [OnceCell<Vec<Finding>>; detectors::ALL.len()],
    /// Fault domains that each of them touches, of detectors that judge the whole fabric.
    touched: [OnceCell<Vec<DomainSet>>; detectors::ALL.len()],
}

impl Evaluator {
    /// The evaluation of a span with a baseline, in some fault domains.
    pub(super) fn evaluation(
        &self,
        cache: &EvaluationCache,
        span: Range<usize>,
        baseline: &Arc<Baseline>,
        at: &DomainSet,
    ) -> Rc<Evaluation> {
        let (window_key, domain) = ((span.clone(), Arc::as_ptr(baseline)), cache.domains.union(at));
        let slowdowns = || cache.slowdowns.borrow_mut().entry(window_key.clone()).or_default().clone();
        let window = |span: Range<usize>| {
            let mut known = cache.windows.borrow_mut();
            // Sums of the last frames may already be known.
            let ends = known.iter().filter(|(other, _)| other.end == span.end && other.start > span.start);
            let end = ends.min_by_key(|(other, _)| other.start).map(|(_, end)| end.clone());
            let new = || Arc::new(self.history.window(span.clone()).with_suffix(end));
            known.entry(span.clone()).or_insert_with(new).clone()
        };
        let seen = || Evaluation {
            window: window(span.clone()),
            history: window(self.history.span_since(usize::MAX, i64::MIN)),
            baseline: baseline.clone(),
            domain: domain.clone(),
            slowdowns: slowdowns(),
            found: [const { OnceCell::new() }; detectors::ALL.len()],
            touched: [const { OnceCell::new() }; detectors::ALL.len()],
        };
        let key = (window_key.clone(), Arc::as_ptr(&domain));
        cache.seen.borrow_mut().entry(key).or_insert_with(|| Rc::new(seen())).clone()
    }

    pub(super) fn context<'a>(&'a self, seen: &'a Evaluation) -> DetectorContext<'a> {
        let windows = [&*seen.window, &*seen.history];
        let step_s = self.history.step_s();
        DetectorContext::new(
            &self.fabric,
            &self.thresholds,
            windows,
            &seen.baseline,
            step_s,
            &seen.domain,
            &seen.slowdowns,
        )
    }

    /// Records what detectors found for an incident beside others, and decides whether it pages.
    pub(super) fn record<'a>(
        &self,
        incident: &mut OpenIncident,
        findings: impl IntoIterator<Item = Finding>,
        others: impl IntoIterator<Item = &'a OpenSummary>,
        seen: &Evaluation,
    ) {
        let ctx = self.context(seen);
        let holds = |other: &&OpenSummary| !other.observation && other.lately && other.kind.spec().holds_others_back;
        let places = others.into_iter().filter(holds).flat_map(|other| other.places.iter().copied()).collect();
        incident.record(findings, &places, &ctx);
        incident.decide_paging(&ctx, &self.past);
    }

    /// Asks about the last `ticks` frames of the whole fabric, with the global baseline since an instant (Unix ns).
    pub(super) fn ask_of_fabric<T>(
        &mut self,
        ticks: usize,
        baseline_from_ns: i64,
        ask: impl FnOnce(&DetectorContext<'_>) -> T,
    ) -> T {
        let baseline = self.history.baseline(&self.fabric, baseline_from_ns);
        let window = self.history.last_since(ticks, i64::MIN);
        let (slowdowns, step_s) = (SlowdownCache::new(), self.history.step_s());
        let (whole, windows) = (FaultDomain::whole(&self.fabric), [&window, &window]);
        ask(&DetectorContext::new(&self.fabric, &self.thresholds, windows, &baseline, step_s, &whole, &slowdowns))
    }

    /// Findings of one detector in a span, for some fault domains.
    pub(super) fn run(
        &self,
        cache: &EvaluationCache,
        (span, baseline, at): (Range<usize>, &Arc<Baseline>, &DomainSet),
        detector: &Detector,
    ) -> Vec<Finding> {
        let whole = DomainSet::default();
        let seen = self.evaluation(cache, span, baseline, if detector.per_fault_domain { at } else { &whole });
        let all = seen.found[row(detector)].get_or_init(|| (detector.run)(&self.context(&seen)));
        if detector.per_fault_domain {
            return all.clone();
        }
        let touched = || all.iter().map(|finding| cache.containing(finding, &self.fabric)).collect();
        let touched = seen.touched[row(detector)].get_or_init(touched);
        all.iter().zip(touched).filter(|(_, touched)| touched.meets(at)).map(|(finding, _)| finding.clone()).collect()
    }

    /// Detectors whose baseline is long enough.
    pub(super) fn ready_detectors<'a>(
        &'a self,
        baseline: &'a Baseline,
    ) -> impl Iterator<Item = &'static Detector> + 'a {
        detectors::ALL.iter().filter(|d| d.baseline_s <= 0.0 || baseline.fresh >= self.ticks(d.baseline_s))
    }

    /// Seconds in whole ticks, as nanoseconds.
    pub(super) fn nanoseconds(&self, seconds: f64) -> i64 {
        (self.ticks(seconds) as f64 * self.history.step_s() * 1e9) as i64
    }

    /// Seconds in ticks. Shorter ticks count as seconds, because simulators are fast.
    pub(super) fn ticks(&self, seconds: f64) -> usize {
        ((seconds / self.history.step_s().max(1.0)).ceil() as usize).max(LEAST)
    }

    /// Findings that `keep` accepts of the detectors that `which` accepts, each in a window of its own length that starts no
    /// earlier than an instant (Unix ns).
    pub(super) fn findings(
        &self,
        cache: &EvaluationCache,
        (baseline, since_ns, at): (&Arc<Baseline>, i64, &DomainSet),
        ticks: impl Fn(&Detector) -> usize,
        which: impl Fn(&Detector) -> bool,
        keep: impl Fn(&Finding) -> bool,
    ) -> Vec<(&'static Detector, Finding)> {
        let mut all = Vec::new();
        for (length, detectors) in self.by_length(baseline, ticks) {
            let span = self.span(length, since_ns);
            for detector in detectors.into_iter().filter(|detector| which(detector)) {
                let found = self.run(cache, (span.clone(), baseline, at), detector).into_iter();
                all.extend(found.filter(|f| keep(f)).map(|f| (detector, f)));
            }
        }
        all
    }

    pub(super) fn span(&self, (ticks, looks_back): Length, since_ns: i64) -> Range<usize> {
        self.history.span_since(ticks, if looks_back { i64::MIN } else { since_ns })
    }

    /// Detectors by the window that they need, because means of a window are computed once.
    pub(super) fn by_length(
        &self,
        baseline: &Baseline,
        ticks: impl Fn(&Detector) -> usize,
    ) -> BTreeMap<Length, Vec<&'static Detector>> {
        let mut by_length: BTreeMap<Length, Vec<_>> = BTreeMap::new();
        for detector in self.ready_detectors(baseline) {
            by_length.entry((ticks(detector), detector.looks_back)).or_default().push(detector);
        }
        by_length
    }

    /// Moves the start back if frames just before it arrived late: a finding in the quiet time before belongs to the
    /// incident.
    pub(super) fn look_before(&self, cache: &EvaluationCache, incident: &mut OpenIncident) {
        while let Some(began_ns) = self.began_before(cache, incident) {
            incident.backdate(began_ns);
        }
    }

    fn began_before(&self, cache: &EvaluationCache, incident: &OpenIncident) -> Option<i64> {
        let (begin_ns, step_ns) = (incident.begin_ns(), (self.history.step_s() * 1e9) as i64);
        let known = incident.verdict();
        // One sample next to its start is enough; for earlier ones a detector must be sure.
        let before = [(begin_ns - self.nanoseconds(QUIET_S), begin_ns), (begin_ns - step_ns, begin_ns + step_ns)];
        before.into_iter().find_map(|(from_ns, to_ns)| {
            let span = self.history.span_between(from_ns, to_ns);
            if span.len() < LEAST || !self.history.has_late_frames(span.clone(), begin_ns) {
                return None;
            }
            self.began(cache, &incident.baseline, known, span).filter(|began_ns| *began_ns < begin_ns)
        })
    }

    /// When a finding began, by the frames of a span.
    pub(super) fn began(
        &self,
        cache: &EvaluationCache,
        baseline: &Arc<Baseline>,
        finding: &Finding,
        span: Range<usize>,
    ) -> Option<i64> {
        let at = cache.containing(finding, &self.fabric);
        let all = self
            .ready_detectors(baseline)
            .flat_map(|detector| self.run(cache, (span.clone(), baseline, &at), detector));
        all.filter(|f| f.kind == finding.kind && f.root == finding.root).filter_map(|f| f.began_ns).min()
    }
}

/// Row of a detector in [`detectors::ALL`].
pub(super) fn row(detector: &Detector) -> usize {
    // Compares names, because a constant has one address per use.
    detectors::ALL.iter().position(|d| d.name == detector.name).unwrap_or_default()
}
