//! Fail-slow: fewer probes while the port or the host has no room for them, and never none.

use std::time::Duration;

/// Shares of the planned rate.
const STEPS: [f64; 4] = [1.0, 0.5, 0.25, 0.1];
/// Interval at which it is decided.
const WINDOW: Duration = Duration::from_secs(1);
/// Good windows in a row before the next step up.
const GOOD: u32 = 10;
/// Delay of the own host from which it is short of CPU, nanoseconds.
pub const LONG_DELAY_NS: u64 = 20_000_000;

/// What was seen within a window.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    probes: u32,
    delayed: u32,
    /// Send queue full, or datagrams that the NIC did not send in time.
    undrained: u32,
    stalls: u32,
}

/// The throttle of a port.
#[derive(Debug)]
pub struct Throttle {
    step: usize,
    good: u32,
    begin: Duration,
    seen: Seen,
}

impl Throttle {
    /// At the planned rate.
    pub fn new(now: Duration) -> Self {
        Self { step: 0, good: 0, begin: now, seen: Seen::default() }
    }

    /// Share of the planned rate, greater than 0.
    pub fn share(&self) -> f64 {
        STEPS.get(self.step).copied().unwrap_or(0.1)
    }

    /// A probe ended; `own_ns`: delay of the own host.
    pub fn ended(&mut self, own_ns: u64) {
        self.seen.probes += 1;
        self.seen.delayed += u32::from(own_ns >= LONG_DELAY_NS);
    }

    /// The queue of the port did not drain.
    pub fn undrained(&mut self) {
        self.seen.undrained += 1;
    }

    /// This thread did not run for long.
    pub fn stalled(&mut self) {
        self.seen.stalls += 1;
    }

    /// Decides at the end of a window.
    pub fn tick(&mut self, now: Duration) {
        if now.saturating_sub(self.begin) < WINDOW {
            return;
        }
        let Seen { probes, delayed, undrained, stalls } = std::mem::take(&mut self.seen);
        self.begin = now;
        // A single slow answer is no sign.
        let is_short_of_cpu = stalls > 0 || delayed >= 2 && delayed * 5 > probes;
        if undrained > 0 || is_short_of_cpu {
            self.step = (self.step + 1).min(STEPS.len() - 1);
            self.good = 0;
            return;
        }
        self.good += 1;
        if self.good >= GOOD {
            self.step = self.step.saturating_sub(1);
            self.good = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(throttle: &mut Throttle, from: u64, count: u64, each: impl Fn(&mut Throttle)) -> u64 {
        for second in from..from + count {
            each(throttle);
            throttle.tick(Duration::from_secs(second));
        }
        from + count
    }

    #[test]
    fn it_slows_down_to_a_tenth_and_recovers_step_by_step() {
        let mut throttle = Throttle::new(Duration::ZERO);
        let mut at = 1;
        for share in [0.5, 0.25, 0.1, 0.1, 0.1] {
            at = seconds(&mut throttle, at, 1, Throttle::undrained);
            assert!((throttle.share() - share).abs() < 1e-9, "{share}");
        }
        at = seconds(&mut throttle, at, 9, |throttle| throttle.ended(1_000));
        assert!((throttle.share() - 0.1).abs() < 1e-9);
        at = seconds(&mut throttle, at, 1, |throttle| throttle.ended(1_000));
        assert!((throttle.share() - 0.25).abs() < 1e-9);
        seconds(&mut throttle, at, 20, |_| ());
        assert!((throttle.share() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_host_without_cpu_slows_it_and_one_slow_answer_does_not() {
        let mut throttle = Throttle::new(Duration::ZERO);
        let mut at = seconds(&mut throttle, 1, 5, |throttle| {
            throttle.ended(LONG_DELAY_NS);
            (0..3).for_each(|_| throttle.ended(9_000));
        });
        assert!((throttle.share() - 1.0).abs() < 1e-9);
        at = seconds(&mut throttle, at, 1, |throttle| (0..4).for_each(|_| throttle.ended(LONG_DELAY_NS)));
        assert!((throttle.share() - 0.5).abs() < 1e-9);
        seconds(&mut throttle, at, 1, Throttle::stalled);
        assert!((throttle.share() - 0.25).abs() < 1e-9);
    }
}
