//! Runs a query or computation on its own thread, one at a time, with a pause after each: a query among a million queue pairs
//! takes a second or two.

use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

/// Pause between two queries, as a multiple of the duration of the last one, and at least this long.
const PAUSE: u32 = 20;
const LEAST: Duration = Duration::from_secs(1);

/// The query in progress, if there is one; `K` says what was asked, `T` is the answer.
pub(super) struct BackgroundQuery<K, T> {
    pending: Option<Pending<K, T>>,
    /// Earliest time of the next query.
    next: Option<Instant>,
}

struct Pending<K, T> {
    asked: K,
    began: Instant,
    answer: Receiver<T>,
}

impl<K, T> Default for BackgroundQuery<K, T> {
    fn default() -> Self {
        Self { pending: None, next: None }
    }
}

impl<K, T: Send + 'static> BackgroundQuery<K, T> {
    /// What was asked, and the answer, once the query has ended; the answer is `None` if it failed.
    pub(super) fn finished(&mut self) -> Option<(K, Option<T>)> {
        let answer = match self.pending.as_ref()?.answer.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => None,
            Ok(answer) => Some(answer),
        };
        let Pending { asked, began, .. } = self.pending.take()?;
        self.next = Some(Instant::now() + (began.elapsed() * PAUSE).max(LEAST));
        Some((asked, answer))
    }

    /// Whether a query is in progress.
    pub(super) fn is_running(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether the next query may start.
    pub(super) fn is_free(&self) -> bool {
        !self.is_running() && self.next.is_none_or(|next| Instant::now() >= next)
    }

    /// Starts a query on a thread of this name. `ask` logs why it has no answer.
    pub(super) fn start(&mut self, thread: &'static str, asked: K, ask: impl FnOnce() -> Option<T> + Send + 'static) {
        let (sender, answer) = sync_channel(1);
        let run = move || {
            if let Some(found) = ask() {
                // The collector may have stopped.
                _ = sender.send(found);
            }
        };
        match std::thread::Builder::new().name(thread.to_owned()).spawn(run) {
            Ok(_) => self.pending = Some(Pending { asked, began: Instant::now(), answer }),
            Err(error) => {
                tracing::debug!(thread, %error, "cannot start a thread for a query");
                self.next = Some(Instant::now() + LEAST);
            }
        }
    }
}
