//! Runs each query on its own thread and lowers the priority of slow ones, so that light queries stay fast and twenty
//! heavy ones leave the processor to ingest and detectors.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, setpriority_process};
use tokio::sync::oneshot;

/// Queries that run longer than this are heavy.
const HEAVY_AFTER: Duration = Duration::from_millis(250);
/// Niceness of a heavy query; gives it about a ninth of the CPU time of a normal thread. Without privileges it cannot
/// be lowered again, so the thread ends with its query.
const NICE: i32 = 10;

/// Runs `work` on a new thread and returns its result.
///
/// # Errors
/// A message if no thread can be started or `work` panicked.
pub async fn on_query_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (answer, mut answered) = oneshot::channel();
    let id = Arc::new(AtomicI32::new(0));
    let own = id.clone();
    let body = move || {
        own.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Release);
        // The caller may have disconnected.
        _ = answer.send(work());
    };
    std::thread::Builder::new()
        .name("query".to_owned())
        .spawn(body)
        .map_err(|e| format!("cannot start a thread: {e}"))?;
    if let Ok(done) = tokio::time::timeout(HEAVY_AFTER, &mut answered).await {
        return done.map_err(|_| PANICKED.to_owned());
    }
    if let Some(Err(error)) = Pid::from_raw(id.load(Ordering::Acquire)).map(|id| setpriority_process(Some(id), NICE)) {
        tracing::debug!(%error, "cannot lower the priority of a heavy query");
    }
    answered.await.map_err(|_| PANICKED.to_owned())
}

const PANICKED: &str = "the query panicked";

#[cfg(test)]
mod tests {
    use super::*;

    /// Niceness of this thread: field 19 of its stat file, the 16th after the name.
    fn nice() -> i32 {
        let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        text.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().parse().unwrap()
    }

    #[tokio::test]
    async fn slow_work_is_niced_and_fast_work_is_not() {
        let here = nice();
        assert_eq!(on_query_thread(nice).await, Ok(here));
        let long = || {
            while nice() != NICE {
                std::thread::sleep(Duration::from_millis(5));
            }
            7
        };
        assert_eq!(on_query_thread(long).await, Ok(7));
        assert_eq!(on_query_thread(|| -> u8 { panic!("as it may") }).await, Err(PANICKED.to_owned()));
    }
}
