//! Recovery of a spool at startup, and its usage for `doctor` while another process has it open.

use super::quarantine::{later, passes};
use super::{HEADER, Now, Segment, Spool, segment};
use fabriclens_base::owned;
use std::fs::File;
use std::io;
use std::path::Path;

impl Spool {
    /// Loads the segments that the previous process left.
    pub(super) fn look(&mut self, now: Now) -> io::Result<()> {
        let (mut numbers, mut aside) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            numbers.extend(segment::number(name));
            aside.extend(segment::aside_number(name));
        }
        numbers.sort_unstable();
        aside.sort_unstable();
        self.newest = numbers.iter().chain(&aside).copied().fold(self.at.segment, u64::max);
        numbers.extend(self.take_back(aside, now)?);
        for number in numbers {
            let file = owned::read(&self.path(number));
            if let Some(version) = file.as_ref().ok().and_then(segment::foreign) {
                // Its segments are of another release; the cursor is of this one and does not apply.
                let until = self.written(number, now);
                self.set_aside(number, &later(version), until);
            } else if number < self.at.segment {
                self.remove(number);
            } else {
                match file.and_then(|file| self.found(number, &file, now)) {
                    Ok(found) => self.segments.extend(found),
                    Err(error) if passes(&error) => return Err(error),
                    Err(error) => {
                        self.unreadable += 1;
                        let until = self.written(number, now);
                        self.set_aside(number, &error.to_string(), until);
                    }
                }
            }
        }
        Ok(())
    }

    /// Loads a segment up to where it is readable; `None` if it has nothing to deliver.
    fn found(&mut self, number: u64, file: &File, now: Now) -> io::Result<Option<Segment>> {
        let mut found = Segment { number, end: file.metadata()?.len(), points: 0, first_ns: u64::MAX, until: now.at };
        let (mut at, mut last_ns) = (if number == self.at.segment { self.at.offset } else { HEADER as u64 }, 0);
        loop {
            match segment::find(file, at, found.end) {
                Ok(Some((from, head))) => {
                    found.points += head.points;
                    found.first_ns = found.first_ns.min(head.time_ns);
                    last_ns = last_ns.max(head.time_ns);
                    at = from + head.size();
                }
                Ok(None) => break,
                Err(error) if last_ns == 0 => return Err(error),
                Err(error) => {
                    self.unreadable += 1;
                    let path = self.path(number);
                    tracing::warn!(path = %path.display(), %error, "spool segment is not readable to its end; the rest is not delivered; check the disk");
                    found.end = at;
                }
            }
        }
        if last_ns == 0 {
            self.remove(number);
            return Ok(None);
        }
        Ok(Some(Segment { until: self.until(last_ns, now), ..found }))
    }

    /// Number of segments that were not readable to their end when the spool was opened.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }
}

/// Disk usage of spools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of all segments.
    pub bytes: u64,
    /// Segments set aside.
    pub aside: u64,
}

/// Usage of all spools below a directory, whether or not a process has them open.
///
/// # Errors
/// When the directory does not exist, is not writable, or is writable for every user.
pub fn usage(dir: &Path) -> io::Result<Usage> {
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK)?;
    owned::check_mode(dir)?;
    let mut usage = Usage::default();
    for spool in std::fs::read_dir(dir)? {
        for file in std::fs::read_dir(spool?.path()).into_iter().flatten().flatten() {
            let name = file.file_name();
            let Some(name) = name.to_str() else { continue };
            let aside = segment::aside_number(name).is_some();
            usage.aside += u64::from(aside);
            if aside || segment::number(name).is_some() {
                usage.bytes += file.metadata().map_or(0, |meta| meta.len());
            }
        }
    }
    Ok(usage)
}
