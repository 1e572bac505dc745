//! The durable queue of one target: a bounded log of what was selected, written before the sender is answered, and the
//! cursor behind which everything is done with. Writers share an fsync; one [`super::sender`] reads.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_model::Matcher;
use fabriclens_store::io::Files;
use fabriclens_store::{Clock, RowGroup};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::segment::{self, Cursor, HEADER, Segment};
use super::state::State;
use fabriclens_core::telemetry::ForwardTelemetry;

/// A segment that is this large is followed by a new one; smaller for small queues, which drop whole segments.
const SEGMENT: u64 = 64 << 20;
/// Column lists that are remembered; beyond, a new segment begins.
const LISTS: usize = 200_000;
/// A queue's bound holds at least this many segments.
const PARTS: u64 = 16;

/// What a queue may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes on disk.
    pub bytes: u64,
    /// Older samples (by when they were queued) are dropped; `None` keeps them.
    pub age: Option<Duration>,
    /// A full queue refuses new samples instead of dropping the oldest.
    pub refuses: bool,
}

/// Why nothing of an append was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The disk says no.
    #[error("cannot make samples durable in {path}: {message}; nothing is acknowledged until the disk takes writes")]
    Log {
        /// The queue's directory.
        path: PathBuf,
        /// What the system said.
        message: String,
    },
    /// The queue refuses, and holds this much.
    #[error("{bytes} bytes wait for a remote engine that does not take them; bring it back, or raise store.size")]
    Full {
        /// Bytes that wait.
        bytes: u64,
    },
}

/// See the module.
pub struct Queue {
    dir: PathBuf,
    files: Arc<dyn Files>,
    /// A series goes in when it fits one of these lists; without any, all do.
    select: Vec<Vec<Matcher>>,
    limits: Limits,
    /// What age is measured by, Unix ms.
    clock: Clock,
    telemetry: ForwardTelemetry,
    cursor: File,
    state: Mutex<State>,
    changed: Condvar,
}

/// Where the reader stands, as far as the queue knows.
pub(super) enum Next {
    /// Durable bytes of a segment from the cursor on: number, offset, end; and the end of what must be one window.
    Bytes { segment: u64, from: u64, end: u64, until: Option<u64> },
    /// Nothing yet.
    Empty,
    /// No more: the process ends.
    Stopped,
}

impl Queue {
    /// Opens or creates the queue in `dir`; `clock` (Unix ms) says what is too old.
    ///
    /// # Errors
    /// When the directory or a file in it cannot be read or made.
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
        let cursor = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut at = Cursor::load(&cursor).unwrap_or_default();
        match segments.iter().find(|s| s.number >= at.segment) {
            Some(s) if s.number == at.segment => {}
            // Its segment is gone (or was never there): go on with the oldest that is left.
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

    /// Queues what is selected of these rows; returns when it survives a crash.
    ///
    /// # Errors
    /// [`QueueError`]: nothing of this call is acknowledged; what was queued nevertheless may be sent twice.
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

    /// Makes room for another append: heals after a failure, keeps the bounds, starts a new segment when it is time.
    fn ready(&self, s: &mut MutexGuard<'_, State>) -> Result<(), QueueError> {
        let most = (self.limits.bytes / PARTS).clamp(64 << 10, SEGMENT);
        if s.failure.is_some() && !s.busy {
            // The kernel may have dropped any byte of the failed file: a new one takes what was not durable, before
            // anything more is taken in.
            s.failure = None;
            (s.out, s.open) = (None, false);
            let upto = s.appended;
            self.commit(s, upto)?;
        }
        while s.known.len() > LISTS || s.open && s.last_len() + s.pending.len() as u64 >= most {
            let upto = s.appended;
            self.commit(s, upto)?;
            if s.pending.is_empty() && !s.busy {
                s.seal();
            }
        }
        self.bound(s);
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
            if s.busy {
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

    /// Drops the oldest segments beyond the bounds.
    fn bound(&self, s: &mut State) {
        let oldest =
            self.limits.age.map(|a| (self.clock)().saturating_sub(i64::try_from(a.as_millis()).unwrap_or(i64::MAX)));
        while let Some(first) = s.segments.front().copied() {
            let last = s.segments.len() == 1;
            let old = oldest.is_some_and(|t| first.last_ms < t) && !(last && (s.busy || !s.pending.is_empty()));
            let large = !self.limits.refuses && s.bytes() > self.limits.bytes && !last;
            if !old && !large {
                break;
            }
            let end = s.segments.get(1).map_or(s.total, |next| next.first);
            let samples = end.saturating_sub(s.at.done);
            self.telemetry.dropped(if old { "age" } else { "size" }, samples);
            if samples > 0 {
                let queue = self.dir.display();
                tracing::warn!(%queue, samples, "oldest queued samples dropped; the remote takes less than comes in");
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

    /// What comes after the cursor, waiting up to `patience` for it.
    pub(super) fn next(&self, patience: Duration) -> Next {
        let until = Instant::now() + patience;
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
                self.bound(&mut s);
                return Next::Empty;
            }
        }
    }

    /// Bytes of a segment.
    pub(super) fn read(&self, number: u64, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.files.open(&self.dir.join(segment::name(number)))?.read_at(offset, len)
    }

    /// Notes that everything up to `until` is about to be sent.
    pub(super) fn intend(&self, segment: u64, until: u64) {
        let mut s = self.state.lock();
        if !s.stopped && s.at.segment == segment {
            s.at.until = until;
            self.save(&s);
        }
    }

    /// Everything up to `until`, `samples` of them, is done with.
    pub(super) fn advance(&self, segment: u64, until: u64, samples: u64) {
        let mut s = self.state.lock();
        // Dropped meanwhile, or another process may have the queue already.
        if s.stopped || s.at.segment != segment || s.at.offset >= until {
            return;
        }
        let mut done = s.at.done.saturating_add(samples);
        let here = s.segments.iter().position(|g| g.number == segment);
        if let Some(i) = here.filter(|i| s.segments[*i].len <= until) {
            // Nothing of this segment is left, so what is missing now could not be read.
            let end = s.segments.get(i + 1).map_or(s.total, |next| next.first);
            self.telemetry.dropped("damaged", end.saturating_sub(done));
            done = end;
        }
        s.at = Cursor { segment, offset: until, until: 0, done };
        self.save(&s);
        self.remove_done(&mut s);
        self.observe(&s);
    }

    /// Whether the stretch that begins here is still to be sent; applies the bounds.
    pub(super) fn holds(&self, segment: u64, from: u64) -> bool {
        let mut s = self.state.lock();
        self.bound(&mut s);
        s.at.segment == segment && s.at.offset == from
    }

    /// Sleeps, but not beyond [`Queue::stop`]; `false` when that has come.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut s = self.state.lock();
        while !s.stopped && !self.changed.wait_until(&mut s, until).timed_out() {}
        !s.stopped
    }

    /// Ends the sender. What is queued stays.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Why samples cannot be queued right now.
    pub fn failure(&self) -> Option<String> {
        self.state.lock().failure.clone()
    }

    fn save(&self, s: &State) {
        if let Err(error) = s.at.save(&self.cursor) {
            tracing::warn!(queue = %self.dir.display(), %error, "cursor not written; after a crash samples are sent twice");
        }
    }

    /// Removes segments before the cursor; one that cannot be removed is tried again at the next start.
    fn remove_done(&self, s: &mut State) {
        while s.segments.front().is_some_and(|g| g.number < s.at.segment) {
            let Some(gone) = s.segments.pop_front() else { break };
            if let Err(error) = self.files.remove(&self.dir.join(segment::name(gone.number))) {
                tracing::warn!(queue = %self.dir.display(), %error, "cannot remove a segment that was sent");
            }
        }
    }

    fn observe(&self, s: &State) {
        let before = s.segments.front().map_or(0, |g| if g.number == s.at.segment { s.at.offset } else { 0 });
        self.telemetry.pending(s.total.saturating_sub(s.at.done), s.bytes().saturating_sub(before));
    }
}

/// The cursor at the beginning of a segment.
fn begin(s: &Segment) -> Cursor {
    Cursor { segment: s.number, offset: HEADER as u64, until: 0, done: s.first }
}
