//! Places of connections at a listener. When all are taken, the oldest connection without a request makes way for a new
//! one, so that half requests keep nobody out. If all have requests, a few places more are for health checks alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fabriclens_core::telemetry::Telemetry;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::activity::Activity;

/// Places for health checks.
const RESERVED: usize = 32;
/// Longest life of a connection in such a place.
const RESERVED_LIFE: Duration = Duration::from_secs(5);
/// Time for a connection that was cut to leave its place.
const LEAVE: Duration = Duration::from_secs(1);

/// Places of one listener.
pub(crate) struct Places {
    normal: Arc<Kind>,
    reserved: Arc<Kind>,
}

struct Kind {
    most: usize,
    free: Arc<Semaphore>,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    last: u64,
    /// In the order in which they began.
    all: BTreeMap<u64, Arc<Activity>>,
}

/// The place of one connection; dropping it frees the place.
pub(crate) struct Place {
    kind: Arc<Kind>,
    id: u64,
    activity: Arc<Activity>,
    reserved: bool,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(crate) fn new(most: usize) -> Self {
        let kind = |most| Arc::new(Kind { most, free: Arc::new(Semaphore::new(most)), taken: Mutex::default() });
        Self { normal: kind(most), reserved: kind(RESERVED) }
    }

    /// Takes a place; if none is left, in exchange for another connection, which ends. `None` if all of them have
    /// requests.
    pub(crate) async fn take(&self, telemetry: &Telemetry) -> Option<Place> {
        for kind in [&self.normal, &self.reserved] {
            let mut permit = kind.free.clone().try_acquire_owned().ok();
            if permit.is_none() && kind.make_way() {
                telemetry.connections_refused.inc();
                permit = timeout(LEAVE, kind.free.clone().acquire_owned()).await.ok().and_then(Result::ok);
            }
            if let Some(permit) = permit {
                return Some(kind.place(permit, Arc::ptr_eq(kind, &self.reserved)));
            }
        }
        None
    }

    /// Waits until the last connection has ended.
    pub(crate) async fn all_free(&self) {
        for kind in [&self.normal, &self.reserved] {
            _ = kind.free.acquire_many(u32::try_from(kind.most).unwrap_or(u32::MAX)).await;
        }
    }
}

impl Kind {
    fn place(self: &Arc<Self>, permit: OwnedSemaphorePermit, reserved: bool) -> Place {
        let activity = Activity::new();
        let mut taken = self.taken.lock();
        taken.last += 1;
        let id = taken.last;
        taken.all.insert(id, activity.clone());
        Place { kind: self.clone(), id, activity, reserved, _permit: permit }
    }

    /// Cuts the connection that makes way first.
    fn make_way(&self) -> bool {
        let mut taken = self.taken.lock();
        let mut first = None;
        for (id, activity) in &taken.all {
            match activity.rank() {
                None => {}
                // In order of age, so none makes way before it.
                Some((false, _)) => {
                    first = Some((None, *id));
                    break;
                }
                Some((true, since)) if first.is_none_or(|(first, _)| Some(since) < first) => {
                    first = Some((Some(since), *id));
                }
                Some(_) => {}
            }
        }
        // It is not found again while it ends.
        let Some(activity) = first.and_then(|(_, id)| taken.all.remove(&id)) else { return false };
        activity.cut();
        true
    }
}

impl Place {
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Whether it is for health checks alone.
    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved
    }

    /// Completes when the connection must leave its place.
    pub(crate) async fn over(&self) {
        if self.reserved { sleep(RESERVED_LIFE).await } else { std::future::pending().await }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.kind.taken.lock().all.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn connections_without_a_request_make_way() {
        let (places, telemetry) = (Places::new(3), Telemetry::new().unwrap());
        let take = async || places.take(&telemetry).await;
        /// Serves until it is cut.
        fn run(place: Place) -> tokio::task::JoinHandle<()> {
            tokio::spawn(async move { place.activity().ended().await })
        }
        let [busy, half, idle] = [take().await.unwrap(), take().await.unwrap(), take().await.unwrap()];
        let _request = busy.activity().begin();
        drop(idle.activity().begin());
        let (half, idle) = (run(half), run(idle));
        let first = take().await.unwrap();
        half.await.unwrap();
        assert!(!first.is_reserved() && !idle.is_finished());
        let _first = first.activity().begin();
        let second = take().await.unwrap();
        idle.await.unwrap();
        let _second = second.activity().begin();
        assert!(!second.is_reserved());
        // All have requests: what is left is for health checks.
        let mut reserved = Vec::new();
        for _ in 0..RESERVED {
            let place = take().await.unwrap();
            assert!(place.is_reserved());
            reserved.push(run(place));
        }
        assert!(take().await.unwrap().is_reserved(), "the oldest makes way");
        reserved.swap_remove(0).await.unwrap();
        drop((busy, first));
        assert!(!take().await.unwrap().is_reserved());
        assert_eq!(telemetry.connections_refused.get(), 3);
    }
}
