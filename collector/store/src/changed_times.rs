//! From which time on samples were added since an earlier moment: a result about times before is still right.

use std::collections::VecDeque;

/// Times are rounded down to this, ms, so that a stream of samples makes one entry a second.
const ROUND: i64 = 1000;
/// Most entries; without late samples, each is a second.
const ENTRIES: usize = 4096;

/// Changes of the samples, each with its number and the earliest time that it touched.
#[derive(Debug, Default)]
pub struct ChangedTimes {
    last: u64,
    /// Number and time, Unix ms; both ascend, because a change makes earlier ones of later times meaningless.
    entries: VecDeque<(u64, i64)>,
    /// Changes up to this number have no entry any more.
    forgotten: u64,
}

impl ChangedTimes {
    /// Records that samples were added or removed, the earliest at a time, Unix ms.
    pub fn record(&mut self, time: i64) {
        self.last += 1;
        let time = time.div_euclid(ROUND).saturating_mul(ROUND);
        while self.entries.back().is_some_and(|(_, later)| *later >= time) {
            self.entries.pop_back();
        }
        self.entries.push_back((self.last, time));
        if self.entries.len() > ENTRIES {
            self.forgotten = self.entries.pop_front().map_or(self.last, |(number, _)| number);
        }
    }

    /// Number of the last change.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The earliest time, Unix ms, that a change after this one touched, rounded down to a second; `i64::MAX` if there is none, and
    /// `i64::MIN` if it is not known any more.
    pub fn since(&self, number: u64) -> i64 {
        if number < self.forgotten {
            return i64::MIN;
        }
        let after = self.entries.partition_point(|(change, _)| *change <= number);
        self.entries.get(after).map_or(i64::MAX, |(_, time)| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_time_since_each_change_is_known() {
        let mut random = 7_u64;
        let (mut changed, mut all) = (ChangedTimes::default(), Vec::new());
        for _ in 0..2000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let time = (all.len() as i64) * 300 - (random >> 33) as i64 % 40_000;
            changed.record(time);
            all.push(time.div_euclid(ROUND) * ROUND);
            for number in [0, all.len() / 2, all.len() - 1, all.len()] {
                let want = all[number..].iter().min().copied().unwrap_or(i64::MAX);
                assert_eq!(changed.since(number as u64), want, "{number} of {}", all.len());
            }
        }
        assert_eq!(changed.last(), 2000);
    }

    #[test]
    fn what_is_forgotten_may_have_changed() {
        let mut changed = ChangedTimes::default();
        (0..ENTRIES as i64 + 2).for_each(|second| changed.record(second * ROUND));
        assert_eq!((changed.since(1), changed.since(2), changed.since(3)), (i64::MIN, 2 * ROUND, 3 * ROUND));
        assert_eq!(changed.entries.len(), ENTRIES);
        changed.record(i64::MIN);
        assert!(changed.since(3) < 0 && changed.entries.len() == 1);
    }
}
