//! Parts of a spool that are not delivered now: a later release wrote them, or the disk does not give them. They keep
//! their number under another name, so that no cursor is ever beyond them, and each start looks at them again: what can
//! be read then is delivered. Until then they count in the bounds, and leave first.

use super::{DOUBT, HEADER, Now, Segment, Spool, segment};
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

/// So long is a part asked for again that the disk does not give: a path to it may be back by then.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// One of them.
#[derive(Debug)]
pub(super) struct Aside {
    number: u64,
    bytes: u64,
    /// When it is too old.
    until: Instant,
}

/// True for errors that are of this process and its machine at the moment, and not of what is read.
pub(super) fn passes(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    number.is_some_and(|n| [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR, Errno::AGAIN].contains(&n))
}

impl Spool {
    /// Looks again at what was set aside before; tells the numbers of parts that can be delivered now.
    pub(super) fn take_back(&mut self, aside: Vec<u64>, now: Now) -> io::Result<Vec<u64>> {
        let mut back = Vec::new();
        for number in aside {
            let path = self.dir.join(segment::aside_name(number));
            let why = match File::open(&path).and_then(|file| readable(&file)) {
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
            tracing::warn!(path = %path.display(), why, "a part of the spool is still set aside");
            let until = self.written(number, now);
            self.keep_aside(number, until);
        }
        Ok(back)
    }

    /// Sets a segment aside that is not, or no more, among those that wait.
    pub(super) fn set_aside(&mut self, number: u64, why: &str, until: Instant) {
        let (path, to) = (self.path(number), self.dir.join(segment::aside_name(number)));
        match std::fs::rename(&path, &to) {
            Ok(()) => {
                tracing::warn!(
                    path = %to.display(), why,
                    "a part of the spool is set aside; a start that can read it delivers it, spool.size and spool.age bound it"
                );
                self.keep_aside(number, until);
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), why, %error, "a part of the spool is not delivered, nor can it be set aside");
            }
        }
    }

    /// The oldest segment, which the disk does not give, is set aside; returns the points that leave with it.
    pub(super) fn set_first_aside(&mut self, why: &io::Error) -> u64 {
        let Some(first) = self.leave_first() else { return 0 };
        self.set_aside(first.number, &why.to_string(), first.until);
        first.points
    }

    /// Whether a segment that was not given shall be asked for again, before others are.
    pub(super) fn asks_again(&mut self, segment: &Segment, error: &io::Error, now: Instant) -> bool {
        if self.segments.len() == 1 {
            // What gives nothing takes nothing more.
            self.out = None;
        }
        let since = self.stuck.filter(|(number, _)| *number == segment.number).map_or(now, |(_, since)| since);
        self.stuck = (!passes(error)).then_some((segment.number, since));
        passes(error) || now.saturating_duration_since(since) < PATIENCE
    }

    fn keep_aside(&mut self, number: u64, until: Instant) {
        let path = self.dir.join(segment::aside_name(number));
        let bytes = path.symlink_metadata().map_or(0, |meta| meta.len());
        self.aside.push(Aside { number, bytes, until });
    }

    /// When a part that is not read is too old, by the time of its file.
    pub(super) fn written(&self, number: u64, now: Now) -> Instant {
        let names = [segment::aside_name(number), segment::name(number)];
        let meta = names.iter().find_map(|name| self.dir.join(name).symlink_metadata().ok());
        let since = meta.and_then(|meta| meta.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok());
        self.until(since.map_or(now.wall_ns, |since| since.as_nanos() as u64), now)
    }

    /// When what was written then, Unix ns, is too old.
    pub(super) fn until(&self, written_ns: u64, now: Now) -> Instant {
        let age = Duration::from_nanos(now.wall_ns.saturating_sub(written_ns));
        now.at + self.limits.age.saturating_sub(age).max(DOUBT.min(self.limits.age))
    }

    /// Removes parts set aside that are too old, or in the way of `more` bytes. Their points were counted when they were
    /// set aside, or are known to the release that wrote them alone.
    pub(super) fn bound_aside(&mut self, more: u64, now: Instant) {
        let full = |spool: &Self| spool.bytes() + more > spool.limits.bytes;
        while let Some(at) = self.aside.iter().position(|part| part.until < now || full(self)) {
            let Aside { number, bytes, until } = self.aside.remove(at);
            let path = self.dir.join(segment::aside_name(number));
            let bound = if until < now { "spool.age" } else { "spool.size" };
            tracing::warn!(path = %path.display(), bytes, bound, "a part of the spool that was set aside is removed");
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::debug!(path = %path.display(), %error, "it cannot be removed; the next start finds it again");
            }
        }
    }

    /// Parts set aside, and their bytes.
    pub(super) fn aside(&self) -> (u64, u64) {
        (self.aside.len() as u64, self.aside.iter().map(|part| part.bytes).sum())
    }
}

/// Why this release does not read a segment, if it does not.
fn readable(file: &File) -> io::Result<Option<String>> {
    let Some(version) = segment::foreign(file) else {
        segment::find(file, HEADER as u64, file.metadata()?.len())?;
        return Ok(None);
    };
    Ok(Some(later(version)))
}

/// Words for a segment of another release.
pub(super) fn later(version: u32) -> String {
    format!("a later release wrote it (format {version})")
}
