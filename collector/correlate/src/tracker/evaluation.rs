//! What all detectors find: each in a stretch of its own length, if enough is known of what is usual.

use crate::tracker::timing::{LEAST, QUIET_S};
use crate::tracker::open_incident::OpenIncident;
use crate::detectors::detector::Detector;
use crate::detectors;
use crate::detectors::fault_domain::{DomainSet, FaultDomain};
use crate::detectors::fault_partition::FaultDomains;
use crate::baseline::history::History;
use crate::detectors::thresholds::Thresholds;
use crate::model::fabric::Fabric;
use crate::model::finding::Finding;
use crate::baseline::window::Window;
use crate::detectors::context::{SlowdownCache, DetectorContext};
use crate::baseline::reference::Baseline;
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Ticks of a window, and whether it may begin before the incident.
pub(super) type Length = (usize, bool);

/// What detectors are run on.
pub(super) struct Evaluator {
    pub fabric: Fabric,
    pub thresholds: Thresholds,
    pub history: History,
}

/// Frames, and the address of what is usual.
type Beside = (Range<usize>, *const Baseline);

/// What was worked out at one look at the frames. Incidents that are judged at it ask for much of the same: what all
/// detectors find in the last seconds, beside what is usual for all of them.
#[derive(Default)]
pub(super) struct EvaluationCache {
    pub districts: FaultDomains,
    pub(super) stretches: RefCell<HashMap<Range<usize>, Arc<Window>>>,
    fares: RefCell<HashMap<Beside, Rc<SlowdownCache>>>,
    pub(super) seen: RefCell<HashMap<(Beside, *const FaultDomain), Rc<Evaluation>>>,
}

impl EvaluationCache {
    /// By the parts of the fabric.
    pub fn of(districts: FaultDomains) -> Self {
        Self { districts, ..Self::default() }
    }

    /// Parts of the fabric that a finding touches.
    pub fn touched(&self, finding: &Finding, fabric: &Fabric) -> DomainSet {
        self.districts.touched(finding.ports(fabric))
    }
}

/// A stretch beside what is usual, and what was found there.
pub(super) struct Evaluation {
    pub now: Arc<Window>,
    /// All that is known of what was, for who was first.
    pub past: Arc<Window>,
    /// Also so that no other can have its address.
    pub usual: Arc<Baseline>,
    pub district: Arc<FaultDomain>,
    fares: Rc<SlowdownCache>,
    pub(super) found: [OnceCell<Vec<Finding>>; detectors::ALL.len()],
}

impl Evaluator {
    /// A stretch beside what is usual, in some parts of the fabric.
    pub(super) fn see(&self, looked: &EvaluationCache, span: Range<usize>, usual: &Arc<Baseline>, at: &DomainSet) -> Rc<Evaluation> {
        let (beside, district) = ((span.clone(), Arc::as_ptr(usual)), looked.districts.together(at));
        let fares = || looked.fares.borrow_mut().entry(beside.clone()).or_default().clone();
        let stretch = |span: Range<usize>| {
            let mut known = looked.stretches.borrow_mut();
            // What is known of its last frames need not be added up again.
            let ends = known.iter().filter(|(other, _)| other.end == span.end && other.start > span.start);
            let end = ends.min_by_key(|(other, _)| other.start).map(|(_, end)| end.clone());
            let new = || Arc::new(self.history.stretch(span.clone()).ends_with(end));
            known.entry(span.clone()).or_insert_with(new).clone()
        };
        let seen = || Evaluation {
            now: stretch(span.clone()),
            past: stretch(self.history.span_since(usize::MAX, i64::MIN)),
            usual: usual.clone(),
            district: district.clone(),
            fares: fares(),
            found: [const { OnceCell::new() }; detectors::ALL.len()],
        };
        let key = (beside.clone(), Arc::as_ptr(&district));
        looked.seen.borrow_mut().entry(key).or_insert_with(|| Rc::new(seen())).clone()
    }

    pub(super) fn scene<'a>(&'a self, seen: &'a Evaluation) -> DetectorContext<'a> {
        let stretches = [&*seen.now, &*seen.past];
        let step_s = self.history.step_s();
        DetectorContext::new(&self.fabric, &self.thresholds, stretches, &seen.usual, step_s, &seen.district, &seen.fares)
    }

    /// What a detector finds in a stretch that touches some parts of the fabric.
    pub(super) fn found(
        &self,
        looked: &EvaluationCache,
        (span, usual, at): (Range<usize>, &Arc<Baseline>, &DomainSet),
        detector: &Detector,
    ) -> Vec<Finding> {
        let found = |at: &DomainSet, keep: &dyn Fn(&&Finding) -> bool| {
            let seen = self.see(looked, span, usual, at);
            let all = seen.found[row(detector)].get_or_init(|| (detector.run)(&self.scene(&seen)));
            all.iter().filter(keep).cloned().collect()
        };
        if detector.per_fault_domain {
            return found(at, &|_| true);
        }
        found(&DomainSet::default(), &|finding| looked.touched(finding, &self.fabric).meets(at))
    }

    /// Detectors for which enough is known of what is usual.
    pub(super) fn able<'a>(&'a self, usual: &'a Baseline) -> impl Iterator<Item = &'static Detector> + 'a {
        detectors::ALL.iter().filter(|d| d.baseline_s <= 0.0 || usual.fresh >= self.ticks(d.baseline_s))
    }

    /// The same as time.
    pub(super) fn nanoseconds(&self, seconds: f64) -> i64 {
        (self.ticks(seconds) as f64 * self.history.step_s() * 1e9) as i64
    }

    /// So many seconds in ticks. Ticks of less than a second count as seconds: simulators are fast.
    pub(super) fn ticks(&self, seconds: f64) -> usize {
        ((seconds / self.history.step_s().max(1.0)).ceil() as usize).max(LEAST)
    }

    /// What all detectors find and `keep` lets pass, each in a stretch of its own length that does not begin before an instant
    /// (Unix ns).
    pub(super) fn findings(
        &self,
        looked: &EvaluationCache,
        (usual, since_ns, at): (&Arc<Baseline>, i64, &DomainSet),
        ticks: impl Fn(&Detector) -> usize,
        keep: impl Fn(&Finding) -> bool,
    ) -> Vec<Finding> {
        let mut all = Vec::new();
        for (length, detectors) in self.by_length(usual, ticks) {
            let span = self.span(length, since_ns);
            let found = detectors.into_iter().flat_map(|d| self.found(looked, (span.clone(), usual, at), d));
            all.extend(found.filter(|f| keep(f)));
        }
        all
    }

    pub(super) fn span(&self, (ticks, looks_back): Length, since_ns: i64) -> Range<usize> {
        self.history.span_since(ticks, if looks_back { i64::MIN } else { since_ns })
    }

    /// Detectors by the stretch that they need, because means over one are worked out once.
    pub(super) fn by_length(
        &self,
        usual: &Baseline,
        ticks: impl Fn(&Detector) -> usize,
    ) -> BTreeMap<Length, Vec<&'static Detector>> {
        let mut by_length: BTreeMap<Length, Vec<_>> = BTreeMap::new();
        for detector in self.able(usual) {
            by_length.entry((ticks(detector), detector.looks_back)).or_default().push(detector);
        }
        by_length
    }

    /// Where frames of just before its begin came late, it may have begun in these: what is found within the time in which
    /// it would not have been over is of it.
    pub(super) fn look_before(&self, looked: &EvaluationCache, episode: &mut OpenIncident) {
        while let Some(began_ns) = self.began_before(looked, episode) {
            episode.begins(began_ns);
        }
    }

    fn began_before(&self, looked: &EvaluationCache, episode: &OpenIncident) -> Option<i64> {
        let (begin_ns, step_ns) = (episode.begin_ns(), (self.history.step_s() * 1e9) as i64);
        let known = episode.verdict();
        // One sample that is next to its first is enough, of others a detector must be sure.
        let before = [(begin_ns - self.nanoseconds(QUIET_S), begin_ns), (begin_ns - step_ns, begin_ns + step_ns)];
        before.into_iter().find_map(|(from_ns, to_ns)| {
            let span = self.history.span_between(from_ns, to_ns);
            if span.len() < LEAST || !self.history.came_late(span.clone(), begin_ns) {
                return None;
            }
            self.began(looked, &episode.usual, known, span).filter(|began_ns| *began_ns < begin_ns)
        })
    }

    /// When it began, by the frames of a span.
    pub(super) fn began(
        &self,
        looked: &EvaluationCache,
        usual: &Arc<Baseline>,
        finding: &Finding,
        span: Range<usize>,
    ) -> Option<i64> {
        let at = looked.touched(finding, &self.fabric);
        let all = self.able(usual).flat_map(|detector| self.found(looked, (span.clone(), usual, &at), detector));
        all.filter(|f| f.kind == finding.kind && f.root == finding.root).filter_map(|f| f.began_ns).min()
    }
}

/// Which of all detectors it is.
pub(super) fn row(detector: &Detector) -> usize {
    // Not by address: a constant has as many as it has users.
    detectors::ALL.iter().position(|d| d.name == detector.name).unwrap_or_default()
}
