//! Limits the requests per second of each caller.

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use parking_lot::Mutex;

/// An idle caller may send as many requests at once as the rate allows in this time.
const BURST: Duration = Duration::from_secs(2);
/// Callers that are remembered; beyond this, those within their rate are forgotten.
const CALLERS: usize = 1 << 16;

/// For each caller, the time at which its last request would have been due at an even rate.
pub(super) struct RateLimiter {
    /// Interval of requests at an even rate; zero for no limit.
    interval: Duration,
    began: Instant,
    hash: RandomState,
    callers: Mutex<Callers>,
}

#[derive(Default)]
struct Callers {
    due: HashMap<u64, Duration>,
    /// When callers within their rate were last forgotten. The search is expensive, so it does not run on each request
    /// of a flood.
    pruned: Duration,
}

impl RateLimiter {
    /// Limits callers to `per_second` requests; zero for no limit.
    pub(super) fn new(per_second: u32) -> Self {
        let interval = Duration::from_secs(1).checked_div(per_second).unwrap_or_default();
        Self { interval, began: Instant::now(), hash: RandomState::new(), callers: Mutex::default() }
    }

    /// Counts a request; the error is the time until the next one is allowed.
    pub(super) fn take(&self, caller: impl Hash) -> Result<(), Duration> {
        self.take_at(self.began.elapsed(), self.hash.hash_one(caller))
    }

    fn take_at(&self, now: Duration, caller: u64) -> Result<(), Duration> {
        if self.interval.is_zero() {
            return Ok(());
        }
        let Callers { due, pruned } = &mut *self.callers.lock();
        if due.len() >= CALLERS && now >= *pruned + BURST {
            due.retain(|_, due| *due > now);
            *pruned = now;
        }
        let remember = due.len() < CALLERS || due.contains_key(&caller);
        let last = due.get(&caller).copied().unwrap_or_default().max(now);
        let ahead = last - now;
        if ahead + self.interval > BURST {
            return Err(ahead + self.interval - BURST);
        }
        // With this many callers at once the machine is overloaded anyway; one more makes no difference.
        if remember {
            due.insert(caller, last + self.interval);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_allowed_then_the_rate_applies() {
        let rates = RateLimiter::new(10);
        let at = |ms, caller| rates.take_at(Duration::from_millis(ms), caller);
        let taken = (0..100).take_while(|_| at(1000, 1).is_ok()).count();
        assert_eq!(taken, 20, "the burst is two seconds of requests");
        assert_eq!(at(1000, 1), Err(Duration::from_millis(100)));
        assert_eq!((at(1100, 1), at(1100, 1)), (Ok(()), Err(Duration::from_millis(100))));
        assert_eq!(at(1100, 2), Ok(()));
        assert_eq!((0..100).take_while(|_| at(9000, 1).is_ok()).count(), 20, "an idle caller may burst again");
        let unlimited = RateLimiter::new(0);
        assert!((0..10_000).all(|_| unlimited.take(1).is_ok()));
    }

    #[test]
    fn memory_of_callers_is_bounded() {
        let rates = RateLimiter::new(1);
        let now = Duration::from_secs(10);
        (0..2 * CALLERS as u64).for_each(|caller| _ = rates.take_at(now, caller));
        assert_eq!(rates.callers.lock().due.len(), CALLERS);
        // Remembered callers are still limited.
        assert!(rates.take_at(now, 5).is_ok() && rates.take_at(now, 5).is_err());
        _ = rates.take_at(now + 2 * BURST, u64::MAX);
        assert_eq!(rates.callers.lock().due.len(), 1);
    }
}
