//! OTLP requests to the store's rows, several with one sync.
//!
//! An agent sends a few hundred samples each second and waits for the answer: a thread of its own for each request would
//! cost more than what is in it, in switches and in memory that each thread keeps. So the requests of a share of the
//! senders queue at a [`Desk`], at which one thread at a time decodes and writes what has come, commits all of it
//! together, and meanwhile the next ones come.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use fabriclens_wire::decode::Decoder;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::admission;
use super::hosts::Owners;
use super::unpack::{Packing, Unpacker};
use super::{Ingest, IngestError, Report};
use fabriclens_core::protocol::Protocol;
use fabriclens_forward::Written;
use fabriclens_server::auth::{Caller, Hosts};

/// A request that waits.
pub(super) struct Job {
    pub(super) way: Protocol,
    pub(super) caller: Caller,
    pub(super) packing: Packing,
    pub(super) body: Bytes,
    pub(super) answer: oneshot::Sender<Result<Report, IngestError>>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Desk {
    queue: Mutex<Queue>,
    tools: Mutex<Tools>,
    /// Senders that are gone are to be forgotten by who is at work.
    forget: AtomicBool,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Somebody is at work.
    busy: bool,
}

/// What is used again for each request.
#[derive(Default)]
struct Tools {
    unpacker: Unpacker,
    decoder: Decoder,
    owners: Owners,
}

impl Desk {
    /// Queues a request. True when nobody is at work: the caller then sees to it that [`Desk::work`] runs.
    pub(super) fn put(&self, job: Job) -> bool {
        let mut queue = self.queue.lock();
        queue.jobs.push_back(job);
        !std::mem::replace(&mut queue.busy, true)
    }

    /// Answers requests until there are none. Blocks on the disk.
    pub(super) fn work(&self, ingest: &Ingest) {
        let _left = Left(&self.queue);
        let mut tools = self.tools.lock();
        loop {
            if self.forget.swap(false, Ordering::Relaxed) {
                tools.forget_idle();
            }
            let (mut taken, mut done) = (Vec::new(), Vec::new());
            // Ends, since each sender that waits for its answer holds one of a limited number of turns.
            while let Some(job) = self.next(taken.len() + done.len()) {
                // Of those that wait none is lost by the one that panics, and that one is not told to come again.
                let took = caught(|| tools.take(&job, ingest)).unwrap_or_else(|error| {
                    *tools = Tools::default();
                    Err(error)
                });
                match took {
                    Ok((report, written)) => taken.push((job.answer, report, written)),
                    Err(e) => done.push((job.answer, Err(e))),
                }
            }
            if taken.is_empty() && done.is_empty() {
                return;
            }
            let timer = ingest.telemetry.append_seconds.start_timer();
            let (waiting, written): (Vec<_>, Vec<_>) = taken.into_iter().map(|(a, r, w)| ((a, r), w)).unzip();
            for ((answer, mut report), appended) in waiting.into_iter().zip(ingest.sink.commit(written)) {
                let told = appended.map_err(IngestError::from_sink).map(|appended| {
                    report.add(&appended, || ingest.store.refusal());
                    report
                });
                done.push((answer, told));
            }
            timer.observe_duration();
            for (answer, told) in done {
                // A sender that has gone sends again; what is stored then counts as a duplicate.
                _ = answer.send(told);
            }
        }
    }

    /// Forgets senders that were not heard of since the call before: at once, or when who is at work has answered. Waits
    /// for nobody.
    pub(super) fn forget_idle(&self) {
        match self.tools.try_lock() {
            Some(mut tools) => tools.forget_idle(),
            None => self.forget.store(true, Ordering::Relaxed),
        }
    }

    /// The next request; without one, and when none is in hand, work ends.
    fn next(&self, in_hand: usize) -> Option<Job> {
        let mut queue = self.queue.lock();
        let job = queue.jobs.pop_front();
        if job.is_none() && in_hand == 0 {
            queue.busy = false;
        }
        job
    }
}

/// What `work` makes, or what is left to say after its panic.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, IngestError> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|_| IngestError::Internal("a panic, which the collector's log tells".to_owned()))
}

/// After a panic the next request finds the desk free; those that waited are told to come again.
struct Left<'a>(&'a Mutex<Queue>);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            *self.0.lock() = Queue::default();
        }
    }
}

impl Tools {
    fn forget_idle(&mut self) {
        self.decoder.forget_idle();
        self.owners.forget_unused();
    }

    /// Puts a request into the store, not yet durable.
    fn take(&mut self, job: &Job, ingest: &Ingest) -> Result<(Report, Written), IngestError> {
        let body = self.unpacker.unpack(job.packing, &job.body, ingest.message_size())?;
        ingest.telemetry.bytes.with_label_values(&[job.way.name()]).inc_by(body.len() as u64);
        let mut rows = self.decoder.bytes(body)?;
        let mut report = Report::from_rejected(&rows.rejected);
        if self.owners.keep_own(&mut rows.groups, &job.caller, &mut report) {
            let sender = admission::sender(job.way, body, &job.caller);
            // What somebody says in another's name is no sign that the other is there twice; and what has no points, or
            // none that can be used, is said in any name.
            if job.caller.hosts == Hosts::Any || matches!(sender, Cow::Borrowed(_)) {
                ingest.conflicts.otlp(job.caller.address, body);
            }
            ingest.admission.took(&sender, Instant::now());
        }
        if rows.groups.is_empty() {
            // Who sends samples of these metrics tells what they mean.
            self.decoder.forget_new();
        } else {
            ingest.remember(&rows.metadata);
        }
        Ok((report, ingest.sink.write(rows.groups).map_err(IngestError::from_sink)?))
    }
}

#[cfg(test)]
impl Desk {
    /// As after a panic.
    pub(super) fn clear(&self) {
        *self.queue.lock() = Queue::default();
    }

    /// As long as this lives, somebody is at work.
    pub(super) fn hold(&self) -> impl Drop + '_ {
        self.tools.lock()
    }

    pub(super) fn forgets(&self) -> bool {
        self.forget.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_answer() {
        assert_eq!(caught(|| 1).unwrap(), 1);
        let error = caught(|| panic!("a decoder")).map(|()| 0).unwrap_err();
        assert!(error.after().is_none() && error.to_string().contains("a panic"), "{error}");
    }

    #[test]
    fn a_desk_is_free_again_after_a_panic_and_nobody_waits_for_ever() {
        let desk = Desk::default();
        let put = || {
            let (answer, answered) = oneshot::channel();
            let caller = Caller::anybody([127, 0, 0, 1].into());
            (
                desk.put(Job { way: Protocol::OtlpGrpc, caller, packing: Packing::None, body: Bytes::new(), answer }),
                answered,
            )
        };
        let (first, mut waits) = put();
        assert!(first && !put().0, "one is at work");
        assert!(waits.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Empty));
        let died = std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                let _left = Left(&desk.queue);
                panic!("a decoder");
            });
            work.join()
        });
        assert!(died.is_err());
        assert!(waits.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Closed), "told to come again");
        assert!(put().0, "the next one finds nobody at work");
        assert!(desk.next(0).is_some() && desk.next(1).is_none() && !put().0, "at work while requests are in hand");
        assert!(desk.next(0).is_some() && desk.next(0).is_none() && put().0, "without any it ends");
    }
}
