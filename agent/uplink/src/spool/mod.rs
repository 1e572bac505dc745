//! On-disk buffer of encoded requests while the collector is unreachable: bounded by size and age, oldest first out.
//!
//! The uplink appends what it cannot deliver and reads it back later. One process at a time uses a spool. Appended
//! requests survive the end of the process at any byte; a crash of the machine may lose the last five seconds. A failed
//! append keeps what was there before. Not shared with the collector's forward queue: there, records refer to column
//! lists in their segment, and many senders wait for the sync of each append; here records are opaque and appends do
//! not sync.

mod quarantine;
mod recovery;
mod segment;
#[cfg(test)]
mod tests;

use fabriclens_agent_host::clock::Clock;
use fabriclens_base::owned;
pub use recovery::{Usage, usage};
use segment::{Cursor, HEADER, Head, QuarantinedSegment};
use std::collections::VecDeque;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest time until an append is synced to disk.
const SYNC: Duration = Duration::from_secs(5);
/// Least number of segments of a full spool: one segment is dropped at a time.
const PARTS: u64 = 16;
/// Range of segment sizes.
const SEGMENT: std::ops::RangeInclusive<u64> = (64 << 10)..=(4 << 20);

/// Time for which requests found at startup are not dropped by age, as the clock may be wrong.
const DOUBT: Duration = Duration::from_secs(3600);

/// Limits of a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes on disk.
    pub bytes: u64,
    /// Age after which requests are dropped, by the monotonic clock: a step of the wall clock drops nothing.
    pub age: Duration,
}

/// One instant on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Unix ns.
    pub wall_ns: u64,
    /// Monotonic time.
    pub at: Instant,
}

impl Now {
    /// Current time of a clock.
    pub fn of(clock: &Clock) -> Self {
        let at = Instant::now();
        Self { wall_ns: clock.wall(at), at }
    }
}

/// Reason why a spool cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Another process uses the directory.
    #[error("{dir} is in use by another process; give each agent a spool.dir of its own")]
    Busy {
        /// The directory.
        dir: PathBuf,
    },
    /// The file system is nearly full, and the rest is left to other programs.
    #[error("{dir} has {free} bytes free; the spool takes at most half of what is free")]
    Full {
        /// The directory.
        dir: PathBuf,
        /// Bytes free.
        free: u64,
    },
    /// Input or output failed.
    #[error("{dir}: {source}; check free space, permissions and the disk")]
    Io {
        /// The directory.
        dir: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

/// Points that were appended and will not be delivered, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Dropped by [`Limits::bytes`].
    pub size: u64,
    /// Dropped by [`Limits::age`].
    pub age: u64,
    /// Damaged by the disk or by another writer.
    pub damaged: u64,
    /// Unreadable and set aside; a later start may deliver them.
    pub unreadable: u64,
}

impl Lost {
    /// Counts with their label values.
    pub fn reasons(self) -> [(&'static str, u64); 4] {
        let Self { size, age, damaged, unreadable } = self;
        [("spool_size", size), ("spool_age", age), ("spool_damaged", damaged), ("spool_unreadable", unreadable)]
    }
}

/// Contents of a spool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolContents {
    /// Points waiting.
    pub points: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Time at which the oldest was written, Unix ns.
    pub oldest_ns: Option<u64>,
    /// Segments set aside: of a later release, or unreadable.
    pub aside: u64,
}

/// A request read from the spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Payload as appended.
    pub payload: Vec<u8>,
    /// Encoding as appended.
    pub encoding: u8,
    /// Points in it.
    pub points: u64,
    segment: u64,
    at: u64,
    end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    number: u64,
    /// Bytes in use.
    end: u64,
    /// Points waiting.
    points: u64,
    first_ns: u64,
    /// Time at which its newest request expires.
    until: Instant,
}

/// Next item of a segment.
enum Next {
    Request(Request),
    Damaged { end: u64, points: u64 },
    None,
}

/// An open spool.
#[derive(Debug)]
pub struct Spool {
    dir: PathBuf,
    limits: Limits,
    segments: VecDeque<Segment>,
    aside: Vec<QuarantinedSegment>,
    /// Number of the oldest segment, and the time since when it cannot be read.
    stuck: Option<(u64, Instant)>,
    at: Cursor,
    cursor: File,
    /// Newest segment, open for writing.
    out: Option<File>,
    /// Oldest segment, open for reading.
    reading: Option<(u64, File)>,
    /// Highest segment number in use.
    newest: u64,
    unreadable: u64,
    synced: Instant,
    _lock: File,
}

impl Spool {
    /// Opens or creates the spool in `dir`, whose parent must exist.
    ///
    /// # Errors
    /// [`SpoolError`] if it cannot be read and written.
    pub fn open(dir: &Path, limits: Limits, now: Now) -> Result<Self, SpoolError> {
        let wrong = |source| SpoolError::Io { dir: dir.to_owned(), source };
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(wrong(e)),
            _ => {}
        }
        owned::check_dir(dir).map_err(wrong)?;
        let lock = owned::read_and_write(&dir.join("lock")).map_err(wrong)?;
        match rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(SpoolError::Busy { dir: dir.to_owned() }),
            other => other.map_err(|e| wrong(e.into()))?,
        }
        let cursor = owned::read_and_write(&dir.join("cursor")).map_err(wrong)?;
        let at = Cursor::load(&cursor).unwrap_or_default();
        let mut spool = Self {
            dir: dir.to_owned(),
            limits,
            segments: VecDeque::new(),
            aside: Vec::new(),
            stuck: None,
            at,
            cursor,
            out: None,
            reading: None,
            newest: 0,
            unreadable: 0,
            synced: Instant::now(),
            _lock: lock,
        };
        spool.look(now).map_err(wrong)?;
        Ok(spool)
    }

    /// Contents of the spool.
    pub fn held(&self) -> SpoolContents {
        SpoolContents {
            points: self.segments.iter().map(|s| s.points).sum(),
            bytes: self.bytes(),
            oldest_ns: self.segments.iter().map(|s| s.first_ns).min(),
            aside: self.aside().0,
        }
    }

    /// True if no request waits.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Appends a request with this number of points. Returns the points that the limits dropped, whether it fails or
    /// not.
    ///
    /// # Errors
    /// [`SpoolError`]: the request was not appended; earlier ones are kept.
    pub fn append(&mut self, payload: &[u8], encoding: u8, points: u64, now: Now) -> (Lost, Result<(), SpoolError>) {
        let Ok(len) = u32::try_from(payload.len()) else {
            return (Lost::default(), Err(self.wrong(io::ErrorKind::FileTooLarge.into())));
        };
        let head = Head { len, points, time_ns: now.wall_ns, encoding, crc: crc32fast::hash(payload) };
        let lost = self.bound(head.size() + HEADER as u64, now.at);
        let room = self.leave_room(head.size());
        (lost, room.and_then(|()| self.write(&head, payload, now).map_err(|e| self.wrong(e))))
    }

    /// Fails if the file system is nearly full: the spool must not take the space of other programs.
    fn leave_room(&self, more: u64) -> Result<(), SpoolError> {
        let disk = rustix::fs::fstatvfs(&self.cursor).map_err(|e| self.wrong(e.into()))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let dir = || self.dir.clone();
        if free < self.bytes() + more { Err(SpoolError::Full { dir: dir(), free }) } else { Ok(()) }
    }

    fn write(&mut self, head: &Head, payload: &[u8], now: Now) -> io::Result<()> {
        let most = (self.limits.bytes / PARTS).clamp(*SEGMENT.start(), *SEGMENT.end());
        if self.segments.back().is_some_and(|last| last.end + head.size() > most) {
            self.seal()?;
        }
        let out = match self.out.take() {
            Some(out) => out,
            None => self.begin(now)?,
        };
        let Some(last) = self.segments.back_mut() else { return Err(io::ErrorKind::NotFound.into()) };
        let mut record = head.bytes();
        record.extend_from_slice(payload);
        let due = self.synced.elapsed() >= SYNC;
        let written = out.write_all_at(&record, last.end);
        let written = written.and_then(|()| if due { out.sync_data() } else { Ok(()) });
        if written.is_ok() {
            last.end += record.len() as u64;
            last.points += head.points;
            last.until = now.at + self.limits.age;
        }
        // A failed append is cut off. If that fails too, the next append starts a new segment.
        if written.is_ok() || out.set_len(last.end).is_ok() {
            self.out = Some(out);
        }
        if due {
            self.synced = Instant::now();
        }
        written
    }

    /// Creates a new segment at the end.
    fn begin(&mut self, now: Now) -> io::Result<File> {
        let number = self.newest + 1;
        self.newest = number;
        let path = self.path(number);
        let out = owned::options().write(true).create_new(true).open(&path)?;
        let written = out.write_all_at(&segment::header(number), 0);
        if let Err(error) = written.and_then(|()| File::open(&self.dir)?.sync_all()) {
            self.remove(number);
            return Err(error);
        }
        let end = HEADER as u64;
        self.segments.push_back(Segment { number, end, points: 0, first_ns: now.wall_ns, until: now.at });
        Ok(out)
    }

    /// Syncs appended requests, so that they survive a crash of the machine.
    ///
    /// # Errors
    /// When the sync fails.
    pub fn seal(&mut self) -> io::Result<()> {
        self.out.take().map_or(Ok(()), |out| out.sync_data())
    }

    /// Drops the oldest segments that are expired, or that exceed the limit together with `more` bytes.
    fn bound(&mut self, more: u64, now: Instant) -> Lost {
        self.bound_aside(more, now);
        let mut lost = Lost::default();
        while let Some(first) = self.segments.front().copied() {
            let old = first.until < now;
            if !old && self.bytes() + more <= self.limits.bytes {
                break;
            }
            *(if old { &mut lost.age } else { &mut lost.size }) += self.remove_first();
        }
        lost
    }

    /// Oldest request, which stays until [`Spool::done`], and the points lost before it.
    pub fn next(&mut self, now: Instant) -> (Lost, Result<Option<Request>, SpoolError>) {
        let mut lost = self.bound(0, now);
        let next = self.read(&mut lost, now).map_err(|e| self.wrong(e));
        (lost, next)
    }

    fn read(&mut self, lost: &mut Lost, now: Instant) -> io::Result<Option<Request>> {
        while let Some(first) = self.segments.front().copied() {
            match self.first_of(&first) {
                Ok(Next::Request(request)) => {
                    self.stuck = None;
                    return Ok(Some(request));
                }
                Ok(Next::Damaged { end, points }) => lost.damaged += self.pass(end, points),
                // Points that were counted and are no longer found were damaged.
                Ok(Next::None) => lost.damaged += self.remove_first(),
                Err(e) if e.kind() == io::ErrorKind::NotFound => lost.damaged += self.remove_first(),
                Err(e) if self.asks_again(&first, &e, now) => return Err(e),
                // Later segments must not wait for it.
                Err(e) => lost.unreadable += self.set_first_aside(&e),
            }
        }
        Ok(None)
    }

    /// Next item of the oldest segment.
    fn first_of(&mut self, first: &Segment) -> io::Result<Next> {
        if self.at.segment != first.number {
            self.at = Cursor { segment: first.number, offset: HEADER as u64 };
        }
        let file = match self.reading.take() {
            Some((number, file)) if number == first.number => file,
            _ => owned::read(&self.path(first.number))?,
        };
        let Some((at, head)) = segment::find(&file, self.at.offset, first.end)? else { return Ok(Next::None) };
        let payload = segment::payload(&file, at, &head)?;
        self.reading = Some((first.number, file));
        let (encoding, points, end) = (head.encoding, head.points, at + head.size());
        Ok(match payload {
            Some(payload) => Next::Request(Request { payload, encoding, points, segment: first.number, at, end }),
            None => Next::Damaged { end, points },
        })
    }

    /// Removes a settled request. Returns further points that left the spool, damaged after they were counted; `None`
    /// if a limit dropped the request in the meantime, and it was counted as dropped.
    pub fn done(&mut self, request: &Request) -> Option<Lost> {
        let held = self.segments.front().is_some_and(|first| first.number == request.segment);
        let held = held && self.at.offset <= request.at;
        let left = held.then(|| self.pass(request.end, request.points));
        left.map(|left| Lost { damaged: left.saturating_sub(request.points), ..Lost::default() })
    }

    /// Moves the cursor within the oldest segment; returns the points before it.
    fn pass(&mut self, upto: u64, points: u64) -> u64 {
        let Some(first) = self.segments.front_mut() else { return 0 };
        let points = points.min(first.points);
        first.points -= points;
        self.at.offset = upto;
        if upto < first.end {
            self.save();
            return points;
        }
        points + self.remove_first()
    }

    /// Removes the oldest segment; returns its points.
    fn remove_first(&mut self) -> u64 {
        let Some(first) = self.leave_first() else { return 0 };
        self.remove(first.number);
        first.points
    }

    /// Advances to the next segment.
    fn leave_first(&mut self) -> Option<Segment> {
        let first = self.segments.pop_front()?;
        if self.segments.is_empty() {
            self.out = None;
        }
        self.reading = None;
        self.at = Cursor { segment: first.number + 1, offset: HEADER as u64 };
        self.save();
        Some(first)
    }

    /// Removes a segment. If that fails it lies before the cursor, and the next start retries.
    fn remove(&self, number: u64) {
        let path = self.path(number);
        if let Err(error) = std::fs::remove_file(&path) {
            tracing::debug!(path = %path.display(), %error, "cannot remove a delivered spool segment");
        }
    }

    fn save(&self) {
        if let Err(error) = self.at.save(&self.cursor) {
            tracing::debug!(dir = %self.dir.display(), %error, "cannot write the spool cursor; after a restart requests are sent again, which has no effect");
        }
    }

    fn bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.end).sum::<u64>() + self.aside().1
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(segment::name(number))
    }

    fn wrong(&self, source: io::Error) -> SpoolError {
        SpoolError::Io { dir: self.dir.clone(), source }
    }
}
