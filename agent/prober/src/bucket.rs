//! Token buckets.

use std::time::Duration;

/// Lets a number of events a second pass, and bursts of up to a quarter of that (at least one).
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    per_second: f64,
    tokens: f64,
    /// Last refill.
    at: Duration,
}

impl Bucket {
    /// A full bucket.
    pub fn new(per_second: u32, now: Duration) -> Self {
        let per_second = f64::from(per_second);
        Self { per_second, tokens: Self::burst(per_second), at: now }
    }

    /// Takes a token; false if there is none.
    pub fn take(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.tokens = (self.tokens + passed * self.per_second).min(Self::burst(self.per_second));
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }

    /// Last use.
    pub fn used(&self) -> Duration {
        self.at
    }

    fn burst(per_second: f64) -> f64 {
        (per_second / 4.0).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_pass_than_a_second_allows() {
        let mut bucket = Bucket::new(100, Duration::ZERO);
        let passed = (0..10_000u64).filter(|ms| bucket.take(Duration::from_millis(*ms))).count();
        assert!((1000..=1025).contains(&passed), "{passed} in 10 s");
        // A clock that goes back gives nothing.
        assert!(!bucket.take(Duration::ZERO));
        let mut slow = Bucket::new(0, Duration::ZERO);
        assert!(slow.take(Duration::ZERO) && !slow.take(Duration::from_secs(1000)), "one, and never again");
    }
}
