//! Work that somebody waits for at a page: on a thread of its own, that steps aside when it takes long. So a light query
//! is answered as fast as can be, and twenty heavy ones leave the processor to those who bring and judge samples.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, setpriority_process};
use tokio::sync::oneshot;

/// Longer is heavy.
const LIGHT: Duration = Duration::from_millis(250);
/// Niceness from then on: a ninth of what another thread gets. There is no way back without privileges, so the thread
/// ends with its work.
const NICE: i32 = 10;

/// Runs `work` on a thread of its own.
///
/// # Errors
/// What happened, when there is no answer: no thread can be had, or it panicked.
pub async fn on_query_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (answer, mut answered) = oneshot::channel();
    let id = Arc::new(AtomicI32::new(0));
    let own = id.clone();
    let body = move || {
        own.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Release);
        // Who asked may have gone.
        _ = answer.send(work());
    };
    std::thread::Builder::new().name("query".to_owned()).spawn(body).map_err(|e| format!("no thread for it: {e}"))?;
    if let Ok(done) = tokio::time::timeout(LIGHT, &mut answered).await {
        return done.map_err(|_| PANICKED.to_owned());
    }
    if let Some(Err(error)) = Pid::from_raw(id.load(Ordering::Acquire)).map(|id| setpriority_process(Some(id), NICE)) {
        tracing::debug!(%error, "a heavy query runs as everything else does");
    }
    answered.await.map_err(|_| PANICKED.to_owned())
}

const PANICKED: &str = "it panicked";

#[cfg(test)]
mod tests {
    use super::*;

    /// Niceness of this thread, from proc: the 19th field, and the 16th behind the name.
    fn nice() -> i32 {
        let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        text.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().parse().unwrap()
    }

    #[tokio::test]
    async fn what_takes_long_steps_aside_and_what_does_not_stays() {
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
