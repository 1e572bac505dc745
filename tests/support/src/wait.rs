//! Waiting for a condition instead of for a time.

use std::time::{Duration, Instant};

/// Interval at which the condition is checked.
const PACE: Duration = Duration::from_millis(10);

/// Waits until `condition` holds, checking every 10 ms.
///
/// # Panics
/// When it does not hold within `limit`; `what` names it.
#[track_caller]
pub fn eventually(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(PACE);
    }
}

/// [`eventually`] on a tokio runtime.
///
/// # Panics
/// When `condition` does not hold within `limit`; `what` names it.
#[cfg(feature = "tokio")]
pub async fn eventually_async(what: &str, limit: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !condition().await {
        assert!(begin.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(PACE).await;
    }
}
