//! The time by which things are too old, whether samples or what is beside them: the wall clock, but a leap of it ahead is
//! not believed at once. One second of a wrong date would else remove everything. What was believed while a leap is in
//! doubt is kept in the database, so that a restart does not take the leap for the truth.
//!
//! A step back removes nothing. But samples of others, whose clocks are right, would all be too far in the future: for as
//! long as a leap is doubted, they are measured by what the clock would say now.

use crate::error::StoreError;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Less than this, ms, is no leap; as far apart are two leaps.
const LEAP: i64 = 3_600_000;
/// Less than this, ms, is no step back.
const BACK: i64 = 60_000;
/// Table and key of what was believed, Unix ms.
const TABLE: &str = "aging";
const KEY: &str = "believed";

/// See the module.
pub struct Aging {
    tree: sled::Tree,
    belief: Mutex<Belief>,
}

/// What the clock is taken for, Unix ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// What is old is measured from here.
    pub age: i64,
    /// What is in the future is measured from here.
    pub latest: i64,
    /// How far the clock is ahead of what is believed, or behind it (negative); 0 while it is believed.
    pub off: i64,
}

impl Aging {
    /// Begins with what an earlier process believed, else with the time of the `newest` sample, both Unix ms.
    pub fn open(db: &sled::Db, newest: Option<i64>, hold: Duration, wall: i64) -> Result<Self, StoreError> {
        let tree = db.open_tree(TABLE).map_err(failed)?;
        let kept = tree.get(KEY).map_err(failed)?;
        let kept = kept.and_then(|v| v.as_ref().try_into().ok()).map(i64::from_le_bytes);
        let begin = kept.or(newest).map_or(wall, |believed| believed.min(wall));
        let line = Line { wall: begin, at: Instant::now() };
        Ok(Self { tree, belief: Mutex::new(Belief { hold, line, leap: None, back: None }) })
    }

    /// The times to measure by; `wall` is what the clock says, Unix ms.
    pub fn times(&self, wall: i64) -> Times {
        let mut belief = self.belief.lock();
        let before = (belief.leap.is_some(), belief.back.is_some());
        let times = belief.times(wall, Instant::now());
        let after = (belief.leap.is_some(), belief.back.is_some());
        if after.1 && !before.1 {
            let seconds = times.latest.saturating_sub(wall) / 1000;
            tracing::warn!(
                seconds,
                hold = ?belief.hold,
                "the clock was set back; until it has been so for a while, samples are taken up to where it was"
            );
        }
        let noted = match (before.0, after.0) {
            (false, true) => {
                let hours = wall.saturating_sub(times.age) / LEAP;
                tracing::warn!(
                    hours,
                    hold = ?belief.hold,
                    "the clock is ahead of the newest samples or leapt ahead; until it has been so for a while, nothing \
                     is removed for its age"
                );
                self.tree.insert(KEY, &times.age.to_le_bytes()).map(drop)
            }
            (true, false) => {
                tracing::info!("the clock is believed again; retention by age goes on");
                self.tree.remove(KEY).map(drop)
            }
            _ => Ok(()),
        };
        if let Err(error) = noted {
            tracing::warn!(%error, "a restart would believe the clock at once");
        }
        times
    }
}

fn failed(e: sled::Error) -> StoreError {
    StoreError::Metadata(e.to_string())
}

/// A wall time that goes on with the monotonic clock.
#[derive(Clone, Copy)]
struct Line {
    wall: i64,
    at: Instant,
}

impl Line {
    fn at(&self, now: Instant) -> i64 {
        self.wall.saturating_add(crate::options::millis(now.saturating_duration_since(self.at)))
    }
}

struct Belief {
    /// A leap that lasts so long is the truth.
    hold: Duration,
    line: Line,
    /// What the wall clock says since it leapt.
    leap: Option<Line>,
    /// What it would say, had it not been set back; and when that was.
    back: Option<(Line, Instant)>,
}

impl Belief {
    fn times(&mut self, wall: i64, now: Instant) -> Times {
        if let Some((line, _)) = self.back.filter(|(line, _)| line.at(now).abs_diff(wall) <= BACK.unsigned_abs()) {
            // It goes on where it was, and that was believed.
            (self.line, self.back) = (line, None);
        }
        let before = self.line.at(now);
        let age = self.age(wall, now);
        if wall < before.saturating_sub(BACK) {
            self.back.get_or_insert((Line { wall: before, at: now }, now));
        }
        let lasts = |(line, since): &mut (Line, Instant)| {
            now.saturating_duration_since(*since) < self.hold && wall < line.at(now).saturating_sub(BACK)
        };
        self.back = self.back.take_if(lasts);
        let latest = self.back.map_or(wall, |(line, _)| line.at(now));
        let off = if age < wall { wall.saturating_sub(age) } else { wall.saturating_sub(latest) };
        Times { age, latest, off }
    }

    fn age(&mut self, wall: i64, now: Instant) -> i64 {
        let (believed, said) = (self.line.at(now), Line { wall, at: now });
        if wall.saturating_sub(believed) > LEAP {
            let same = |leap: &Line| leap.at(now).abs_diff(wall) <= LEAP.unsigned_abs();
            let leap = *self.leap.take_if(|leap| same(leap)).get_or_insert(said);
            if now.saturating_duration_since(leap.at) < self.hold {
                self.leap = Some(leap);
                return believed;
            }
        }
        (self.line, self.leap) = (said, None);
        wall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * LEAP;
    const HOUR: Duration = Duration::from_secs(3600);

    /// A belief that begins at 0 ms, and what it says of a wall clock so far ahead after so many seconds: beside the real
    /// time, what age and future are measured from, and how far off the clock is.
    fn says(steps: &[(u64, i64)]) -> Vec<[i64; 3]> {
        let at = Instant::now();
        let mut belief = Belief { hold: HOUR, line: Line { wall: 0, at }, leap: None, back: None };
        let off = |(second, ahead): &(u64, i64)| {
            let real = *second as i64 * 1000;
            let times = belief.times(real + ahead, at + Duration::from_secs(*second));
            [times.age - real, times.latest - real, times.off]
        };
        steps.iter().map(off).collect()
    }

    fn ages(steps: &[(u64, i64)]) -> Vec<i64> {
        says(steps).iter().map(|times| times[0]).collect()
    }

    #[test]
    fn a_leap_ahead_is_believed_when_it_has_lasted_an_hour() {
        let year = 365 * DAY;
        assert_eq!(ages(&[(1, year), (2, year), (3600, year), (3601, year)]), [0, 0, 0, year]);
        assert_eq!(ages(&[(1, year), (2, 0), (3601, year), (7200, year)]), [0; 4], "undone in between");
        assert_eq!(ages(&[(1, year), (3600, 2 * year), (3601, 2 * year), (7200, 2 * year)]), [0, 0, 0, 2 * year]);
    }

    #[test]
    fn drift_small_steps_and_steps_back_are_followed_at_once() {
        assert_eq!(ages(&[(1, 5), (2, LEAP), (3, LEAP + 5), (4, -DAY)]), [5, LEAP, LEAP + 5, -DAY]);
        assert_eq!(ages(&[(1, 0), (4, -DAY), (5, 0), (6, -DAY), (7, DAY)]), [0, -DAY, 0, -DAY, -DAY], "there and back");
    }

    #[test]
    fn a_clock_that_is_set_back_makes_nobody_too_early_until_it_has_lasted_an_hour() {
        let latest = |steps| says(steps).iter().map(|times| times[1]).collect::<Vec<_>>();
        assert_eq!(latest(&[(1, 0), (2, -DAY), (3, -DAY), (3601, -DAY), (3602, -DAY)]), [0, 0, 0, 0, -DAY]);
        assert_eq!(latest(&[(1, 0), (2, -DAY), (3, 0), (4, 5)]), [0, 0, 0, 5], "it is right again");
        assert_eq!(latest(&[(1, 0), (2, -BACK), (3, -2 * BACK)]), [0, -BACK, -2 * BACK], "it drifts");
        assert_eq!(latest(&[(1, 365 * DAY), (2, 0)]), [365 * DAY, 0], "what was in doubt is not believed behind it");
    }

    #[test]
    fn how_far_off_it_is_is_told_while_it_is_not_believed() {
        let off = |steps| says(steps).iter().map(|times| times[2]).collect::<Vec<_>>();
        assert_eq!(off(&[(1, 0), (2, DAY), (3, 0), (4, -DAY), (5, 0)]), [0, DAY, 0, -DAY, 0]);
        assert_eq!(off(&[(1, DAY), (3601, DAY), (3602, DAY)]), [DAY, 0, 0]);
    }
}
