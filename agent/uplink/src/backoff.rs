//! Pauses between attempts to deliver a request.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// First pause before a retry; doubles up to [`LONGEST`].
pub(crate) const FIRST: Duration = Duration::from_millis(100);
/// Upper bound of the exponential backoff: short, so that a returning collector is found soon.
pub(crate) const LONGEST: Duration = Duration::from_secs(5);
/// Upper bound of a pause that a collector may ask for.
pub(crate) const ASKED: Duration = Duration::from_secs(300);

/// 0.5 to 1.5 times a pause, so that thousands of agents do not retry at once.
pub(crate) fn jitter(pause: Duration) -> Duration {
    pause / 2 + spread(pause)
}

/// Random part of a time, from none to all of it.
pub(crate) fn spread(time: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) >> 32;
    time.mul_f64(random as f64 / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_spread_around_their_length() {
        let pauses: Vec<Duration> = (0..200).map(|_| jitter(FIRST)).collect();
        assert!(pauses.iter().all(|p| (FIRST / 2..=FIRST * 3 / 2).contains(p)));
        assert!(pauses.iter().any(|p| *p < FIRST) && pauses.iter().any(|p| *p > FIRST));
    }
}
