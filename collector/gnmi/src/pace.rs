//! Bounds what one target may send: reading stops for a while, and flow control of HTTP/2 stops the target.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// Bytes per second of one target in the long run. Counters of 512 ports at 1 s are 3 MiB/s.
const RATE: f64 = (8 << 20) as f64;
/// Time by which a target may be ahead of that rate: all of its streams start together.
const BURST: Duration = Duration::from_secs(2);

/// Bytes that the streams of one target may still send.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    /// Time until which the bytes so far last at [`RATE`].
    used: Mutex<Instant>,
}

impl ByteBudget {
    pub(crate) fn new() -> Self {
        Self { used: Mutex::new(Instant::now()) }
    }

    /// Waits until so many bytes fit.
    pub(crate) async fn spend(&self, bytes: usize) {
        let until = {
            let mut used = self.used.lock();
            *used = (*used).max(Instant::now()) + Duration::from_secs_f64(bytes as f64 / RATE);
            *used
        };
        // Other targets run between two messages in any case.
        tokio::task::yield_now().await;
        if until > Instant::now() + BURST {
            sleep_until(until - BURST).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn gigabytes_take_their_time() {
        let (budget, start) = (ByteBudget::new(), Instant::now());
        for _ in 0..64 {
            budget.spend(64 << 10).await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO, "a burst of 4 MiB passes at once");
        for _ in 0..1024 {
            budget.spend(1 << 20).await;
        }
        assert!(start.elapsed() > Duration::from_secs(120), "{:?}", start.elapsed());
    }
}
