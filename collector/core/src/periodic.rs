//! Work that is done again and again while the collector runs, on a thread that may block.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::MissedTickBehavior;

/// Trigger it is time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Its pace.
    Interval,
    /// Somebody said that there is something to do.
    Notified,
    /// The collector stops; it is the last time.
    Stop,
}

/// Does `work` at once, then at each `pace` and whenever `wake` is notified, and a last time when `stop` becomes true. A
/// panic ends it and is told as `lost`.
pub async fn periodic(
    pace: Duration,
    wake: Arc<Notify>,
    mut stop: watch::Receiver<bool>,
    lost: &'static str,
    mut work: impl FnMut(Trigger) + Send + 'static,
) {
    let mut tick = tokio::time::interval(pace);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let why = tokio::select! {
            _ = stop.wait_for(|s| *s) => Trigger::Stop,
            _ = tick.tick() => Trigger::Interval,
            () = wake.notified() => Trigger::Notified,
        };
        let done = tokio::task::spawn_blocking(move || {
            work(why);
            work
        });
        match done.await {
            Ok(_) if why == Trigger::Stop => return,
            Ok(back) => work = back,
            Err(error) => return tracing::error!(%error, "{lost}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[tokio::test]
    async fn it_is_done_at_each_pace_when_told_and_a_last_time() {
        let (stop, stopped) = watch::channel(false);
        let (wake, seen) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
        let (whys, told, heard) = (seen.clone(), wake.clone(), Arc::new(Notify::new()));
        let hear = heard.clone();
        let work = move |why| {
            whys.lock().push(why);
            hear.notify_one();
        };
        let task = tokio::spawn(periodic(Duration::from_secs(3600), wake, stopped, "lost", work));
        heard.notified().await;
        told.notify_one();
        heard.notified().await;
        stop.send_replace(true);
        task.await.unwrap();
        assert_eq!(*seen.lock(), [Trigger::Interval, Trigger::Notified, Trigger::Stop]);
    }

    #[tokio::test]
    async fn a_panic_ends_it_and_no_more() {
        let (_stop, stopped) = watch::channel(false);
        periodic(Duration::from_secs(3600), Arc::default(), stopped, "lost", |_| panic!("as it may")).await;
    }
}
