//! Measures the part of appending that more cores do not speed up: one append at a time holds the lock of the log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Times of all appends since the start.
#[derive(Debug, Default)]
pub struct AppendTimes {
    held_ns: AtomicU64,
    waited_ns: AtomicU64,
}

impl AppendTimes {
    /// Takes a lock: the one that is `free`, or waits for it in `lock`.
    pub fn lock<G>(&self, free: Option<G>, lock: impl FnOnce() -> G) -> G {
        free.unwrap_or_else(|| {
            let since = Instant::now();
            let guard = lock();
            add(&self.waited_ns, since);
            guard
        })
    }

    /// Counts the time since `since`, in which rows were written with the lock of the log held.
    pub fn held_since(&self, since: Instant) {
        add(&self.held_ns, since);
    }

    /// Time in which appends wrote with the lock of the log held, and time in which they waited for a lock.
    pub fn sums(&self) -> (Duration, Duration) {
        let sum = |ns: &AtomicU64| Duration::from_nanos(ns.load(Ordering::Relaxed));
        (sum(&self.held_ns), sum(&self.waited_ns))
    }
}

fn add(ns: &AtomicU64, since: Instant) {
    ns.fetch_add(u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waits_count_as_waiting() {
        let (times, pause) = (AppendTimes::default(), Duration::from_millis(5));
        times.lock(Some(()), || std::thread::sleep(pause));
        assert_eq!(times.sums(), (Duration::ZERO, Duration::ZERO));
        times.lock(None, || std::thread::sleep(pause));
        let (held, waited) = times.sums();
        assert!(held.is_zero() && waited >= pause, "{waited:?}");
        times.held_since(Instant::now() - pause);
        assert!(times.sums().0 >= pause && times.sums().1 == waited);
    }
}
