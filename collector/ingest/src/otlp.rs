//! Batches OTLP requests: several are written to the store with one sync.
//!
//! An agent sends a few hundred samples each second and waits for the answer. A thread per request would cost more than
//! the request itself, in context switches and memory. So the requests of a share of the senders queue at a
//! [`Batcher`]. One thread at a time decodes and writes all queued requests and commits them together, while the next
//! ones arrive. [`Pace`] says whether a batch waits for more requests before it is committed.

mod pace;
mod queue;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fabriclens_base::Sender;
use fabriclens_wire::decode::{CacheBudget, Decoder, Limits};
use parking_lot::Mutex;

use super::admission;
use super::exponential;
use super::foreign::Translations;
use super::hosts::Owners;
use super::reserved::ReservedColumns;
use super::unpack::Unpacker;
use super::{Ingest, IngestError, Report};
use fabriclens_forward::PendingWrite;
use fabriclens_model::{HistogramColumns, LayoutId};
use fabriclens_server::auth::{Caller, Hosts};
use pace::Pace;
pub(super) use queue::Job;
use queue::Queue;

/// Time after which the requests that were decoded are committed and answered, though others wait: large ones must not hold
/// back the answers of small ones.
const BATCH: Duration = Duration::from_millis(50);

/// A queue of requests with the state to decode them.
pub(super) struct Batcher {
    queue: Mutex<Queue>,
    state: Mutex<DecodeState>,
    /// Set if idle senders are to be forgotten by the thread at work.
    forget: AtomicBool,
    budget: Arc<CacheBudget>,
}

/// State reused for each request.
struct DecodeState {
    unpacker: Unpacker,
    decoder: Decoder,
    histograms: HistogramColumns,
    translations: Translations,
    owners: Owners,
    reserved: ReservedColumns,
    pace: Pace,
}

/// A request that is written and not yet committed.
struct Taken {
    report: Report,
    written: PendingWrite,
    /// Resources that are new to the decoder.
    new: Vec<u32>,
    /// Column lists as they came and as they are stored, to forget what is refused.
    lists: Vec<LayoutId>,
    caller: Caller,
}

impl Batcher {
    /// A batcher whose decoder shares this budget.
    pub(super) fn new(budget: Arc<CacheBudget>) -> Self {
        let state = Mutex::new(DecodeState::new(&budget));
        Self { queue: Mutex::default(), state, forget: AtomicBool::new(false), budget }
    }

    /// Queues a request. Returns true if no thread is at work; the caller must then run [`Batcher::work`].
    pub(super) fn push(&self, job: Job) -> bool {
        self.queue.lock().push(job)
    }

    /// Answers requests until the queue is empty. Blocks on the disk.
    pub(super) fn work(&self, ingest: &Ingest) {
        let _reset = ResetOnPanic(&self.queue);
        let mut state = self.state.lock();
        loop {
            if self.forget.swap(false, Ordering::Relaxed) {
                state.forget_idle();
            }
            let (mut taken, mut done) = (Vec::new(), Vec::new());
            let (until, mut last) = (Instant::now() + BATCH, None);
            loop {
                let in_hand = taken.len() + done.len();
                let Some(job) = self.next(in_hand, until) else {
                    let Some(pause) = state.pace.pause(Instant::now()).filter(|_| in_hand > 0) else { break };
                    std::thread::sleep(pause);
                    continue;
                };
                // A panic fails only its own request, without a retry delay; a retry would panic again.
                let took = catch_panic(|| state.take(&job, ingest)).unwrap_or_else(|error| {
                    *state = DecodeState::new(&self.budget);
                    Err(error)
                });
                match took {
                    Ok(new) => taken.push((job.answer, new)),
                    Err(e) => done.push((job.answer, Err(e))),
                }
                last = Some(job.caller);
            }
            if taken.is_empty() && done.is_empty() {
                return;
            }
            let timer = ingest.telemetry.append_seconds.start_timer();
            let (waiting, written): (Vec<_>, Vec<_>) =
                taken.into_iter().map(|(answer, t)| ((answer, t.report, t.new, t.lists, t.caller), t.written)).unzip();
            for ((answer, mut report, new, lists, caller), appended) in
                waiting.into_iter().zip(ingest.sink.commit(written))
            {
                if appended.as_ref().is_ok_and(|appended| appended.over_series_limit > 0) {
                    state.decoder.forget(&new);
                    state.forget(ingest, &caller, &lists);
                }
                let answer_with = appended.map_err(IngestError::from_sink).map(|appended| {
                    report.add(&appended, || ingest.store.refusal());
                    report
                });
                done.push((answer, answer_with));
            }
            timer.observe_duration();
            let sender = last.map(|caller| caller.sender()).unwrap_or_default();
            state.pace.committed(done.len(), sender, Instant::now());
            for (answer, answer_with) in done {
                // A sender that has gone retries; its samples then count as duplicates.
                _ = answer.send(answer_with);
            }
        }
    }

    /// Forgets idle senders, at once or by the thread at work. Does not wait.
    pub(super) fn forget_idle(&self) {
        match self.state.try_lock() {
            Some(mut state) => state.forget_idle(),
            None => self.forget.store(true, Ordering::Relaxed),
        }
    }

    /// Takes the next request, unless some are in hand and the time is over; ends the work if the queue is empty and no
    /// request is in hand.
    fn next(&self, in_hand: usize, until: Instant) -> Option<Job> {
        if in_hand > 0 && Instant::now() >= until {
            return None;
        }
        let mut queue = self.queue.lock();
        let job = queue.take();
        if job.is_none() && in_hand == 0 {
            queue.end();
        }
        job
    }
}

/// Runs `work` and turns a panic into an error.
fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, IngestError> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|_| IngestError::Internal("a panic (see the collector's log)".to_owned()))
}

/// Resets the queue after a panic: the next request finds it idle, and the senders of waiting ones retry.
struct ResetOnPanic<'a>(&'a Mutex<Queue>);

impl Drop for ResetOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            *self.0.lock() = Queue::default();
        }
    }
}

impl DecodeState {
    fn new(budget: &Arc<CacheBudget>) -> Self {
        Self {
            unpacker: Unpacker::default(),
            decoder: Decoder::sharing(Limits::default(), budget.clone()),
            histograms: HistogramColumns::default(),
            translations: Translations::new(budget.list_columns()),
            owners: Owners::default(),
            reserved: ReservedColumns::default(),
            pace: Pace::default(),
        }
    }

    /// Forgets column lists whose series were refused.
    fn forget(&mut self, ingest: &Ingest, caller: &Caller, lists: &[LayoutId]) {
        self.translations.forget(&ingest.foreign, caller, lists);
        self.owners.forget(lists);
        self.reserved.forget(lists);
    }

    fn forget_idle(&mut self) {
        self.decoder.forget_idle();
        self.histograms.forget_unused();
        self.translations.forget_unused();
        self.owners.forget_unused();
        self.reserved.forget_unused();
    }

    /// Writes a request to the store, not yet durable.
    fn take(&mut self, job: &Job, ingest: &Ingest) -> Result<Taken, IngestError> {
        let body = self.unpacker.unpack(job.compression, &job.body, ingest.message_size())?;
        ingest.telemetry.bytes.with_label_values(&[job.protocol.name()]).inc_by(body.len() as u64);
        let mut rows = self.decoder.bytes(body)?;
        let mut report = Report::from_rejected(&rows.rejected);
        exponential::to_rows(&mut rows, &mut self.histograms, &mut report);
        let decoded = report.rejected();
        let mut lists: Vec<LayoutId> = rows.groups.iter().map(|group| group.series.id()).collect();
        self.translations.apply(&ingest.foreign, &job.caller, &mut rows.groups, &mut rows.metadata, &mut report);
        if self.owners.keep_own(&mut rows.groups, &job.caller, &mut report) {
            let sender = admission::sender(job.protocol, body, &job.caller);
            // A caller bound to other hosts proves nothing about this one; neither do requests without usable points.
            if job.caller.hosts == Hosts::Any || sender.is_host() {
                ingest.conflicts.otlp(job.caller.address, body);
            }
            ingest.admission.record(&sender, Instant::now());
        }
        self.reserved.drop_from(&mut rows.groups, &mut report);
        let new = if rows.groups.is_empty() {
            // Only senders whose samples are stored may set metadata.
            self.decoder.forget_new();
            Vec::new()
        } else {
            ingest.remember(&job.caller, &rows.metadata, false);
            self.decoder.take_new()
        };
        if report.rejected() > decoded {
            // Series that the caller may not write.
            self.decoder.forget(&new);
            self.forget(ingest, &job.caller, &lists);
        }
        lists.extend(rows.groups.iter().map(|group| group.series.id()));
        let unbound = job.caller.unbound();
        let written = ingest.sink.write(rows.groups, Sender::of(unbound.as_deref()));
        let written = written.map_err(IngestError::from_sink)?;
        Ok(Taken { report, written, new, lists, caller: job.caller.clone() })
    }
}

#[cfg(test)]
impl Batcher {
    pub(super) fn known_lists(&self) -> usize {
        self.state.lock().reserved.len()
    }

    /// Simulates a panic.
    pub(super) fn clear(&self) {
        *self.queue.lock() = Queue::default();
    }

    /// Simulates a thread at work while the guard lives.
    pub(super) fn hold(&self) -> impl Drop + '_ {
        self.state.lock()
    }

    pub(super) fn forgets(&self) -> bool {
        self.forget.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unpack::Compression;
    use bytes::Bytes;
    use fabriclens_core::protocol::Protocol;
    use tokio::sync::oneshot;

    /// Longer than any test.
    const TIMEOUT: Duration = Duration::from_secs(600);

    #[test]
    fn panics_become_errors() {
        assert_eq!(catch_panic(|| 1).unwrap(), 1);
        let error = catch_panic(|| panic!("a decoder")).map(|()| 0).unwrap_err();
        assert!(error.after().is_none() && error.to_string().contains("a panic"), "{error}");
    }

    #[test]
    fn a_panic_resets_the_batcher() {
        let desk = Batcher::new(CacheBudget::new(1 << 20, 1));
        let put = || {
            let (answer, answered) = oneshot::channel();
            let caller = Caller::anonymous([127, 0, 0, 1].into());
            (
                desk.push(Job {
                    protocol: Protocol::OtlpGrpc,
                    caller,
                    compression: Compression::None,
                    body: Bytes::new(),
                    answer,
                }),
                answered,
            )
        };
        let (first, mut waits) = put();
        assert!(first && !put().0, "a thread is at work");
        assert!(waits.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Empty));
        let died = std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                let _reset = ResetOnPanic(&desk.queue);
                panic!("a decoder");
            });
            work.join()
        });
        assert!(died.is_err());
        assert!(
            waits.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Closed),
            "waiting requests are dropped"
        );
        assert!(put().0, "the next request starts a new thread");
        let next = |in_hand| desk.next(in_hand, Instant::now() + TIMEOUT);
        assert!(next(0).is_some() && next(1).is_none() && !put().0, "the thread continues while requests are in hand");
        assert!(desk.next(1, Instant::now()).is_none(), "requests in hand are answered when the time is over");
        assert!(next(0).is_some() && next(0).is_none() && put().0, "the thread ends without requests");
    }
}
