//! The clock that retention measures ages by: the wall clock, except that a jump ahead is not trusted at once. A wrong
//! date for one second would otherwise expire everything. While a jump is in doubt, the trusted time is kept in the
//! database, so that a restart does not accept the jump.
//!
//! A step back expires nothing, but samples from hosts with a correct clock would be too far in the future. Until the
//! step has lasted, the future limit is measured from the time the clock would show without it.

use crate::error::StoreError;
use crate::metadata::{MetadataDb, MetadataTable};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Differences up to this, ms, are not a jump; two jumps that far apart are different jumps.
const JUMP_MS: i64 = 3_600_000;
/// Differences up to this, ms, are not a step back.
const STEP_BACK_MS: i64 = 60_000;
/// Table and key of the trusted time, Unix ms.
const TABLE: &str = "aging";
const KEY: &str = "believed";

/// The retention clock of a store.
pub struct RetentionClock {
    table: MetadataTable,
    belief: Mutex<TrustState>,
}

/// Reference times derived from the wall clock, Unix ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Sample ages are measured from here.
    pub age: i64,
    /// The future limit is measured from here.
    pub latest: i64,
    /// How far the wall clock is ahead of the trusted time, or behind it (negative), ms; 0 while it is trusted.
    pub off: i64,
}

impl RetentionClock {
    /// Starts from the trusted time of an earlier process, else from the time of the `newest` sample (both Unix ms).
    pub fn open(db: &Arc<MetadataDb>, newest: Option<i64>, hold: Duration, wall: i64) -> Result<Self, StoreError> {
        let table = db.table(TABLE);
        let kept = table.get(KEY)?.and_then(|v| v.try_into().ok()).map(i64::from_le_bytes);
        let begin = kept.or(newest).map_or(wall, |believed| believed.min(wall));
        let line = Anchor { wall: begin, at: Instant::now() };
        Ok(Self { table, belief: Mutex::new(TrustState { hold, line, leap: None, back: None }) })
    }

    /// The reference times now; `wall` is the wall clock, Unix ms.
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
                "clock was set back; until the hold time has passed, samples up to the previous time are accepted"
            );
        }
        let noted = match (before.0, after.0) {
            (false, true) => {
                let hours = wall.saturating_sub(times.age) / JUMP_MS;
                tracing::warn!(
                    hours,
                    hold = ?belief.hold,
                    "clock jumped ahead of the newest samples; retention by age is paused until the hold time has passed"
                );
                self.table.put(KEY, times.age.to_le_bytes())
            }
            (true, false) => {
                tracing::info!("clock is trusted again; retention by age resumes");
                self.table.remove(KEY)
            }
            _ => Ok(()),
        };
        if let Err(error) = noted {
            tracing::warn!(%error, "cannot store the trusted time; a restart would accept the jumped clock");
        }
        times
    }
}

/// A wall time that advances with the monotonic clock.
#[derive(Clone, Copy)]
struct Anchor {
    wall: i64,
    at: Instant,
}

impl Anchor {
    fn at(&self, now: Instant) -> i64 {
        self.wall.saturating_add(crate::options::millis(now.saturating_duration_since(self.at)))
    }
}

struct TrustState {
    /// A jump that lasts this long is accepted.
    hold: Duration,
    line: Anchor,
    /// The wall clock since it jumped ahead.
    leap: Option<Anchor>,
    /// The time without the step back, and when that happened.
    back: Option<(Anchor, Instant)>,
}

impl TrustState {
    fn times(&mut self, wall: i64, now: Instant) -> Times {
        if let Some((line, _)) =
            self.back.filter(|(line, _)| line.at(now).abs_diff(wall) <= STEP_BACK_MS.unsigned_abs())
        {
            // The step back was undone: the time before it was trusted.
            (self.line, self.back) = (line, None);
        }
        let before = self.line.at(now);
        let age = self.age(wall, now);
        if wall < before.saturating_sub(STEP_BACK_MS) {
            self.back.get_or_insert((Anchor { wall: before, at: now }, now));
        }
        let lasts = |(line, since): &mut (Anchor, Instant)| {
            now.saturating_duration_since(*since) < self.hold && wall < line.at(now).saturating_sub(STEP_BACK_MS)
        };
        self.back = self.back.take_if(lasts);
        let latest = self.back.map_or(wall, |(line, _)| line.at(now));
        let off = if age < wall { wall.saturating_sub(age) } else { wall.saturating_sub(latest) };
        Times { age, latest, off }
    }

    fn age(&mut self, wall: i64, now: Instant) -> i64 {
        let (believed, said) = (self.line.at(now), Anchor { wall, at: now });
        if wall.saturating_sub(believed) > JUMP_MS {
            let same = |leap: &Anchor| leap.at(now).abs_diff(wall) <= JUMP_MS.unsigned_abs();
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

    const DAY: i64 = 24 * JUMP_MS;
    const HOUR: Duration = Duration::from_secs(3600);

    /// Starts at 0 ms and feeds (second, ms ahead of real time) pairs. Returns, relative to real time, what age and
    /// future are measured from, and the offset.
    fn says(steps: &[(u64, i64)]) -> Vec<[i64; 3]> {
        let at = Instant::now();
        let mut belief = TrustState { hold: HOUR, line: Anchor { wall: 0, at }, leap: None, back: None };
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
    fn a_jump_ahead_is_accepted_after_an_hour() {
        let year = 365 * DAY;
        assert_eq!(ages(&[(1, year), (2, year), (3600, year), (3601, year)]), [0, 0, 0, year]);
        assert_eq!(ages(&[(1, year), (2, 0), (3601, year), (7200, year)]), [0; 4], "undone before the hold time");
        assert_eq!(ages(&[(1, year), (3600, 2 * year), (3601, 2 * year), (7200, 2 * year)]), [0, 0, 0, 2 * year]);
    }

    #[test]
    fn drift_and_small_steps_are_followed_at_once() {
        assert_eq!(ages(&[(1, 5), (2, JUMP_MS), (3, JUMP_MS + 5), (4, -DAY)]), [5, JUMP_MS, JUMP_MS + 5, -DAY]);
        assert_eq!(ages(&[(1, 0), (4, -DAY), (5, 0), (6, -DAY), (7, DAY)]), [0, -DAY, 0, -DAY, -DAY], "there and back");
    }

    #[test]
    fn a_step_back_keeps_the_future_limit_for_an_hour() {
        let latest = |steps| says(steps).iter().map(|times| times[1]).collect::<Vec<_>>();
        assert_eq!(latest(&[(1, 0), (2, -DAY), (3, -DAY), (3601, -DAY), (3602, -DAY)]), [0, 0, 0, 0, -DAY]);
        assert_eq!(latest(&[(1, 0), (2, -DAY), (3, 0), (4, 5)]), [0, 0, 0, 5], "step undone");
        assert_eq!(
            latest(&[(1, 0), (2, -STEP_BACK_MS), (3, -2 * STEP_BACK_MS)]),
            [0, -STEP_BACK_MS, -2 * STEP_BACK_MS],
            "drift"
        );
        assert_eq!(latest(&[(1, 365 * DAY), (2, 0)]), [365 * DAY, 0], "a doubted jump that is undone is no step back");
    }

    #[test]
    fn offset_is_reported_while_in_doubt() {
        let off = |steps| says(steps).iter().map(|times| times[2]).collect::<Vec<_>>();
        assert_eq!(off(&[(1, 0), (2, DAY), (3, 0), (4, -DAY), (5, 0)]), [0, DAY, 0, -DAY, 0]);
        assert_eq!(off(&[(1, DAY), (3601, DAY), (3602, DAY)]), [DAY, 0, 0]);
    }
}
