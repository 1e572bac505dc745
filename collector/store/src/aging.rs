//! The time by which samples are too old: the wall clock, but a leap of it ahead is not believed at once. One second of a
//! wrong date would else remove everything. What was believed while a leap is in doubt is kept in the database, so that a
//! restart does not take the leap for the truth.

use crate::error::StoreError;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Less than this, ms, is no leap; as far apart are two leaps.
const LEAP: i64 = 3_600_000;
/// Table and key of what was believed, Unix ms.
const TABLE: &str = "aging";
const KEY: &str = "believed";

/// See the module.
pub struct Aging {
    tree: sled::Tree,
    belief: Mutex<Belief>,
}

impl Aging {
    /// Begins with what an earlier process believed, else with the time of the `newest` sample, both Unix ms.
    pub fn open(db: &sled::Db, newest: Option<i64>, hold: Duration, wall: i64) -> Result<Self, StoreError> {
        let tree = db.open_tree(TABLE).map_err(failed)?;
        let kept = tree.get(KEY).map_err(failed)?;
        let kept = kept.and_then(|v| v.as_ref().try_into().ok()).map(i64::from_le_bytes);
        let begin = kept.or(newest).map_or(wall, |believed| believed.min(wall));
        let line = Line { wall: begin, at: Instant::now() };
        Ok(Self { tree, belief: Mutex::new(Belief { hold, line, leap: None }) })
    }

    /// The time to measure age by, Unix ms; `wall` is what the clock says.
    pub fn now(&self, wall: i64) -> i64 {
        let mut belief = self.belief.lock();
        let before = belief.leap.is_some();
        let now = belief.now(wall, Instant::now());
        let noted = match (before, belief.leap.is_some()) {
            (false, true) => {
                let hours = wall.saturating_sub(now) / LEAP;
                tracing::warn!(
                    hours,
                    hold = ?belief.hold,
                    "the clock is ahead of the newest samples or leapt ahead; until it has been so for a while, nothing \
                     is removed for its age"
                );
                self.tree.insert(KEY, &now.to_le_bytes()).map(drop)
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
        now
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
}

impl Belief {
    fn now(&mut self, wall: i64, now: Instant) -> i64 {
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

    /// A belief that begins at 0 ms, and what it says of a wall clock so far ahead after so many seconds.
    fn says(steps: &[(u64, i64)]) -> Vec<i64> {
        let at = Instant::now();
        let mut belief = Belief { hold: HOUR, line: Line { wall: 0, at }, leap: None };
        let off = |(second, ahead): &(u64, i64)| {
            let real = *second as i64 * 1000;
            belief.now(real + ahead, at + Duration::from_secs(*second)) - real
        };
        steps.iter().map(off).collect()
    }

    #[test]
    fn a_leap_ahead_is_believed_when_it_has_lasted_an_hour() {
        let year = 365 * DAY;
        assert_eq!(says(&[(1, year), (2, year), (3600, year), (3601, year)]), [0, 0, 0, year]);
        assert_eq!(says(&[(1, year), (2, 0), (3601, year), (7200, year)]), [0; 4], "undone in between");
        assert_eq!(says(&[(1, year), (3600, 2 * year), (3601, 2 * year), (7200, 2 * year)]), [0, 0, 0, 2 * year]);
    }

    #[test]
    fn drift_small_steps_and_steps_back_are_followed_at_once() {
        assert_eq!(says(&[(1, 5), (2, LEAP), (3, LEAP + 5), (4, -DAY), (5, 0)]), [5, LEAP, LEAP + 5, -DAY, -DAY]);
    }
}
