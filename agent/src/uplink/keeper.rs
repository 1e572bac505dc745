//! The spool as async code sees it: disks are waited for on a thread of their own, and the accounts are kept in step.

use super::counters::{Counters, Place};
use super::frame::Frame;
use crate::clock::Clock;
use crate::spool::{Lost, Request, Spool, SpoolError};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Keeper {
    spool: Arc<Mutex<Spool>>,
    counters: Arc<Counters>,
    clock: Arc<Clock>,
    filled: Arc<Notify>,
}

impl Keeper {
    /// Of a spool that was just opened: what it holds is accounted for from now on.
    pub(super) fn new(spool: Spool, limit: u64, counters: &Arc<Counters>, clock: &Arc<Clock>) -> Self {
        let held = spool.held();
        counters.opened(limit, held);
        let filled = Arc::new(Notify::new());
        if held.points > 0 {
            filled.notify_one();
        }
        let (counters, clock) = (Arc::clone(counters), Arc::clone(clock));
        Self { spool: Arc::new(Mutex::new(spool)), counters, clock, filled }
    }

    /// Until something was kept; at once where something was found.
    pub(super) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Keeps a frame that is in memory. False, after saying why, where that cannot be.
    pub(super) async fn keep(&self, frame: Frame, points: u64) -> bool {
        let now = self.clock.now();
        let kept = self.with(move |spool, counters| {
            let (lost, kept) = spool.append(&frame.bytes, frame.code(), points, now);
            count(counters, lost);
            if kept.is_ok() {
                counters.kept(points, frame.bytes.len() as u64);
            }
            kept
        });
        let kept = kept.await;
        self.tell(kept.as_ref().err());
        self.filled.notify_one();
        kept.is_ok()
    }

    /// The oldest request. `Err(())`, after saying why, when the disk does not give it.
    pub(super) async fn next(&self) -> Result<Option<Request>, ()> {
        let now = self.clock.now();
        let next = self.with(move |spool, counters| {
            let (lost, next) = spool.next(now);
            count(counters, lost);
            if let Ok(Some(request)) = &next {
                counters.read(request.payload.len() as u64);
            }
            next
        });
        let next = next.await;
        self.tell(next.as_ref().err());
        next.map_err(|_| ())
    }

    /// What became of a request: `settle` counts it, unless a bound has dropped it meanwhile and it was counted then.
    pub(super) async fn done(&self, request: Request, settle: impl FnOnce(&Counters) + Send + 'static) {
        self.with(move |spool, counters| {
            if spool.done(&request) {
                settle(counters);
            }
        })
        .await;
    }

    /// Makes durable what is held; for the end.
    pub(super) async fn seal(&self) {
        let sealed = self.with(|spool, _| spool.seal()).await;
        if let Err(error) = sealed {
            tracing::warn!(%error, "the spool is not synced; a crash of this machine may cost its last seconds");
        }
    }

    /// [`Counters::check`], with the spool's own count where it is not at work.
    pub(super) fn check(&self, under_way: u64) {
        // Held meanwhile: what leaves the spool leaves the accounts under this lock.
        let spool = self.spool.try_lock();
        self.counters.check(under_way, spool.as_ref().map(|spool| spool.held().points));
    }

    async fn with<R: Send + 'static>(&self, work: impl FnOnce(&mut Spool, &Counters) -> R + Send + 'static) -> R {
        let (spool, counters) = (Arc::clone(&self.spool), Arc::clone(&self.counters));
        let done = tokio::task::spawn_blocking(move || {
            let mut spool = spool.lock();
            let done = work(&mut spool, &counters);
            counters.held(spool.held());
            done
        });
        match done.await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends, and this task with it.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Only changes are logged.
    fn tell(&self, error: Option<&SpoolError>) {
        let why = error.map(|error| crate::batch::chain(error));
        if !self.counters.spool_fails(why.clone()) {
            return;
        }
        match why {
            Some(error) if self.counters.news("spool_fails") => {
                tracing::warn!(error, "the spool takes nothing; samples wait in memory alone");
            }
            None if self.counters.news("spool_works") => tracing::info!("the spool works again"),
            // A disk that comes and goes must not fill the log.
            _ => {}
        }
    }
}

fn count(counters: &Counters, lost: Lost) {
    for (reason, points) in lost.reasons().into_iter().filter(|(_, points)| *points > 0) {
        counters.dropped(Place::Spool, points, reason);
        if counters.news(reason) {
            tracing::warn!(points, reason, "requests in the spool are lost; spool.size and spool.age are its bounds");
        }
    }
}
