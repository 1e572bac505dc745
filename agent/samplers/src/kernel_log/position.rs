//! Where reading of the kernel log begins, and how far it came. The engine shares it with its state file, so that an agent that
//! is started again goes on where the last one ended.

use parking_lot::Mutex;

/// Where reading begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// With the next record: older ones were told before, or are too old to be news.
    #[default]
    End,
    /// With the first record that the kernel still has of this boot.
    Boot,
    /// With the record of this number.
    At(u64),
}

/// Position in the kernel log.
#[derive(Debug, Default)]
pub struct LogPosition(Mutex<Start>);

impl LogPosition {
    /// Position that begins there.
    pub fn new(start: Start) -> Self {
        Self(Mutex::new(start))
    }

    /// Where reading begins, or goes on.
    pub fn start(&self) -> Start {
        *self.0.lock()
    }

    /// Number of the next record to read; `None` before the first one was read.
    pub fn next(&self) -> Option<u64> {
        match self.start() {
            Start::At(next) => Some(next),
            Start::End | Start::Boot => None,
        }
    }

    /// Records the number of the next record to read.
    pub fn set_next(&self, next: u64) {
        *self.0.lock() = Start::At(next);
    }
}
