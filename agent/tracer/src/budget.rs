//! Datagrams that a port may send: a token bucket, whose rate sinks while switches limit their answers.

use std::time::{Duration, Instant};

/// Share of a second's datagrams that may be sent at once.
const BURST: f64 = 0.1;
/// Share of the rate that is left when a switch limits its answers, and factor by which it recovers with each trace that none
/// limits. Linux, on which many switches run, answers a host once a second by default.
const SLOWER: f64 = 0.5;
const FASTER: f64 = 1.1;

/// Budget of one port.
#[derive(Debug)]
pub struct Budget {
    most: f64,
    per_second: f64,
    tokens: f64,
    at: Instant,
}

impl Budget {
    /// A budget of so many datagrams per second, at least one.
    pub fn new(per_second: u32, now: Instant) -> Self {
        let most = f64::from(per_second.max(1));
        Self { most, per_second: most, tokens: 1.0, at: now }
    }

    /// Sets the largest rate.
    pub fn set(&mut self, per_second: u32) {
        let before = std::mem::replace(&mut self.most, f64::from(per_second.max(1)));
        self.per_second = (self.per_second * self.most / before).clamp(1.0, self.most);
    }

    /// Adapts the rate after a trace.
    pub fn adapt(&mut self, is_limited: bool) {
        let factor = if is_limited { SLOWER } else { FASTER };
        self.per_second = (self.per_second * factor).clamp(1.0, self.most);
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

    #[test]
    fn the_rate_sinks_while_answers_are_limited_and_recovers() {
        let begin = Instant::now();
        let mut budget = Budget::new(40, begin);
        let mut second = 0;
        let mut sent = |budget: &mut Budget| {
            second += 10;
            (0..10_000).filter(|ms| budget.take(begin + Duration::from_millis(second * 1000 + ms))).count()
        };
        budget.adapt(true);
        assert!((195..=205).contains(&sent(&mut budget)));
        (0..20).for_each(|_| budget.adapt(true));
        assert!((9..=11).contains(&sent(&mut budget)), "never less than one a second");
        budget.set(20);
        assert!((9..=11).contains(&sent(&mut budget)), "a new largest rate does not forget it");
        (0..60).for_each(|_| budget.adapt(false));
        assert!((195..=205).contains(&sent(&mut budget)), "the largest rate is the limit");
    }
}
