//! Async access to the spool: disk operations run on blocking threads, and the point counts follow each of them.

use crate::counters::{Buffer, Counters, SpoolOp};
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

/// Time after which a disk operation counts as hanging.
const PATIENCE: Duration = Duration::from_secs(10);

/// Handle of the spool for async tasks.
#[derive(Clone, Debug)]
pub(crate) struct SpoolTask {
    dir: Arc<Path>,
    limits: Limits,
    /// `None` until the spool can be opened.
    spool: Arc<Mutex<Option<Spool>>>,
    counters: Arc<Counters>,
    clock: Arc<Clock>,
    filled: Arc<Notify>,
    /// Append in progress; a hanging disk gets no second one.
    hanging: Arc<Mutex<Weak<AtomicBool>>>,
}

impl SpoolTask {
    /// Opens the spool in `dir` and counts its contents. If that fails, the spool is unusable and reported as such
    /// until [`SpoolTask::reopen`].
    pub(crate) fn new(dir: &Path, limits: Limits, counters: &Arc<Counters>, clock: &Arc<Clock>) -> Self {
        let (counters, clock) = (Arc::clone(counters), Arc::clone(clock));
        let (spool, filled, hanging) = (Arc::default(), Arc::default(), Arc::default());
        let spool_task = Self { dir: dir.into(), limits, spool, counters, clock, filled, hanging };
        let opened = spool_task.open(&mut spool_task.spool.lock());
        spool_task.tell(SpoolOp::Append, opened.as_ref().err());
        spool_task
    }

    fn open(&self, slot: &mut Option<Spool>) -> Result<(), SpoolError> {
        let spool = Spool::open(&self.dir, self.limits, Now::of(&self.clock))?;
        let held = spool.held();
        self.counters.opened(self.limits.bytes, held, spool.unreadable());
        if held.points > 0 {
            tracing::info!(points = held.points, bytes = held.bytes, "spool holds samples of an earlier run");
            self.filled.notify_one();
        }
        *slot = Some(spool);
        Ok(())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.spool.lock().is_some()
    }

    /// Tries again to open the spool, after the disk was full or another agent used it.
    pub(crate) async fn reopen(&self) {
        let spool_task = self.clone();
        let opened = aside(move || spool_task.open(&mut spool_task.spool.lock())).await;
        self.tell(SpoolOp::Append, opened.as_ref().err());
    }

    /// Waits until a request is appended; returns at once if the spool had contents when it was opened.
    pub(crate) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Appends a frame. False, with a log message, if that fails or takes too long: live samples then continue without
    /// the spool. A late append may still succeed, and the frame is then delivered twice, which has no effect.
    pub(crate) async fn keep(&self, frame: Frame, points: u64) -> bool {
        if self.hanging.lock().strong_count() > 0 {
            return false;
        }
        let (spool_task, now) = (self.clone(), Now::of(&self.clock));
        // Set by the first of: the append is complete, or the caller stops waiting for it.
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
                    spool_task.record_append(&kept);
                }
            }
            kept
        });
        match timeout(PATIENCE, kept).await {
            Ok(kept) => kept.is_some_and(|kept| self.record_append(&kept)),
            // The append completed at the same moment.
            Err(_) if settled.swap(true, Ordering::Relaxed) => true,
            Err(_) => {
                let (dir, source) = (self.dir.to_path_buf(), std::io::ErrorKind::TimedOut.into());
                self.record_append(&Err(SpoolError::Io { dir, source }))
            }
        }
    }

    /// Records the result of an append.
    fn record_append(&self, kept: &Result<(), SpoolError>) -> bool {
        self.tell(SpoolOp::Append, kept.as_ref().err());
        self.filled.notify_one();
        kept.is_ok()
    }

    /// Oldest request. `Err(())`, with a log message, if it cannot be read.
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
        self.tell(SpoolOp::Read, next.as_ref().err());
        next.map_err(|_| ())
    }

    /// Removes a settled request; `settle` counts its points, unless a limit dropped and counted it in the meantime.
    pub(crate) async fn done(&self, request: Request, settle: impl FnOnce(&Counters) + Send + 'static) {
        self.with(move |spool, counters| {
            if let Some(lost) = spool.done(&request) {
                settle(counters);
                count(counters, lost);
            }
        })
        .await;
    }

    /// Syncs the spool at shutdown.
    pub(crate) async fn seal(&self) {
        let sealed = timeout(PATIENCE, self.with(|spool, _| spool.seal())).await;
        if let Ok(Some(Err(error))) = sealed {
            tracing::warn!(%error, "cannot sync the spool; a crash of this machine may lose its last seconds");
        }
    }

    /// [`Counters::check`], with the contents of the spool if it is idle.
    pub(crate) fn check(&self, under_way: u64) {
        // Locked meanwhile: points leave the spool and the counts under this lock.
        let spool = self.spool.try_lock();
        self.counters.check(under_way, spool.as_ref().and_then(|spool| Some(spool.as_ref()?.held().points)));
    }

    /// Runs an operation on a blocking thread; `None` if the spool is not open.
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

    /// Logs changes only.
    fn tell(&self, way: SpoolOp, error: Option<&SpoolError>) {
        let why = error.map(|error| fabriclens_base::error_chain::with_causes(error));
        if !self.counters.spool_fails(way, why.clone()) {
            return;
        }
        let [fails, works] = way.topics();
        match (why, way) {
            (Some(error), SpoolOp::Append) if self.counters.news(fails) => {
                tracing::warn!(error, "cannot write the spool; samples wait in memory only");
            }
            (Some(error), SpoolOp::Read) if self.counters.news(fails) => {
                tracing::warn!(error, "cannot read the spool; retrying");
            }
            (None, _) if self.counters.news(works) => tracing::info!("the spool is usable again"),
            // A flapping disk must not fill the log.
            _ => {}
        }
    }
}

/// Runs work on a blocking thread, as it may wait for a disk.
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
        counters.dropped(Buffer::Spool, points, reason);
        if counters.news(reason) {
            tracing::warn!(points, reason, "spooled requests are dropped; spool.size and spool.age are its limits");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Collector, Spool};
    use crate::ring::Ring;
    use crate::{PointBalance, Uplink};

    fn uplink(dir: &Path) -> (Arc<Counters>, SpoolTask) {
        let ring = Arc::new(Ring::new(64, 1));
        let uplink = Uplink::new(Collector::new("http://127.0.0.1:1"), "h", ring.reader(0), None).unwrap();
        let uplink = uplink.with_spool(&dir.join("samples"), &Spool::default());
        (uplink.counters(), uplink.live.spool_task.unwrap().0)
    }

    fn reasons(counters: &Arc<Counters>) -> String {
        counters.problems().join("; ")
    }

    #[tokio::test]
    async fn unreadable_segment_is_reported_and_point_counts_stay_exact() {
        let dir = tempfile::tempdir().unwrap();
        let (counters, spool_task) = uplink(dir.path());
        counters.own(7);
        assert!(spool_task.keep(Frame::kept(b"x".to_vec(), 0), 7).await);
        let segment = dir.path().join("samples/000000000001.spool");
        std::fs::remove_file(&segment).unwrap();
        std::os::unix::fs::symlink("/proc/self/mem", &segment).unwrap();
        assert!(spool_task.next().await.is_err());
        let reasons_text = reasons(&counters);
        assert!(
            reasons_text.contains("the spool cannot be read") && reasons_text.contains("symbolic links"),
            "{reasons_text}"
        );
        assert!(!reasons_text.contains("cannot be written"), "{reasons_text}");
        counters.own(5);
        assert!(spool_task.keep(Frame::kept(b"y".to_vec(), 0), 5).await, "appends still succeed");
        // As if it had been retried for a minute.
        let next = spool_task.with(|spool, counters| {
            let (lost, next) = spool.next(Instant::now() + Duration::from_secs(61));
            count(counters, lost);
            next
        });
        assert_eq!(next.await.unwrap().unwrap().unwrap().payload, b"y");
        assert!(matches!(spool_task.next().await, Ok(Some(_))));
        spool_task.check(0);
        let want = PointBalance { taken: 12, dropped: 7, spooled: 5, ..PointBalance::default() };
        assert_eq!((counters.accounts(), counters.dropped_for("spool_unreadable")), (want, 7));
        let reasons_text = reasons(&counters);
        assert!(
            reasons_text.contains("lost in the last ten minutes: 7 points since the start, reason spool_unreadable"),
            "{reasons_text}"
        );
        assert!(
            reasons_text.contains("parts of the spool are set aside: 1")
                && !reasons_text.contains("the spool cannot be read"),
            "{reasons_text}"
        );
    }

    #[expect(clippy::await_holding_lock, reason = "the held lock stands for a disk that hangs")]
    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_is_not_waited_for_and_the_accounts_stay_exact() {
        let dir = tempfile::tempdir().unwrap();
        let (counters, spool_task) = uplink(dir.path());
        counters.own(7);
        let frame = || Frame::kept(b"x".to_vec(), 0);
        let hang = spool_task.spool.lock();
        let (kept, ()) = tokio::join!(spool_task.keep(frame(), 7), async {
            tokio::task::yield_now().await;
            tokio::time::advance(PATIENCE * 2).await;
        });
        assert!(!kept && !spool_task.keep(frame(), 7).await, "a hanging spool gets no second append");
        assert!(counters.disk().failure.unwrap().contains("timed out"));
        counters.acked(Buffer::Memory, 7, 0);
        drop(hang);
        while spool_task.hanging.lock().strong_count() > 0 {
            tokio::task::yield_now().await;
        }
        spool_task.check(0);
        let want = PointBalance { taken: 7, found: 7, acked: 7, spooled: 7, ..PointBalance::default() };
        assert_eq!((counters.accounts(), counters.disk().failure), (want, None));
    }
}
