//! Datagrams that a port may send: a token bucket.

use std::time::{Duration, Instant};

/// Share of a second's datagrams that may be sent at once.
const BURST: f64 = 0.1;

/// Budget of one port.
#[derive(Debug)]
pub struct Budget {
    per_second: f64,
    tokens: f64,
    at: Instant,
}

impl Budget {
    /// A budget of so many datagrams per second, at least one.
    pub fn new(per_second: u32, now: Instant) -> Self {
        Self { per_second: f64::from(per_second.max(1)), tokens: 1.0, at: now }
    }

    /// Sets the rate.
    pub fn set(&mut self, per_second: u32) {
        self.per_second = f64::from(per_second.max(1));
    }

    /// Takes one datagram from the budget, if there is one.
    pub fn take(&mut self, now: Instant) -> bool {
        let most = (self.per_second * BURST).max(1.0);
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.per_second).min(most);
        self.at = self.at.max(now);
        let has_one = self.tokens >= 1.0;
        if has_one {
            self.tokens -= 1.0;
        }
        has_one
    }

    /// When the next datagram may be sent at the earliest.
    pub fn next(&self) -> Instant {
        self.at + Duration::from_secs_f64((1.0 - self.tokens).max(0.0) / self.per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_second_has_more_than_the_rate_and_a_burst() {
        let begin = Instant::now();
        let mut budget = Budget::new(50, begin);
        let sent = (0..10_000).filter(|ms| budget.take(begin + Duration::from_millis(*ms))).count();
        assert!((495..=505).contains(&sent), "{sent} in 10 s");
        // After a pause of a minute no more than the burst goes at once.
        let later = begin + Duration::from_secs(70);
        assert_eq!((0..100).filter(|_| budget.take(later)).count(), 5);
        let wait = budget.next() - later;
        assert!(wait > Duration::from_millis(19) && wait <= Duration::from_millis(20), "{wait:?}");
    }
}
