//! What a connection does: requests in progress, a request head that is not complete. Decides which connection ends
//! first when a listener has no place left.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// Activity of one connection.
pub struct Activity {
    state: Mutex<State>,
    cut: Notify,
}

struct State {
    /// Requests in progress.
    requests: usize,
    /// Whether there was a complete request head.
    requested: bool,
    /// When the connection began, or its last request ended.
    since: Instant,
    /// First byte of a head that is not complete.
    head: Option<Instant>,
}

impl Activity {
    /// A connection that begins now.
    pub fn new() -> Arc<Self> {
        let state = State { requests: 0, requested: false, since: Instant::now(), head: None };
        Arc::new(Self { state: Mutex::new(state), cut: Notify::new() })
    }

    /// Ends the connection at once.
    pub fn cut(&self) {
        self.cut.notify_one();
    }

    /// Completes when the connection is to end at once.
    pub async fn ended(&self) {
        self.cut.notified().await;
    }

    /// Order in which connections make way for others: first those without a request, then those that are idle, the
    /// oldest first. `None` while requests are in progress.
    pub fn rank(&self) -> Option<(bool, Instant)> {
        let state = self.state.lock();
        (state.requests == 0).then_some((state.requested, state.since))
    }

    /// Notes that bytes were received.
    pub(crate) fn received(&self) {
        let mut state = self.state.lock();
        if state.requests == 0 && state.head.is_none() {
            state.head = Some(Instant::now());
        }
    }

    /// Notes that the head of a request is complete.
    pub(crate) fn begin(self: &Arc<Self>) -> ActiveRequest {
        let mut state = self.state.lock();
        (state.requests, state.requested, state.head) = (state.requests + 1, true, None);
        ActiveRequest(self.clone())
    }

    /// Completes after `most` without a request.
    pub(crate) async fn idle(&self, most: Duration) {
        loop {
            let left = {
                let state = self.state.lock();
                if state.requests > 0 { most } else { most.saturating_sub(state.since.elapsed()) }
            };
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }

    /// Completes when a head is not complete `most` after its first byte.
    pub(crate) async fn overdue(&self, most: Duration) {
        loop {
            let left = self.state.lock().head.map_or(most, |began| most.saturating_sub(began.elapsed()));
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }
}

/// A request in progress; dropped after the last byte of its answer.
pub(crate) struct ActiveRequest(Arc<Activity>);

impl ActiveRequest {
    /// Its connection.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.0
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        (state.requests, state.since) = (state.requests - 1, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const MOST: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn incomplete_heads_are_overdue() {
        let activity = Activity::new();
        let overdue = async || timeout(2 * MOST, activity.overdue(MOST)).await.is_ok();
        assert!(!overdue().await, "nothing was received");
        activity.received();
        let request = activity.begin();
        activity.received();
        assert!(!overdue().await, "a body follows its head");
        drop(request);
        activity.received();
        assert!(overdue().await);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_without_a_request_make_way_first() {
        let [idle, late, early] = [(); 3].map(|()| Activity::new());
        drop(idle.begin());
        sleep(MOST).await;
        let [newest, busy] = [(); 2].map(|()| Activity::new());
        let _request = busy.begin();
        drop(late.begin());
        let order: Vec<usize> = {
            let all = [&idle, &late, &early, &newest, &busy];
            let mut ranked: Vec<_> = all.iter().enumerate().filter_map(|(i, a)| Some((a.rank()?, i))).collect();
            ranked.sort();
            ranked.into_iter().map(|(_, i)| i).collect()
        };
        assert_eq!(order, [2, 3, 0, 1], "requests in progress go on");
    }
}
