//! Runs blocking work periodically, and on notification, until the collector stops.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::MissedTickBehavior;

/// Why the work runs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The interval passed.
    Interval,
    /// The task was notified.
    Notified,
    /// The collector stops; this is the last run.
    Stop,
}

/// Runs `work` on a blocking thread: at once, then at each `interval` and on each notification of `wake`, and a last
/// time when `stop` becomes true. If `work` panics, logs `effect` and ends.
pub async fn periodic(
    interval: Duration,
    wake: Arc<Notify>,
    mut stop: watch::Receiver<bool>,
    effect: &'static str,
    mut work: impl FnMut(Trigger) + Send + 'static,
) {
    let mut tick = tokio::time::interval(interval);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let trigger = tokio::select! {
            _ = stop.wait_for(|s| *s) => Trigger::Stop,
            _ = tick.tick() => Trigger::Interval,
            () = wake.notified() => Trigger::Notified,
        };
        let done = tokio::task::spawn_blocking(move || {
            work(trigger);
            work
        });
        match done.await {
            Ok(_) if trigger == Trigger::Stop => return,
            Ok(back) => work = back,
            Err(error) => return tracing::error!(%error, effect, "periodic task panicked"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[tokio::test]
    async fn runs_at_start_on_notification_and_at_stop() {
        let (stop, stopped) = watch::channel(false);
        let (wake, seen) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
        let (triggers, notifier, ran) = (seen.clone(), wake.clone(), Arc::new(Notify::new()));
        let run = ran.clone();
        let work = move |trigger| {
            triggers.lock().push(trigger);
            run.notify_one();
        };
        let task = tokio::spawn(periodic(Duration::from_secs(3600), wake, stopped, "lost", work));
        ran.notified().await;
        notifier.notify_one();
        ran.notified().await;
        stop.send_replace(true);
        task.await.unwrap();
        assert_eq!(*seen.lock(), [Trigger::Interval, Trigger::Notified, Trigger::Stop]);
    }

    #[tokio::test]
    async fn a_panic_ends_the_task() {
        let (_stop, stopped) = watch::channel(false);
        periodic(Duration::from_secs(3600), Arc::default(), stopped, "lost", |_| panic!("expected by this test")).await;
    }
}
