//! Where all is calm, and since when: trouble in one part of the fabric bends nothing in another.

use super::episode::Episode;
use super::look::Looked;
use super::{HEARD_S, SETTLE_S, Watch};
use crate::district::{Districts, Touched};
use crate::finding::Finding;

/// Incidents that are over and still tell since when all is usual at their places: of each, minutes.
const ENDED: usize = 256;

impl Watch {
    /// Nothing is worked out yet but the parts of the fabric.
    pub(super) fn look(&mut self) -> Looked {
        let usual = self.history.usual(&self.fabric, self.calm_ns);
        let now = self.history.last_since(self.ticks(HEARD_S), i64::MIN);
        Looked::of(Districts::of(&self.fabric, &self.limits, &now, &usual))
    }

    /// Parts of the fabric that an incident touches.
    pub(super) fn touched(&self, looked: &Looked, episode: &Episode) -> Touched {
        looked.touched(episode.verdict(), &self.fabric)
    }

    /// When the last incident that touched these parts was over, Unix ns.
    pub(super) fn over_ns(&self, looked: &Looked, at: &Touched) -> i64 {
        let here = self.ended.iter().rev().find(|(ports, _)| looked.districts.touched(ports.iter().copied()).meets(at));
        here.map_or(i64::MIN, |(_, over_ns)| *over_ns)
    }

    /// Notes where it was, and tells which parts of the fabric are calm from now on.
    pub(super) fn is_over(&mut self, looked: &Looked, episode: &Episode) -> Touched {
        let Finding { kind, root, .. } = episode.verdict();
        if kind.bends() && !self.fabric.is_reboot(*kind, root) {
            let now_ns = self.history.now_ns();
            self.calm_ns = now_ns + (SETTLE_S * 1e9) as i64;
            self.ended.push_back((episode.verdict().ports(&self.fabric), now_ns));
            if self.ended.len() > ENDED {
                self.ended.pop_front();
            }
        }
        self.touched(looked, episode)
    }

    /// Since when all of these are a part of what is usual, and not before `calm_ns`; Unix ns.
    pub(super) fn straight_ns<'a>(&self, open: impl Iterator<Item = &'a Episode>, calm_ns: i64) -> i64 {
        let standing = |e: &Episode| e.start_ns.saturating_add((self.stands_s(e.verdict()) * 1e9) as i64);
        open.filter(|e| e.verdict().kind.bends()).map(standing).fold(calm_ns, i64::max)
    }
}
