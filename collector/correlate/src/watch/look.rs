//! What all detectors find: each in a stretch of its own length, if enough is known of what is usual.

use super::{LEAST, Length, Watch};
use crate::detect;
use crate::finding::Finding;
use crate::history::Stretch;
use crate::scene::Scene;
use crate::usual::Usual;
use std::collections::BTreeMap;

impl Watch {
    pub(super) fn scene<'a>(&'a self, usual: &'a Usual, now: &'a Stretch) -> Scene<'a> {
        Scene::new(&self.fabric, &self.limits, now, usual, self.history.step_s())
    }

    /// All that is known of what was, for who was first.
    pub(super) fn past(&self) -> Stretch {
        self.history.last_since(usize::MAX, i64::MIN)
    }

    /// Detectors for which enough is known of what is usual.
    pub(super) fn able<'a>(&'a self, usual: &'a Usual) -> impl Iterator<Item = &'static detect::Detector> + 'a {
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

    /// What all detectors find, each in a stretch of its own length that does not begin before an instant (Unix ns).
    pub(super) fn findings(
        &self,
        usual: &Usual,
        ticks: impl Fn(&detect::Detector) -> usize,
        since_ns: i64,
    ) -> impl Iterator<Item = Finding> {
        let run = move |(length, detectors): (Length, Vec<&'static detect::Detector>)| {
            let now = self.stretch(length, since_ns);
            let scene = self.scene(usual, &now).after(self.past());
            detectors.into_iter().flat_map(|d| (d.run)(&scene)).collect::<Vec<_>>()
        };
        self.by_length(usual, ticks).into_iter().flat_map(run)
    }

    pub(super) fn stretch(&self, (ticks, looks_back): Length, since_ns: i64) -> Stretch {
        self.history.last_since(ticks, if looks_back { i64::MIN } else { since_ns })
    }

    /// Detectors by the stretch that they need, because means over one are worked out once.
    pub(super) fn by_length(
        &self,
        usual: &Usual,
        ticks: impl Fn(&detect::Detector) -> usize,
    ) -> BTreeMap<Length, Vec<&'static detect::Detector>> {
        let mut by_length: BTreeMap<Length, Vec<_>> = BTreeMap::new();
        for detector in self.able(usual) {
            by_length.entry((ticks(detector), detector.looks_back)).or_default().push(detector);
        }
        by_length
    }
}
