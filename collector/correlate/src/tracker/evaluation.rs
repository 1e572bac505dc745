//! What all detectors find: each in a stretch of its own length, if enough is known of what is usual.

use super::episode::Episode;
use super::{LEAST, Length, QUIET_S, Watch};
use crate::detect::{self, Detector};
use crate::district::{District, Districts, Touched};
use crate::fabric::Fabric;
use crate::finding::Finding;
use crate::history::Stretch;
use crate::scene::{Fares, Scene};
use crate::usual::Usual;
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Frames, and the address of what is usual.
type Beside = (Range<usize>, *const Usual);

/// What was worked out at one look at the frames. Incidents that are judged at it ask for much of the same: what all
/// detectors find in the last seconds, beside what is usual for all of them.
#[derive(Default)]
pub(super) struct Looked {
    pub districts: Districts,
    stretches: RefCell<HashMap<Range<usize>, Arc<Stretch>>>,
    fares: RefCell<HashMap<Beside, Rc<Fares>>>,
    seen: RefCell<HashMap<(Beside, *const District), Rc<Seen>>>,
}

impl Looked {
    /// By the parts of the fabric.
    pub fn of(districts: Districts) -> Self {
        Self { districts, ..Self::default() }
    }

    /// Parts of the fabric that a finding touches.
    pub fn touched(&self, finding: &Finding, fabric: &Fabric) -> Touched {
        self.districts.touched(finding.ports(fabric))
    }
}

/// A stretch beside what is usual, and what was found there.
pub(super) struct Seen {
    pub now: Arc<Stretch>,
    /// All that is known of what was, for who was first.
    past: Arc<Stretch>,
    /// Also so that no other can have its address.
    usual: Arc<Usual>,
    district: Arc<District>,
    fares: Rc<Fares>,
    found: [OnceCell<Vec<Finding>>; detect::ALL.len()],
}

impl Watch {
    /// A stretch beside what is usual, in some parts of the fabric.
    pub(super) fn see(&self, looked: &Looked, span: Range<usize>, usual: &Arc<Usual>, at: &Touched) -> Rc<Seen> {
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
        let seen = || Seen {
            now: stretch(span.clone()),
            past: stretch(self.history.span_since(usize::MAX, i64::MIN)),
            usual: usual.clone(),
            district: district.clone(),
            fares: fares(),
            found: [const { OnceCell::new() }; detect::ALL.len()],
        };
        let key = (beside.clone(), Arc::as_ptr(&district));
        looked.seen.borrow_mut().entry(key).or_insert_with(|| Rc::new(seen())).clone()
    }

    pub(super) fn scene<'a>(&'a self, seen: &'a Seen) -> Scene<'a> {
        let stretches = [&*seen.now, &*seen.past];
        let step_s = self.history.step_s();
        Scene::new(&self.fabric, &self.limits, stretches, &seen.usual, step_s, &seen.district, &seen.fares)
    }

    /// What a detector finds in a stretch that touches some parts of the fabric.
    pub(super) fn found(
        &self,
        looked: &Looked,
        (span, usual, at): (Range<usize>, &Arc<Usual>, &Touched),
        detector: &Detector,
    ) -> Vec<Finding> {
        let found = |at: &Touched, keep: &dyn Fn(&&Finding) -> bool| {
            let seen = self.see(looked, span, usual, at);
            let all = seen.found[row(detector)].get_or_init(|| (detector.run)(&self.scene(&seen)));
            all.iter().filter(keep).cloned().collect()
        };
        if detector.by_district {
            return found(at, &|_| true);
        }
        found(&Touched::default(), &|finding| looked.touched(finding, &self.fabric).meets(at))
    }

    /// Detectors for which enough is known of what is usual.
    pub(super) fn able<'a>(&'a self, usual: &'a Usual) -> impl Iterator<Item = &'static Detector> + 'a {
        detect::ALL.iter().filter(|d| d.usual_s <= 0.0 || usual.fresh >= self.ticks(d.usual_s))
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
        looked: &Looked,
        (usual, since_ns, at): (&Arc<Usual>, i64, &Touched),
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
        usual: &Usual,
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
    pub(super) fn look_before(&self, looked: &Looked, episode: &mut Episode) {
        while let Some(began_ns) = self.began_before(looked, episode) {
            episode.begins(began_ns);
        }
    }

    fn began_before(&self, looked: &Looked, episode: &Episode) -> Option<i64> {
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
        looked: &Looked,
        usual: &Arc<Usual>,
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
    detect::ALL.iter().position(|d| d.name == detector.name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Ports;
    use crate::history::Frame;
    use crate::limits::Limits;
    use crate::signal::Signal;
    use crate::topology::Topology;

    /// Twelve hosts, some of which pause their switch for the last seconds, and what was worked out at the last look.
    fn look(paused: usize) -> (Watch, Looked) {
        let mut watch = Watch::new(Fabric::new(Topology::default(), Ports::default(), Vec::new()), Limits::default());
        let ports: Vec<usize> = (0..12).filter_map(|h| watch.measured_port(&format!("h{h}"), "mlx5_0/1")).collect();
        let mut looked = watch.look();
        for second in 0..96 {
            let mut frame = Frame::new(second * 1_000_000_000);
            for port in &ports {
                let pauses = second >= 80 && *port < paused;
                let told = [
                    (Signal::Tx, 4e9),
                    (Signal::Rx, 4e9),
                    (Signal::Rate, 12.5e9),
                    (Signal::Up, 1.0),
                    (Signal::PauseTx, if pauses { 0.5 } else { 0.0 }),
                    (Signal::PauseFrames, if pauses { 12_000.0 } else { 0.0 }),
                    (Signal::QueueMax, if pauses { 3e5 } else { 0.0 }),
                ];
                told.iter().for_each(|(signal, value)| frame.set(*signal, *port, *value));
            }
            watch.push(frame);
            looked = watch.look();
            watch.judge_by(&looked);
        }
        (watch, looked)
    }

    #[test]
    fn incidents_of_one_time_need_no_more_than_one_of_them() {
        let ((one, of_one), (many, of_many)) = (look(1), look(8));
        assert_eq!((one.open.len(), many.open.len()), (1, 8));
        let worked_out = |looked: &Looked| (looked.stretches.borrow().len(), looked.seen.borrow().len());
        assert_eq!(worked_out(&of_one), worked_out(&of_many));
    }

    #[test]
    fn what_was_found_once_is_what_is_found_again() {
        let (watch, looked) = look(2);
        let seen = looked.seen.borrow();
        let found = seen.values().flat_map(|seen| detect::ALL.iter().zip(&seen.found).map(move |(d, f)| (seen, d, f)));
        let mut findings = 0;
        for (seen, detector, kept) in found.filter_map(|(seen, d, kept)| Some((seen, d, kept.get()?))) {
            let fares = Fares::new();
            let usual = &*seen.usual;
            let scene = Scene::new(
                &watch.fabric,
                &watch.limits,
                [&seen.now, &seen.past],
                usual,
                watch.history.step_s(),
                &seen.district,
                &fares,
            );
            assert_eq!(format!("{kept:?}"), format!("{:?}", (detector.run)(&scene)), "{}", detector.name);
            findings += kept.len();
        }
        assert!(findings > 2, "{findings}");
    }
}
