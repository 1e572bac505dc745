//! Bounded reader of the kernel log. It never waits, and reads at most [`RECORDS`] records a turn, however fast the log grows.
//!
//! A backlog, such as the messages of a boot, is read in several turns. If the kernel overwrote records before they were read,
//! the log grows faster than that: the reader goes on at its end, and counts what it passed over by the numbers of the records.

use super::position::Start;
use super::record::Record;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Most new records of a turn: about two milliseconds of a core, half of which the kernel takes.
pub const RECORDS: u32 = 1024;
/// Cost of a record that was told before, as a fraction of a new one.
const TOLD: u32 = 8;
/// Buffer of a record; the kernel's longest has 8 KiB.
const BUFFER: usize = 16 << 10;
/// Largest recorded log.
const RECORDED: u64 = 16 << 20;

/// A log that gives one record at a time.
pub trait Log: Send {
    /// Reads the next record. `WouldBlock` or 0 if there is none yet; `BrokenPipe` if it was overwritten, after which reading
    /// goes on with the oldest that is left.
    ///
    /// # Errors
    /// Any other error of the read.
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Goes to the oldest record that is left.
    ///
    /// # Errors
    /// Error of the seek.
    fn to_begin(&mut self) -> io::Result<()>;

    /// Passes over all records that are there.
    ///
    /// # Errors
    /// Error of the seek.
    fn to_end(&mut self) -> io::Result<()>;
}

/// `/dev/kmsg`: each read is one record.
struct Device(File);

impl Log for Device {
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }

    fn to_begin(&mut self) -> io::Result<()> {
        self.0.seek(SeekFrom::Start(0)).map(drop)
    }

    fn to_end(&mut self) -> io::Result<()> {
        self.0.seek(SeekFrom::End(0)).map(drop)
    }
}

/// A regular file with the same content, as in a recorded host. Lines that begin with a blank belong to the record before.
struct Recording {
    file: File,
    /// Content that was not given yet.
    rest: Vec<u8>,
}

impl Log for Recording {
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.file).take(RECORDED.saturating_sub(self.rest.len() as u64)).read_to_end(&mut self.rest)?;
        let mut end = None;
        for (at, _) in self.rest.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            end = Some(at + 1);
            if self.rest.get(at + 1) != Some(&b' ') {
                break;
            }
        }
        // A line without an end is still being written.
        let Some(end) = end else { return Ok(0) };
        let kept = end.min(buffer.len());
        buffer[..kept].copy_from_slice(&self.rest[..kept]);
        self.rest.drain(..end);
        Ok(kept)
    }

    fn to_begin(&mut self) -> io::Result<()> {
        self.rest.clear();
        self.file.seek(SeekFrom::Start(0)).map(drop)
    }

    fn to_end(&mut self) -> io::Result<()> {
        self.rest.clear();
        self.file.seek(SeekFrom::End(0)).map(drop)
    }
}

/// Numbers of records since the reader was made.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Records of the kernel that were looked at.
    pub read: u64,
    /// Records of programs.
    pub foreign: u64,
    /// Records that were overwritten or passed over.
    pub skipped: u64,
    /// Records that could not be parsed.
    pub malformed: u64,
}

/// Reader of a log.
pub struct LogReader {
    log: Box<dyn Log>,
    buffer: Vec<u8>,
    /// Number of the next record; `None` before the first.
    next: Option<u64>,
    counts: Counts,
}

impl LogReader {
    /// Opens `/dev/kmsg`, or a recording of it.
    ///
    /// # Errors
    /// Error of the open; `InvalidInput` for anything but a character device or a regular file.
    pub fn open(path: &Path, start: Start) -> io::Result<Self> {
        // Without NONBLOCK a read waits for the next record.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let kind = file.metadata()?.file_type();
        let log: Box<dyn Log> = match (kind.is_char_device(), kind.is_file()) {
            (true, _) => Box::new(Device(file)),
            (_, true) => Box::new(Recording { file, rest: Vec::new() }),
            _ => return Err(io::Error::new(ErrorKind::InvalidInput, "neither a character device nor a regular file")),
        };
        Self::new(log, start)
    }

    /// Reader that begins there.
    ///
    /// # Errors
    /// Error of a seek.
    pub fn new(mut log: Box<dyn Log>, start: Start) -> io::Result<Self> {
        let next = match start {
            Start::End => log.to_end().map(|()| None),
            // Records are numbered from 0: those that the kernel no longer has count as skipped.
            Start::Boot => log.to_begin().map(|()| Some(0)),
            Start::At(next) => log.to_begin().map(|()| Some(next)),
        }?;
        Ok(Self { log, buffer: vec![0; BUFFER], next, counts: Counts::default() })
    }

    /// Number of the next record; `None` before the first.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Numbers of records so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Reads what is new, within the bounds of one turn, and shows the kernel's records to `see`. Returns whether it came to the
    /// end of the log.
    ///
    /// # Errors
    /// Error of a read or seek; what was read before it was shown.
    pub fn turn(&mut self, see: &mut dyn FnMut(&Record<'_>)) -> io::Result<bool> {
        let (mut budget, mut is_overrun, mut latest) = (RECORDS * TOLD, false, None);
        while budget > 0 {
            let read = match self.log.next(&mut self.buffer) {
                Ok(0) => 0,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    budget -= 1;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    (is_overrun, budget) = (true, budget.saturating_sub(TOLD));
                    continue;
                }
                // The record is longer than the buffer; the kernel goes on with the next.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    self.counts.malformed += 1;
                    budget = budget.saturating_sub(TOLD);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if read == 0 {
                // A number from another log than this would hide all records below it.
                if let (Some(latest), Some(next)) = (latest, self.next)
                    && latest + 1 < next
                {
                    self.next = Some(latest + 1);
                }
                return Ok(true);
            }
            let Some(record) = Record::parse(&self.buffer[..read]) else {
                self.counts.malformed += 1;
                budget = budget.saturating_sub(TOLD);
                continue;
            };
            latest = Some(record.sequence);
            if self.next.is_some_and(|next| record.sequence < next) {
                budget -= 1;
                continue;
            }
            budget = budget.saturating_sub(TOLD);
            self.counts.skipped += self.next.map_or(0, |next| record.sequence - next);
            self.next = Some(record.sequence.saturating_add(1));
            if record.is_of_kernel {
                self.counts.read += 1;
                see(&record);
            } else {
                self.counts.foreign += 1;
            }
        }
        if is_overrun {
            self.log.to_end()?;
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    /// A kernel that keeps the last records of a log.
    #[derive(Default)]
    struct Kernel {
        /// Number of the oldest record that is left, and the records.
        oldest: u64,
        records: VecDeque<String>,
        /// Position of the reader.
        at: u64,
        /// Reads that returned a record, and seeks to the end.
        reads: usize,
        jumps: usize,
    }

    const KEPT: usize = 20_000;

    impl Kernel {
        fn print(&mut self, facility: u32, message: &str) {
            let number = self.oldest + self.records.len() as u64;
            self.records.push_back(format!("{},{number},{},-;{message}\n", facility << 3 | 6, number * 10));
            if self.records.len() > KEPT {
                self.records.pop_front();
                self.oldest += 1;
            }
        }
    }

    #[derive(Clone, Default)]
    struct Fake(Arc<Mutex<Kernel>>);

    impl Log for Fake {
        fn next(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let mut kernel = self.0.lock().unwrap();
            if kernel.at < kernel.oldest {
                kernel.at = kernel.oldest;
                return Err(ErrorKind::BrokenPipe.into());
            }
            let Some(record) = kernel.records.get((kernel.at - kernel.oldest) as usize) else {
                return Err(ErrorKind::WouldBlock.into());
            };
            let length = record.len();
            buffer[..length].copy_from_slice(record.as_bytes());
            kernel.at += 1;
            kernel.reads += 1;
            Ok(length)
        }

        fn to_begin(&mut self) -> io::Result<()> {
            let mut kernel = self.0.lock().unwrap();
            kernel.at = kernel.oldest;
            Ok(())
        }

        fn to_end(&mut self) -> io::Result<()> {
            let mut kernel = self.0.lock().unwrap();
            kernel.at = kernel.oldest + kernel.records.len() as u64;
            kernel.jumps += 1;
            Ok(())
        }
    }

    fn told(reader: &mut LogReader) -> Vec<String> {
        let mut told = Vec::new();
        reader.turn(&mut |record| told.push(record.message.to_owned())).unwrap();
        told
    }

    /// 100,000 lines a second for a minute, one turn a second.
    #[test]
    fn flood_costs_a_bounded_number_of_reads_a_turn() {
        let fake = Fake::default();
        let mut reader = LogReader::new(Box::new(fake.clone()), Start::Boot).unwrap();
        let mut most = 0;
        for _ in 0..60 {
            let before = {
                let mut kernel = fake.0.lock().unwrap();
                (0..100_000).for_each(|_| {
                    kernel.print(0, "mlx5_cmd_out_err:838:(pid 1): ACCESS_REG(0x805) op_mod(0x1) failed")
                });
                kernel.reads
            };
            reader.turn(&mut |_| {}).unwrap();
            most = most.max(fake.0.lock().unwrap().reads - before);
        }
        assert_eq!(most, RECORDS as usize - 1, "one read told that records were overwritten");
        assert!(fake.0.lock().unwrap().jumps >= 59);
        // The flood ends: the next record is read at once, and each record was either read or counted as skipped.
        fake.0.lock().unwrap().print(0, "calm");
        assert_eq!(told(&mut reader), ["calm"]);
        let counts = reader.counts();
        assert_eq!(counts.read + counts.skipped, 60 * 100_000 + 1);
        assert_eq!(counts.read, 60 * u64::from(RECORDS - 1) + 1);
    }

    #[test]
    fn backlog_is_read_in_turns_and_nothing_of_it_is_skipped() {
        let fake = Fake::default();
        (0..5000).for_each(|n| fake.0.lock().unwrap().print(0, &format!("boot {n}")));
        let mut reader = LogReader::new(Box::new(fake.clone()), Start::Boot).unwrap();
        let (mut all, mut turns) = (Vec::new(), 0);
        while all.len() < 5000 {
            all.extend(told(&mut reader));
            turns += 1;
        }
        assert_eq!((turns, &*all[0], &*all[4999]), (5, "boot 0", "boot 4999"));
        assert_eq!(reader.counts(), Counts { read: 5000, ..Counts::default() });
        assert_eq!(fake.0.lock().unwrap().jumps, 0);
    }

    #[test]
    fn lines_of_programs_are_counted_and_not_shown() {
        let fake = Fake::default();
        let mut reader = LogReader::new(Box::new(fake.clone()), Start::End).unwrap();
        fake.0.lock().unwrap().print(1, "NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.");
        fake.0.lock().unwrap().print(3, "NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.");
        fake.0.lock().unwrap().print(0, "of the kernel");
        assert_eq!(told(&mut reader), ["of the kernel"]);
        assert_eq!(reader.counts(), Counts { read: 1, foreign: 2, ..Counts::default() });
    }

    #[test]
    fn next_reader_goes_on_where_the_last_one_ended() {
        let fake = Fake::default();
        (0..3000).for_each(|n| fake.0.lock().unwrap().print(0, &format!("old {n}")));
        let mut first = LogReader::new(Box::new(fake.clone()), Start::End).unwrap();
        assert_eq!(told(&mut first), Vec::<String>::new());
        fake.0.lock().unwrap().print(0, "one");
        assert_eq!(told(&mut first), ["one"]);
        let next = first.next().unwrap();
        fake.0.lock().unwrap().print(0, "two");
        let mut second = LogReader::new(Box::new(fake.clone()), Start::At(next)).unwrap();
        assert_eq!(told(&mut second), ["two"], "3,001 records that were told fit into one turn");
        assert_eq!(second.counts().skipped, 0);
        // A number of another boot.
        let mut lost = LogReader::new(Box::new(fake.clone()), Start::At(1 << 40)).unwrap();
        assert_eq!(told(&mut lost), Vec::<String>::new());
        fake.0.lock().unwrap().print(0, "three");
        assert_eq!(told(&mut lost), ["three"]);
    }

    #[test]
    fn recording_gives_whole_records() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kmsg");
        std::fs::write(
            &path,
            "6,1,1,-;one\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n14,2,1,-;program\nnonsense\n6,5,1,-;fi",
        )
        .unwrap();
        let mut reader = LogReader::open(&path, Start::Boot).unwrap();
        let mut seen = Vec::new();
        reader.turn(&mut |r| seen.push((r.message.to_owned(), r.pci.map(str::to_owned)))).unwrap();
        assert_eq!(seen, [("one".to_owned(), Some("0000:3b:00.0".to_owned()))]);
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        io::Write::write_all(&mut file, b"ve\n").unwrap();
        assert_eq!(told(&mut reader), ["five"]);
        assert_eq!(reader.counts(), Counts { read: 2, foreign: 1, skipped: 3, malformed: 1 });
        assert!(LogReader::open(dir.path(), Start::Boot).is_err(), "a directory");
    }

    /// The log of this machine, from its first record to its end, without waiting.
    #[test]
    #[ignore = "needs: kernel-log"]
    fn log_of_this_machine_is_read_to_its_end() {
        let mut reader = LogReader::open(Path::new("/dev/kmsg"), Start::Boot).unwrap();
        let mut last = None;
        let mut turns = 0;
        while !reader
            .turn(&mut |record| {
                assert!(last.is_none_or(|last| record.sequence > last));
                last = Some(record.sequence);
            })
            .unwrap()
        {
            turns += 1;
            assert!(turns < 10_000, "the log has no end");
        }
        let counts = reader.counts();
        assert!(counts.read > 10 && counts.malformed == 0, "{counts:?}");
        // Another reader goes on there.
        let mut next = LogReader::open(Path::new("/dev/kmsg"), Start::At(reader.next().unwrap())).unwrap();
        let mut new = 0;
        while !next.turn(&mut |_| new += 1).unwrap() {}
        assert!(new < 100, "{new} records were told again");
    }
}
