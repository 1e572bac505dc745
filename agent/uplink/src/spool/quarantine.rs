//! Segments that cannot be delivered now: a later release wrote them, or the disk cannot read them. A quarantined
//! segment keeps its number under another name, so that no cursor ever passes it. Each start tries it again and
//! delivers what has become readable. Until then it counts towards the limits and is removed first.

use super::segment::{self, HEADER, QuarantinedSegment};
use super::{DOUBT, Now, Segment, Spool};
use fabriclens_base::owned;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

/// Time for which an unreadable segment is retried before it is set aside: a path to the disk may come back.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// True for temporary errors of this process or machine, which say nothing about the file.
pub(super) fn passes(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    number.is_some_and(|n| [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR, Errno::AGAIN].contains(&n))
}

impl Spool {
    /// Retries segments that were set aside; returns the numbers of those that can be delivered now.
    pub(super) fn take_back(&mut self, aside: Vec<u64>, now: Now) -> io::Result<Vec<u64>> {
        let mut back = Vec::new();
        for number in aside {
            let path = self.dir.join(segment::aside_name(number));
            let why = match owned::read(&path).and_then(|file| readable(&file)) {
                Err(error) if passes(&error) => return Err(error),
                Err(error) => error.to_string(),
                Ok(Some(why)) => why,
                Ok(None) => match std::fs::rename(&path, self.path(self.newest + 1)) {
                    Ok(()) => {
                        self.newest += 1;
                        back.push(self.newest);
                        continue;
                    }
                    Err(error) => error.to_string(),
                },
            };
            tracing::warn!(path = %path.display(), why, "spool segment is still unreadable");
            let until = self.written(number, now);
            self.keep_aside(number, until);
        }
        Ok(back)
    }

    /// Sets a segment aside that is not, or no longer, in the queue.
    pub(super) fn set_aside(&mut self, number: u64, why: &str, until: Instant) {
        let (path, to) = (self.path(number), self.dir.join(segment::aside_name(number)));
        match std::fs::rename(&path, &to) {
            Ok(()) => {
                tracing::warn!(
                    path = %to.display(), why,
                    "unreadable spool segment set aside; a start that can read it delivers it, within spool.size and spool.age"
                );
                self.keep_aside(number, until);
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), why, %error, "spool segment is not delivered and cannot be set aside");
            }
        }
    }

    /// Sets the oldest segment aside; returns its points.
    pub(super) fn set_first_aside(&mut self, why: &io::Error) -> u64 {
        let Some(first) = self.leave_first() else { return 0 };
        self.set_aside(first.number, &why.to_string(), first.until);
        first.points
    }

    /// Whether to retry an unreadable segment before later ones are read.
    pub(super) fn asks_again(&mut self, segment: &Segment, error: &io::Error, now: Instant) -> bool {
        if self.segments.len() == 1 {
            // A segment that cannot be read is not appended to either.
            self.out = None;
        }
        let since = self.stuck.filter(|(number, _)| *number == segment.number).map_or(now, |(_, since)| since);
        self.stuck = (!passes(error)).then_some((segment.number, since));
        passes(error) || now.saturating_duration_since(since) < PATIENCE
    }

    fn keep_aside(&mut self, number: u64, until: Instant) {
        let path = self.dir.join(segment::aside_name(number));
        let bytes = path.symlink_metadata().map_or(0, |meta| meta.len());
        self.aside.push(QuarantinedSegment { number, bytes, until });
    }

    /// Time at which an unread segment expires, by the time of its file.
    pub(super) fn written(&self, number: u64, now: Now) -> Instant {
        let names = [segment::aside_name(number), segment::name(number)];
        let meta = names.iter().find_map(|name| self.dir.join(name).symlink_metadata().ok());
        let since = meta.and_then(|meta| meta.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok());
        self.until(since.map_or(now.wall_ns, |since| since.as_nanos() as u64), now)
    }

    /// Time at which a request written at this Unix time, ns, expires.
    pub(super) fn until(&self, written_ns: u64, now: Now) -> Instant {
        let age = Duration::from_nanos(now.wall_ns.saturating_sub(written_ns));
        now.at + self.limits.age.saturating_sub(age).max(DOUBT.min(self.limits.age))
    }

    /// Removes quarantined segments that are expired, or that exceed the limit together with `more` bytes. Their points
    /// were counted when they were set aside; those of a later release are unknown.
    pub(super) fn bound_aside(&mut self, more: u64, now: Instant) {
        let full = |spool: &Self| spool.bytes() + more > spool.limits.bytes;
        while let Some(at) = self.aside.iter().position(|part| part.until < now || full(self)) {
            let QuarantinedSegment { number, bytes, until } = self.aside.remove(at);
            let path = self.dir.join(segment::aside_name(number));
            let bound = if until < now { "spool.age" } else { "spool.size" };
            tracing::warn!(path = %path.display(), bytes, bound, "spool segment that was set aside is removed");
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::debug!(path = %path.display(), %error, "cannot remove the spool segment; the next start retries");
            }
        }
    }

    /// Number and bytes of quarantined segments.
    pub(super) fn aside(&self) -> (u64, u64) {
        (self.aside.len() as u64, self.aside.iter().map(|part| part.bytes).sum())
    }
}

/// Reason why this release cannot read a segment; `None` if it can.
fn readable(file: &File) -> io::Result<Option<String>> {
    let Some(version) = segment::foreign(file) else {
        segment::find(file, HEADER as u64, file.metadata()?.len())?;
        return Ok(None);
    };
    Ok(Some(later(version)))
}

/// Reason for a segment of a later release.
pub(super) fn later(version: u32) -> String {
    format!("a later release wrote it (format {version})")
}
