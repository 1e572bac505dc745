//! Time stamps of reads: measured on the monotonic clock, mapped to wall time. The only module that reads wall time.
//!
//! The mapping is one offset. Small drift is followed (NTP slews the wall clock). A forward step is followed at once
//! and leaves a gap in the series. After a backward step the old mapping is kept and slewed back by 1 %, so that time
//! stamps never go back and rates stay correct; a gauge shows the error, and a restart adopts the new time at once.
//! Shared by all threads of `schedule`.

use parking_lot::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Differences below this are drift, not steps.
const STEP_NS: i128 = 500_000_000;
/// Divisor of real time: the share by which a kept mapping is slewed back.
const SLEW: i128 = 100;

/// Maps the monotonic clock to wall time.
#[derive(Debug)]
pub struct Clock {
    origin: Instant,
    mapping: Mutex<WallMapping>,
}

#[derive(Debug, Clone, Copy)]
struct WallMapping {
    /// Unix ns at `origin`.
    offset: i128,
    /// Monotonic ns of the last comparison with the wall clock.
    looked: i128,
    /// Mapped minus wall time at that comparison, ns.
    error: i128,
    forward: u64,
    backward: u64,
}

/// Steps of the wall clock, and the current error of the mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Steps {
    /// Forward steps since the start.
    pub forward: u64,
    /// Backward steps since the start.
    pub backward: u64,
    /// Time stamps minus wall clock, seconds.
    pub error_seconds: f64,
}

impl Clock {
    /// Clock that agrees with wall time now.
    pub fn new() -> Self {
        Self::at(wall_ns())
    }

    fn at(wall: i128) -> Self {
        let mapping = WallMapping { offset: wall, looked: 0, error: 0, forward: 0, backward: 0 };
        Self { origin: Instant::now(), mapping: Mutex::new(mapping) }
    }

    /// Wall time of a monotonic instant, Unix ns.
    pub fn wall(&self, at: Instant) -> u64 {
        to_u64(self.mapping.lock().offset + self.mono(at))
    }

    /// Wall time now, Unix ns.
    pub fn now(&self) -> u64 {
        self.wall(Instant::now())
    }

    /// Compares with the wall clock. True if it stepped since the last call. Call once a second, from one thread.
    pub fn look(&self) -> bool {
        let mono = self.mono(Instant::now());
        self.mapping.lock().look(mono, wall_ns())
    }

    /// Steps so far.
    pub fn steps(&self) -> Steps {
        let mapping = self.mapping.lock();
        Steps { forward: mapping.forward, backward: mapping.backward, error_seconds: mapping.error as f64 / 1e9 }
    }

    /// Time until the next instant at which wall time is a multiple of `period` plus `phase`.
    pub fn until_next(&self, period: Duration, phase: Duration) -> Duration {
        let period = period.as_nanos().max(1);
        let phase = phase.as_nanos() % period;
        let into = (u128::from(self.now()) + period - phase) % period;
        Duration::from_nanos(u64::try_from(period - into).unwrap_or(u64::MAX))
    }

    fn mono(&self, at: Instant) -> i128 {
        match at.checked_duration_since(self.origin) {
            Some(after) => i128::try_from(after.as_nanos()).unwrap_or(i128::MAX),
            None => -i128::try_from((self.origin - at).as_nanos()).unwrap_or(i128::MAX),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl WallMapping {
    fn look(&mut self, mono: i128, wall: i128) -> bool {
        let since = (mono - self.looked).max(0);
        let error = self.offset + mono - wall;
        let moved = error - self.error;
        let stepped = moved.abs() >= STEP_NS;
        if stepped && moved < 0 {
            self.forward += 1;
        } else if stepped {
            self.backward += 1;
        }
        // Behind the wall clock: followed at once. Ahead of it: slewed back no faster than real time permits.
        let correction = if error <= 0 { -error } else { -error.min(since / SLEW) };
        self.offset += correction;
        self.looked = mono;
        self.error = error + correction;
        stepped
    }
}

fn to_u64(ns: i128) -> u64 {
    u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "this is the clock module that the ban points to")]
fn wall_ns() -> i128 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(after) => i128::try_from(after.as_nanos()).unwrap_or(i128::MAX),
        Err(before) => -i128::try_from(before.duration().as_nanos()).unwrap_or(i128::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i128 = 1_000_000_000;
    const HOUR: i128 = 3600 * S;

    fn mapping() -> WallMapping {
        WallMapping { offset: 1_000_000 * S, looked: 0, error: 0, forward: 0, backward: 0 }
    }

    #[test]
    fn drift_is_followed_without_a_step() {
        let mut mapping = mapping();
        for tick in 1..=100 {
            assert!(!mapping.look(tick * S, 1_000_000 * S + tick * S + tick * 10_000));
        }
        assert_eq!(mapping.error, 0);
        assert_eq!((mapping.forward, mapping.backward), (0, 0));
    }

    #[test]
    fn a_forward_hour_is_followed_at_once_and_counted_once() {
        let mut mapping = mapping();
        assert!(mapping.look(S, 1_000_001 * S + HOUR));
        assert!(!mapping.look(2 * S, 1_000_002 * S + HOUR));
        assert_eq!((mapping.forward, mapping.backward, mapping.error), (1, 0, 0));
        assert_eq!(mapping.offset + 2 * S, 1_000_002 * S + HOUR);
    }

    #[test]
    fn a_backward_hour_never_turns_time_back() {
        let mut mapping = mapping();
        let mut last = 0;
        for tick in 1..=1000 {
            let wall = 1_000_000 * S + tick * S - if tick > 10 { HOUR } else { 0 };
            mapping.look(tick * S, wall);
            let mapped = mapping.offset + tick * S;
            assert!(mapped > last, "time went back at {tick}");
            if last != 0 {
                assert!(mapped - last >= S - S / 50, "rates would be off by more than 2 %");
            }
            last = mapped;
        }
        assert_eq!((mapping.forward, mapping.backward), (0, 1));
        assert!(mapping.error > 0 && mapping.error < HOUR);
    }

    #[test]
    fn the_next_tick_is_aligned_to_the_second_and_phase() {
        let clock = Clock::at(10 * S + S / 4);
        let wait = clock.until_next(Duration::from_secs(1), Duration::from_millis(500));
        assert!(wait <= Duration::from_millis(250) && wait > Duration::from_millis(150), "{wait:?}");
    }
}
