//! The lease by which one of several judges is active, a file on storage that all of them share.
//!
//! The holder renews it every 2 s. A standby takes over once the file has not changed for 8 s by its own monotonic clock, so
//! clocks need not agree. A holder that could not renew for 6 s, or sees a later epoch, no longer judges. The epoch decides
//! between two holders: the later one stays.

pub mod file;
mod holder;
mod standby;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use file::{LeaseFile, Record};

/// Times of a lease.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Interval of renewals.
    pub renew: Duration,
    /// Time without a change after which a standby takes over.
    pub take_over: Duration,
    /// Time without a renewal after which the holder gives up; shorter than `take_over`.
    pub give_up: Duration,
    /// Interval at which a standby reads the file.
    pub poll: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { renew: seconds(2), take_over: seconds(8), give_up: seconds(6), poll: Duration::from_millis(250) }
    }
}

/// State of a judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Another judge holds the lease.
    Standby {
        /// Name of the holder; empty if it is not known.
        of: String,
    },
    /// This judge holds the lease.
    Held {
        /// Its epoch.
        epoch: u64,
    },
    /// This judge no longer holds the lease, or never can; the reason names the remedy.
    Lost(String),
}

/// The lease cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("judge.lease: {message}")]
pub struct LeaseError {
    message: String,
}

/// Part of a judge in its lease; waits for it, then renews it, on a thread of its own until it is dropped.
pub struct JudgeLease {
    shared: Arc<Shared>,
    state: watch::Receiver<LeaseState>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct Shared {
    file: LeaseFile,
    name: String,
    /// Random number of this process: two judges may have the same name by mistake.
    process: u64,
    data: PathBuf,
    timing: Timing,
    inner: Mutex<Inner>,
    changed: Condvar,
    state: watch::Sender<LeaseState>,
}

struct Inner {
    /// When the last successful renewal began.
    renewed: Instant,
    /// Identity of the data directory, once it is open.
    identity: Option<String>,
    stop: bool,
}

/// File in the data directory with a random text, by which judges notice that theirs are different directories.
const IDENTITY: &str = "judge.id";
/// Longest wait for the lease to be given back.
const RELEASE: Duration = Duration::from_secs(2);

impl JudgeLease {
    /// Starts to wait for the lease at `path`. `data` is the data directory, which is not touched.
    ///
    /// # Errors
    /// [`LeaseError`] if the directory cannot be written, or the file is something else.
    pub fn start(path: &Path, name: &str, data: &Path, timing: Timing) -> Result<Self, LeaseError> {
        let shown = path.display();
        let unusable = |e: std::io::Error| LeaseError {
            message: format!(
                "cannot use {shown}: {e}; name a file in an existing directory that this user can write, on storage that all judges share"
            ),
        };
        let file = LeaseFile::new(path).map_err(unusable)?;
        file.check().map_err(unusable)?;
        let found = file.read().map_err(unusable)?.filter(|bytes| !bytes.is_empty());
        if found.is_some_and(|bytes| Record::parse(&bytes).is_none()) {
            let message = format!(
                "{shown} is not a lease of this version; name another file, or remove this one if no judge runs"
            );
            return Err(LeaseError { message });
        }
        let (sender, state) = watch::channel(LeaseState::Standby { of: String::new() });
        let shared = Arc::new(Shared {
            file,
            name: name.to_owned(),
            process: random(),
            data: data.to_owned(),
            timing,
            inner: Mutex::new(Inner { renewed: Instant::now(), identity: None, stop: false }),
            changed: Condvar::new(),
            state: sender,
        });
        let own = shared.clone();
        let thread = std::thread::Builder::new().name("judge lease".to_owned()).spawn(move || own.run());
        let thread = thread.map_err(|e| LeaseError { message: format!("cannot start a thread: {e}") })?;
        Ok(Self { shared, state, thread: Some(thread) })
    }

    /// State of this judge, and its changes.
    pub fn state(&self) -> watch::Receiver<LeaseState> {
        self.state.clone()
    }

    /// Path of the lease.
    pub fn path(&self) -> &Path {
        self.shared.file.path()
    }

    /// Puts the identity of the data directory, which must be open, into the lease.
    ///
    /// # Errors
    /// If its file cannot be read or written.
    pub fn bind(&self) -> std::io::Result<()> {
        let path = self.shared.data.join(IDENTITY);
        let known = std::fs::read_to_string(&path).ok().filter(|text| is_identity(text));
        let identity = match known {
            Some(text) => text,
            None => {
                let text = format!("{:016x}{:016x}", random(), random());
                std::fs::write(&path, &text)?;
                text
            }
        };
        self.shared.inner.lock().identity = Some(identity);
        Ok(())
    }

    /// Waits until this judge must stop judging; returns why.
    pub async fn lost(&self) -> String {
        let mut state = self.state.clone();
        loop {
            if let LeaseState::Lost(why) = &*state.borrow_and_update() {
                return why.clone();
            }
            // The thread may hang in the file system.
            let silent = self.shared.inner.lock().renewed.elapsed();
            if silent >= self.shared.timing.give_up {
                let path = self.path().display();
                return format!("could not renew {path} for {:.1} s; check the shared storage", silent.as_secs_f64());
            }
            _ = tokio::time::timeout(self.shared.timing.poll, state.changed()).await;
        }
    }
}

impl Drop for JudgeLease {
    /// Gives the lease back, so that a standby takes over at once; waits at most 2 s for the file system.
    fn drop(&mut self) {
        self.shared.inner.lock().stop = true;
        self.shared.changed.notify_all();
        let Some(thread) = self.thread.take() else { return };
        let began = Instant::now();
        while !thread.is_finished() && began.elapsed() < RELEASE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Shared {
    fn run(&self) {
        if let Some(record) = self.wait() {
            self.hold(record);
        }
    }

    /// Sleeps; returns false if the lease is no longer wanted.
    fn pause(&self, time: Duration) -> bool {
        let mut inner = self.inner.lock();
        let until = Instant::now() + time;
        while !inner.stop {
            if self.changed.wait_until(&mut inner, until).timed_out() {
                return true;
            }
        }
        false
    }
}

fn is_identity(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn random() -> u64 {
    RandomState::new().hash_one((std::process::id(), Instant::now()))
}
