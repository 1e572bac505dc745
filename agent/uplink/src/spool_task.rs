//! The spool as async code sees it: disks are waited for on a thread of their own, and the accounts are kept in step.

use crate::counters::{Counters, Place, Way};
use crate::frame::Frame;
use crate::spool::{Limits, Lost, Now, Request, Spool, SpoolError};
use fabriclens_agent_host::clock::Clock;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::timeout;

/// A disk that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    dir: Arc<Path>,
    limits: Limits,
    /// `None` until it can be opened.
    spool: Arc<Mutex<Option<Spool>>>,
    counters: Arc<Counters>,
    clock: Arc<Clock>,
    filled: Arc<Notify>,
    /// The append under way, as long as it is: a disk that hangs is asked once.
    hanging: Arc<Mutex<Weak<AtomicBool>>>,
}

impl Keeper {
    /// Of the spool in `dir`, which is opened; what it holds is accounted for from then on. One that cannot be opened
    /// takes nothing, and says so, until [`Keeper::reopen`].
    pub(crate) fn new(dir: &Path, limits: Limits, counters: &Arc<Counters>, clock: &Arc<Clock>) -> Self {
        let (counters, clock) = (Arc::clone(counters), Arc::clone(clock));
        let (spool, filled, hanging) = (Arc::default(), Arc::default(), Arc::default());
        let keeper = Self { dir: dir.into(), limits, spool, counters, clock, filled, hanging };
        let opened = keeper.open(&mut keeper.spool.lock());
        keeper.tell(Way::In, opened.as_ref().err());
        keeper
    }

    fn open(&self, slot: &mut Option<Spool>) -> Result<(), SpoolError> {
        let spool = Spool::open(&self.dir, self.limits, Now::of(&self.clock))?;
        let held = spool.held();
        self.counters.opened(self.limits.bytes, held, spool.unreadable());
        if held.points > 0 {
            tracing::info!(points = held.points, bytes = held.bytes, "samples of before wait in the spool");
            self.filled.notify_one();
        }
        *slot = Some(spool);
        Ok(())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.spool.lock().is_some()
    }

    /// Tries again to open a spool that could not be opened: the disk was full, or another agent had it.
    pub(crate) async fn reopen(&self) {
        let keeper = self.clone();
        let opened = aside(move || keeper.open(&mut keeper.spool.lock())).await;
        self.tell(Way::In, opened.as_ref().err());
    }

    /// Until something was kept; at once where something was found.
    pub(crate) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Keeps a frame that is in memory. False, after saying why, where that cannot be, or takes too long: then live samples
    /// go on without the disk, and the frame may be kept yet, and be delivered twice, which changes nothing.
    pub(crate) async fn keep(&self, frame: Frame, points: u64) -> bool {
        if self.hanging.lock().strong_count() > 0 {
            return false;
        }
        let (keeper, now) = (self.clone(), Now::of(&self.clock));
        // Set by who is first: the append that is done, or who does not wait for it any more.
        let settled = Arc::new(AtomicBool::new(false));
        *self.hanging.lock() = Arc::downgrade(&settled);
        let append = Arc::clone(&settled);
        let kept = self.with(move |spool, counters| {
            let (lost, kept) = spool.append(&frame.bytes, frame.code(), points, now);
            count(counters, lost);
            if kept.is_ok() {
                let late = append.swap(true, Ordering::Relaxed);
                counters.kept(points, frame.bytes.len() as u64, late);
                if late {
                    keeper.told(&kept);
                }
            }
            kept
        });
        match timeout(PATIENCE, kept).await {
            Ok(kept) => kept.is_some_and(|kept| self.told(&kept)),
            // It was done at the same moment.
            Err(_) if settled.swap(true, Ordering::Relaxed) => true,
            Err(_) => {
                let (dir, source) = (self.dir.to_path_buf(), std::io::ErrorKind::TimedOut.into());
                self.told(&Err(SpoolError::Io { dir, source }))
            }
        }
    }

    /// What became of an append.
    fn told(&self, kept: &Result<(), SpoolError>) -> bool {
        self.tell(Way::In, kept.as_ref().err());
        self.filled.notify_one();
        kept.is_ok()
    }

    /// The oldest request. `Err(())`, after saying why, when the disk does not give it.
    pub(crate) async fn next(&self) -> Result<Option<Request>, ()> {
        let next = self.with(move |spool, counters| {
            let (lost, next) = spool.next(Instant::now());
            count(counters, lost);
            if let Ok(Some(request)) = &next {
                counters.read(request.payload.len() as u64);
            }
            next
        });
        let Some(next) = next.await else { return Ok(None) };
        self.tell(Way::Out, next.as_ref().err());
        next.map_err(|_| ())
    }

    /// What became of a request: `settle` counts it, unless a bound has dropped it meanwhile and it was counted then.
    pub(crate) async fn done(&self, request: Request, settle: impl FnOnce(&Counters) + Send + 'static) {
        self.with(move |spool, counters| {
            if let Some(lost) = spool.done(&request) {
                settle(counters);
                count(counters, lost);
            }
        })
        .await;
    }

    /// Makes durable what is held; for the end.
    pub(crate) async fn seal(&self) {
        let sealed = timeout(PATIENCE, self.with(|spool, _| spool.seal())).await;
        if let Ok(Some(Err(error))) = sealed {
            tracing::warn!(%error, "the spool is not synced; a crash of this machine may cost its last seconds");
        }
    }

    /// [`Counters::check`], with the spool's own count where it is not at work.
    pub(crate) fn check(&self, under_way: u64) {
        // Held meanwhile: what leaves the spool leaves the accounts under this lock.
        let spool = self.spool.try_lock();
        self.counters.check(under_way, spool.as_ref().and_then(|spool| Some(spool.as_ref()?.held().points)));
    }

    /// `None` where the spool is not open.
    async fn with<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Spool, &Counters) -> R + Send + 'static,
    ) -> Option<R> {
        let (spool, counters) = (Arc::clone(&self.spool), Arc::clone(&self.counters));
        aside(move || {
            let mut slot = spool.lock();
            let spool = slot.as_mut()?;
            let done = work(spool, &counters);
            counters.held(spool.held());
            Some(done)
        })
        .await
    }

    /// Only changes are logged.
    fn tell(&self, way: Way, error: Option<&SpoolError>) {
        let why = error.map(|error| fabriclens_agent_host::batch::chain(error));
        if !self.counters.spool_fails(way, why.clone()) {
            return;
        }
        let [fails, works] = way.topics();
        match (why, way) {
            (Some(error), Way::In) if self.counters.news(fails) => {
                tracing::warn!(error, "the spool takes nothing; samples wait in memory alone");
            }
            (Some(error), Way::Out) if self.counters.news(fails) => {
                tracing::warn!(error, "the spool gives nothing of what waits there; it is asked again");
            }
            (None, _) if self.counters.news(works) => tracing::info!("the spool works again"),
            // A disk that comes and goes must not fill the log.
            _ => {}
        }
    }
}

/// Work that may wait for a disk.
async fn aside<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

fn count(counters: &Counters, lost: Lost) {
    for (reason, points) in lost.reasons().into_iter().filter(|(_, points)| *points > 0) {
        counters.dropped(Place::Spool, points, reason);
        if counters.news(reason) {
            tracing::warn!(
                points,
                reason,
                "requests of the spool are not delivered; spool.size and spool.age are its bounds"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Collector, Spool};
    use crate::ring::Ring;
    use crate::{Accounts, Uplink};

    fn uplink(dir: &Path) -> (Arc<Counters>, Keeper) {
        let ring = Arc::new(Ring::new(64, 1));
        let uplink = Uplink::new(Collector::new("http://127.0.0.1:1"), "h", ring.reader(0), None).unwrap();
        let uplink = uplink.with_spool(&dir.join("samples"), &Spool::default());
        (uplink.counters(), uplink.live.keeper.unwrap().0)
    }

    fn reasons(counters: &Arc<Counters>) -> String {
        counters.problems().join("; ")
    }

    #[tokio::test]
    async fn a_part_that_the_disk_does_not_give_is_told_and_the_accounts_stay_exact() {
        let dir = tempfile::tempdir().unwrap();
        let (counters, keeper) = uplink(dir.path());
        counters.own(7);
        assert!(keeper.keep(Frame::kept(b"x".to_vec(), 0), 7).await);
        let segment = dir.path().join("samples/000000000001.spool");
        std::fs::remove_file(&segment).unwrap();
        std::os::unix::fs::symlink("/proc/self/mem", &segment).unwrap();
        assert!(keeper.next().await.is_err());
        let told = reasons(&counters);
        assert!(told.contains("gives nothing of what waits there") && told.contains("Input/output error"), "{told}");
        assert!(!told.contains("takes nothing"), "{told}");
        counters.own(5);
        assert!(keeper.keep(Frame::kept(b"y".to_vec(), 0), 5).await, "it takes samples all the while");
        // As if it had been asked again and again.
        let next = keeper.with(|spool, counters| {
            let (lost, next) = spool.next(Instant::now() + Duration::from_secs(61));
            count(counters, lost);
            next
        });
        assert_eq!(next.await.unwrap().unwrap().unwrap().payload, b"y");
        assert!(matches!(keeper.next().await, Ok(Some(_))));
        keeper.check(0);
        let want = Accounts { taken: 12, dropped: 7, spooled: 5, ..Accounts::default() };
        assert_eq!((counters.accounts(), counters.dropped_for("spool_unreadable")), (want, 7));
        let told = reasons(&counters);
        assert!(told.contains("lost in the last ten minutes: 7 points by now, spool_unreadable"), "{told}");
        assert!(told.contains("parts of the spool are set aside: 1") && !told.contains("gives nothing"), "{told}");
    }

    #[expect(clippy::await_holding_lock, reason = "who holds it is the disk that hangs")]
    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_is_not_waited_for_and_the_accounts_stay_exact() {
        let dir = tempfile::tempdir().unwrap();
        let (counters, keeper) = uplink(dir.path());
        counters.own(7);
        let frame = || Frame::kept(b"x".to_vec(), 0);
        let hang = keeper.spool.lock();
        let (kept, ()) = tokio::join!(keeper.keep(frame(), 7), async {
            tokio::task::yield_now().await;
            tokio::time::advance(PATIENCE * 2).await;
        });
        assert!(!kept && !keeper.keep(frame(), 7).await, "nor is it asked again");
        assert!(counters.disk().failure.unwrap().contains("timed out"));
        counters.acked(Place::Memory, 7, 0);
        drop(hang);
        while keeper.hanging.lock().strong_count() > 0 {
            tokio::task::yield_now().await;
        }
        keeper.check(0);
        let want = Accounts { taken: 7, found: 7, acked: 7, spooled: 7, ..Accounts::default() };
        assert_eq!((counters.accounts(), counters.disk().failure), (want, None));
    }
}
