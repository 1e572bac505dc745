//! Durable queue of one target: a bounded log of the selected samples, written before senders are answered, and a
//! cursor up to which everything was sent. Writers share one fsync; one [`super::sender`] reads.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_base::owned;
use fabriclens_model::Matcher;
use fabriclens_store::io::Files;
use fabriclens_store::{Clock, RowGroup};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::segment::{self, Cursor, HEADER, Segment};
use super::state::State;
use fabriclens_core::forward_telemetry::ForwardTelemetry;

/// Size at which a new segment begins; less for small queues, which drop whole segments.
const SEGMENT: u64 = 64 << 20;
/// Most column lists per segment; beyond it a new segment begins.
const LISTS: usize = 200_000;
/// The size limit of a queue spans at least this many segments.
const MIN_SEGMENTS: u64 = 16;

/// Limits of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes on disk.
    pub bytes: u64,
    /// Samples queued longer ago than this are dropped; `None` keeps them.
    pub age: Option<Duration>,
    /// A full queue refuses new samples instead of dropping the oldest.
    pub refuses: bool,
}

/// An append failed; none of its samples is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The disk failed.
    #[error(
        "cannot make samples durable in {path}: {message}; no samples are acknowledged until the disk accepts writes"
    )]
    Log {
        /// Queue directory.
        path: PathBuf,
        /// Error of the system.
        message: String,
    },
    /// The queue is full and refuses new samples.
    #[error(
        "the queue of the remote engine is full ({bytes} bytes) because the engine does not accept samples; restore it, or raise store.size"
    )]
    Full {
        /// Bytes that wait.
        bytes: u64,
    },
}

/// A durable queue.
pub struct Queue {
    dir: PathBuf,
    files: Arc<dyn Files>,
    /// Selectors; a series that matches one of these lists is queued, and without any, all are.
    select: Vec<Vec<Matcher>>,
    limits: Limits,
    /// Clock by which age is measured, Unix ms.
    clock: Clock,
    telemetry: ForwardTelemetry,
    cursor: File,
    state: Mutex<State>,
    changed: Condvar,
}

/// Position of the reader.
pub(super) enum Next {
    /// Durable bytes of a segment from the cursor on: number, offset and end, and the end of a window that may have
    /// been sent before.
    Bytes { segment: u64, from: u64, end: u64, until: Option<u64> },
    /// No data.
    Empty,
    /// The queue was stopped.
    Stopped,
}

impl Queue {
    /// Opens or creates the queue in `dir`; `clock` (Unix ms) determines the age of samples.
    ///
    /// # Errors
    /// If the directory or a file in it cannot be read or created.
    pub fn open(
        files: Arc<dyn Files>,
        dir: &Path,
        select: Vec<Vec<Matcher>>,
        limits: Limits,
        clock: Clock,
        telemetry: ForwardTelemetry,
    ) -> io::Result<Self> {
        files.create_dir(dir)?;
        let (segments, total) = segment::list(&*files, dir)?;
        let path = dir.join("cursor");
        let cursor = owned::read_and_write(&path)?;
        let mut at = Cursor::load(&cursor).unwrap_or_default();
        match segments.iter().find(|s| s.number >= at.segment) {
            Some(s) if s.number == at.segment => {}
            // The segment of the cursor is gone or was never there: continues with the oldest one.
            Some(s) => at = begin(s),
            None => {
                let newest = segments.last().map_or(0, |s| s.number);
                let done = at.done.max(total);
                at = Cursor { segment: newest.max(at.segment) + 1, offset: HEADER as u64, until: 0, done };
            }
        }
        let state = State { segments: segments.into(), total: total.max(at.done), at, ..State::default() };
        let queue = Self {
            dir: dir.into(),
            files,
            select,
            limits,
            clock,
            telemetry,
            cursor,
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        let mut state = queue.state.lock();
        queue.remove_done(&mut state);
        queue.observe(&state);
        drop(state);
        Ok(queue)
    }

    /// Queues the selected samples; returns when they survive a crash.
    ///
    /// # Errors
    /// [`QueueError`]; no sample of this call is acknowledged. Samples that were queued nevertheless may be sent twice.
    pub fn append(&self, groups: &[RowGroup]) -> Result<(), QueueError> {
        let mut s = self.state.lock();
        self.ready(&mut s)?;
        let (before, mut newest) = (s.pending.len(), None);
        for group in groups {
            if s.encode(group, &self.select) {
                newest = newest.max(group.times.iter().max());
            }
        }
        if s.pending.len() == before {
            return Ok(());
        }
        s.appended += 1;
        let ticket = s.appended;
        self.commit(&mut s, ticket)?;
        drop(s);
        self.telemetry.queued(newest.copied());
        Ok(())
    }

    /// Prepares an append: recovers from a failure, enforces the limits, starts a new segment if needed.
    fn ready(&self, s: &mut MutexGuard<'_, State>) -> Result<(), QueueError> {
        let most = (self.limits.bytes / MIN_SEGMENTS).clamp(64 << 10, SEGMENT);
        if s.failure.is_some() && !s.writing {
            // The kernel may have dropped any unsynced byte of the failed file, so a new one takes everything that is
            // not durable before more is accepted.
            s.failure = None;
            (s.out, s.open) = (None, false);
            let upto = s.appended;
            self.commit(s, upto)?;
        }
        while s.known.len() > LISTS || s.open && s.last_len() + s.pending.len() as u64 >= most {
            let upto = s.appended;
            self.commit(s, upto)?;
            if s.pending.is_empty() && !s.writing {
                s.seal();
            }
        }
        self.enforce_limits(s);
        let held = s.bytes() + s.pending.len() as u64;
        if self.limits.refuses && held >= self.limits.bytes {
            return Err(QueueError::Full { bytes: held });
        }
        Ok(())
    }

    /// Returns when the append with this number is durable. One caller writes for all that wait.
    fn commit(&self, s: &mut MutexGuard<'_, State>, ticket: u64) -> Result<(), QueueError> {
        loop {
            if s.durable >= ticket {
                return Ok(());
            }
            if let Some(message) = s.failure.clone() {
                return Err(QueueError::Log { path: self.dir.clone(), message });
            }
            if s.writing {
                self.changed.wait(s);
                continue;
            }
            let mut work = s.take();
            let result = MutexGuard::unlocked(s, || work.run(&*self.files, &self.dir));
            s.done(work, result, &self.dir);
            self.observe(s);
            self.changed.notify_all();
        }
    }

    /// Drops the oldest segments beyond the limits.
    fn enforce_limits(&self, s: &mut State) {
        let oldest =
            self.limits.age.map(|a| (self.clock)().saturating_sub(i64::try_from(a.as_millis()).unwrap_or(i64::MAX)));
        while let Some(first) = s.segments.front().copied() {
            let last = s.segments.len() == 1;
            let old = oldest.is_some_and(|t| first.last_ms < t) && !(last && (s.writing || !s.pending.is_empty()));
            let large = !self.limits.refuses && s.bytes() > self.limits.bytes && !last;
            if !old && !large {
                break;
            }
            let end = s.segments.get(1).map_or(s.total, |next| next.first);
            let samples = end.saturating_sub(s.at.done);
            self.telemetry.dropped(if old { "age" } else { "size" }, samples);
            if samples > 0 {
                let queue = self.dir.display();
                tracing::warn!(%queue, samples, "oldest queued samples dropped; the receiver accepts fewer than arrive");
            }
            match s.segments.get(1).copied() {
                Some(next) => s.at = begin(&next),
                None => {
                    s.seal();
                    s.at = Cursor { segment: first.number + 1, offset: HEADER as u64, until: 0, done: s.total };
                }
            }
            self.save(s);
            self.remove_done(s);
        }
        self.observe(s);
    }

    /// Returns the data after the cursor; waits up to `timeout` for it.
    pub(super) fn next(&self, timeout: Duration) -> Next {
        let until = Instant::now() + timeout;
        let mut s = self.state.lock();
        loop {
            if s.stopped {
                return Next::Stopped;
            }
            if let Some(found) = s.segments.iter().find(|g| g.number >= s.at.segment).copied() {
                if found.number > s.at.segment {
                    s.at = begin(&found);
                }
                if s.at.offset < found.len {
                    let sent = (s.at.until > s.at.offset && s.at.until <= found.len).then_some(s.at.until);
                    return Next::Bytes { segment: found.number, from: s.at.offset, end: found.len, until: sent };
                }
                if let Some(later) = s.segments.iter().find(|g| g.number > found.number).copied() {
                    s.at = begin(&later);
                    self.remove_done(&mut s);
                    continue;
                }
            }
            if self.changed.wait_until(&mut s, until).timed_out() {
                self.enforce_limits(&mut s);
                return Next::Empty;
            }
        }
    }

    /// Reads bytes of a segment.
    pub(super) fn read(&self, number: u64, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.files.open(&self.dir.join(segment::name(number)))?.read_at(offset, len)
    }

    /// Records that everything up to `until` is about to be sent.
    pub(super) fn intend(&self, segment: u64, until: u64) {
        let mut s = self.state.lock();
        if !s.stopped && s.at.segment == segment {
            s.at.until = until;
            self.save(&s);
        }
    }

    /// Moves the cursor to `until`, past `samples` samples.
    pub(super) fn advance(&self, segment: u64, until: u64, samples: u64) {
        let mut s = self.state.lock();
        // The window was dropped meanwhile, or another process uses the queue.
        if s.stopped || s.at.segment != segment || s.at.offset >= until {
            return;
        }
        let mut done = s.at.done.saturating_add(samples);
        let here = s.segments.iter().position(|g| g.number == segment);
        if let Some(i) = here.filter(|i| s.segments[*i].len <= until) {
            // Nothing of this segment is left, so missing samples were unreadable.
            let end = s.segments.get(i + 1).map_or(s.total, |next| next.first);
            self.telemetry.dropped("damaged", end.saturating_sub(done));
            done = end;
        }
        s.at = Cursor { segment, offset: until, until: 0, done };
        self.save(&s);
        self.remove_done(&mut s);
        self.observe(&s);
    }

    /// Whether the window that begins here is still to be sent; enforces the limits.
    pub(super) fn holds(&self, segment: u64, from: u64) -> bool {
        let mut s = self.state.lock();
        self.enforce_limits(&mut s);
        s.at.segment == segment && s.at.offset == from
    }

    /// Sleeps, at most until [`Queue::stop`]; returns `false` once the queue is stopped.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut s = self.state.lock();
        while !s.stopped && !self.changed.wait_until(&mut s, until).timed_out() {}
        !s.stopped
    }

    /// Stops the sender; queued samples stay.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }

    /// The failure that keeps samples from being queued at present.
    pub fn failure(&self) -> Option<String> {
        self.state.lock().failure.clone()
    }

    fn save(&self, s: &State) {
        if let Err(error) = s.at.save(&self.cursor) {
            tracing::warn!(queue = %self.dir.display(), %error, "cannot write the cursor; after a crash samples are sent twice");
        }
    }

    /// Removes segments before the cursor; one that cannot be removed is tried again at the next start.
    fn remove_done(&self, s: &mut State) {
        while s.segments.front().is_some_and(|g| g.number < s.at.segment) {
            let Some(gone) = s.segments.pop_front() else { break };
            if let Err(error) = self.files.remove(&self.dir.join(segment::name(gone.number))) {
                tracing::warn!(queue = %self.dir.display(), %error, "cannot remove a sent segment");
            }
        }
    }

    fn observe(&self, s: &State) {
        let before = s.segments.front().map_or(0, |g| if g.number == s.at.segment { s.at.offset } else { 0 });
        self.telemetry.pending(s.total.saturating_sub(s.at.done), s.bytes().saturating_sub(before));
    }
}

/// Cursor at the beginning of a segment.
fn begin(s: &Segment) -> Cursor {
    Cursor { segment: s.number, offset: HEADER as u64, until: 0, done: s.first }
}
