//! How many requests somebody may make in a second.

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use parking_lot::Mutex;

/// Somebody who was quiet may make as many requests at once as in this time.
const BURST: Duration = Duration::from_secs(2);
/// Callers that are remembered; beyond it those that are within their rate are forgotten.
const CALLERS: usize = 1 << 16;

/// Remembers for each caller when the last of its requests would be due at an even pace.
pub(super) struct Rates {
    /// Between two requests at an even pace; zero: no limit.
    pace: Duration,
    began: Instant,
    hash: RandomState,
    callers: Mutex<Callers>,
}

#[derive(Default)]
struct Callers {
    due: HashMap<u64, Duration>,
    /// When those within their rate were last forgotten: to look for them costs, so not at each request of a flood.
    tidied: Duration,
}

impl Rates {
    /// So many in a second; zero: no limit.
    pub(super) fn new(per_second: u32) -> Self {
        let pace = Duration::from_secs(1).checked_div(per_second).unwrap_or_default();
        Self { pace, began: Instant::now(), hash: RandomState::new(), callers: Mutex::default() }
    }

    /// Counts a request; an error is when the next one may come.
    pub(super) fn take(&self, caller: impl Hash) -> Result<(), Duration> {
        self.take_at(self.began.elapsed(), self.hash.hash_one(caller))
    }

    fn take_at(&self, now: Duration, caller: u64) -> Result<(), Duration> {
        if self.pace.is_zero() {
            return Ok(());
        }
        let Callers { due, tidied } = &mut *self.callers.lock();
        if due.len() >= CALLERS && now >= *tidied + BURST {
            due.retain(|_, due| *due > now);
            *tidied = now;
        }
        let known = due.len() < CALLERS || due.contains_key(&caller);
        let last = due.get(&caller).copied().unwrap_or_default().max(now);
        let ahead = last - now;
        if ahead + self.pace > BURST {
            return Err(ahead + self.pace - BURST);
        }
        // So many callers at once are more than the machine could serve, and one more makes no difference.
        if known {
            due.insert(caller, last + self.pace);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_taken_then_the_pace_and_others_are_not_held() {
        let rates = Rates::new(10);
        let at = |ms, caller| rates.take_at(Duration::from_millis(ms), caller);
        let taken = (0..100).take_while(|_| at(1000, 1).is_ok()).count();
        assert_eq!(taken, 20, "two seconds' worth");
        assert_eq!(at(1000, 1), Err(Duration::from_millis(100)));
        assert_eq!((at(1100, 1), at(1100, 1)), (Ok(()), Err(Duration::from_millis(100))));
        assert_eq!(at(1100, 2), Ok(()));
        assert_eq!((0..100).take_while(|_| at(9000, 1).is_ok()).count(), 20, "all is forgiven");
        let unlimited = Rates::new(0);
        assert!((0..10_000).all(|_| unlimited.take(1).is_ok()));
    }

    #[test]
    fn callers_without_end_take_no_memory_without_end() {
        let rates = Rates::new(1);
        let now = Duration::from_secs(10);
        (0..2 * CALLERS as u64).for_each(|caller| _ = rates.take_at(now, caller));
        assert_eq!(rates.callers.lock().due.len(), CALLERS);
        // Those that are remembered are still held to their rate.
        assert!(rates.take_at(now, 5).is_ok() && rates.take_at(now, 5).is_err());
        _ = rates.take_at(now + 2 * BURST, u64::MAX);
        assert_eq!(rates.callers.lock().due.len(), 1);
    }
}
