//! Forwarding by Prometheus remote write 1.0: what is acknowledged to a sender is in the durable queue of each target
//! (`DATA/forward/NAME`) before, and reaches it at least once unless a bound or the target itself says no.
//!
//! [`Sink`] is the one place where samples are written: the store first, then the queues.

#![forbid(unsafe_code)]

pub mod fuzzing;
mod meta;
mod queue;
mod reader;
pub mod request;
mod segment;
mod sender;
mod series_writer;
mod state;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use fabriclens_model::{Labels, Matcher, Read as _, Series, absent, is_absent, present};
use fabriclens_store::io::OsFiles;
use fabriclens_store::{AppendError, Appended, RowGroup, Store, filter_times};

use fabriclens_config as config;
use fabriclens_config::selector;
use fabriclens_core::endpoint::Client;
use fabriclens_core::sample_feed::SampleFeed;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ms;
use meta::Teller;
use parking_lot::Mutex;
pub use queue::{Limits, Queue, QueueError};
use sender::Sender;
pub use series_writer::SeriesWriter;

/// Why forwarding cannot start; `Display` names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// The queue on disk.
    #[error(
        "forward queue {name:?}: cannot open {dir}: {source}; check its permissions, or move it away to lose what waits"
    )]
    Queue {
        /// Its name.
        name: String,
        /// Its directory.
        dir: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A password, token or CA file.
    #[error("forward {name:?}: {source}; give a file that this user can read")]
    File {
        /// The target's name.
        name: String,
        /// Which file, and why not.
        source: fabriclens_core::endpoint::FileError,
    },
    /// A selector or the system.
    #[error("forward {name:?}: {message}")]
    Other {
        /// The target's name.
        name: String,
        /// What.
        message: String,
    },
}

/// Why nothing of an append was acknowledged; send it again.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The store.
    #[error(transparent)]
    Store(#[from] AppendError),
    /// A forward queue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// What the store refused could not be told from what it took.
    #[error("cannot read back what was stored, to forward it: {0}")]
    Read(fabriclens_model::ReadError),
}

/// What [`Sink::write`] has taken, on its way to be durable.
#[must_use = "not durable before it is committed"]
pub struct Written {
    place: Place,
    /// For the queues.
    groups: Vec<RowGroup>,
}

enum Place {
    Store(fabriclens_store::Written),
    /// A remote engine's; the store has none of it.
    Queues,
}

/// Where all samples go.
pub struct Sink {
    /// `None`: a remote engine keeps them, and its queue is among the others.
    store: Option<Arc<Store>>,
    /// How far ahead of the clock (ms) a sample may be that a remote engine is given.
    future: i64,
    queues: Vec<Arc<Queue>>,
    tap: SampleFeed,
}

impl Sink {
    /// Over an open store; opens the queues and starts their senders.
    ///
    /// # Errors
    /// [`ForwardError`].
    pub fn start(store: Arc<Store>, config: &config::Config, telemetry: &Telemetry) -> Result<Self, ForwardError> {
        let root = config.data.join("forward");
        warn_of_others(&root, config);
        let age = |f: &config::Forward| Limits { bytes: f.size, age: Some(f.age), refuses: false };
        let engine =
            config.store.as_ref().map(|r| (&r.write, Limits { bytes: r.write.size, age: None, refuses: true }));
        let targets = engine.into_iter().chain(config.forward.iter().map(|f| (f, age(f))));
        let queues = targets.map(|(f, limits)| start(f, limits, &root, &store, telemetry)).collect::<Result<_, _>>()?;
        let future = i64::try_from(config.ingest.future.as_millis()).unwrap_or(i64::MAX);
        Ok(Self { store: config.store.is_none().then_some(store), future, queues, tap: SampleFeed::default() })
    }

    /// Stores and queues samples; returns when all of it survives a crash.
    ///
    /// # Errors
    /// [`SinkError`]: nothing is acknowledged. What was kept nevertheless counts as duplicates when it is sent again,
    /// and is forwarded then (perhaps twice).
    pub fn append(&self, groups: Vec<RowGroup>) -> Result<Appended, SinkError> {
        let written = self.write(groups)?;
        let mut done = self.commit(vec![written]);
        done.pop().unwrap_or_else(|| Ok(Appended::default()))
    }

    /// What is written, for who judges it.
    pub fn tap(&self) -> &SampleFeed {
        &self.tap
    }

    /// The first half of [`Sink::append`]: what it returns must be committed before anything is acknowledged.
    ///
    /// # Errors
    /// As [`Sink::append`].
    pub fn write(&self, groups: Vec<RowGroup>) -> Result<Written, SinkError> {
        let place = match &self.store {
            Some(store) => Place::Store(store.write(&groups)?),
            None => Place::Queues,
        };
        let queued = !self.queues.is_empty();
        Ok(match (queued, self.tap.is_open()) {
            (true, true) => {
                self.tap.offer(groups.clone());
                Written { place, groups }
            }
            (true, false) => Written { place, groups },
            // Without queues nobody else reads them again.
            (false, _) => {
                self.tap.offer(groups);
                Written { place, groups: Vec::new() }
            }
        })
    }

    /// Returns when all that was written survives a crash: one sync of the store and of each queue for all of it. One
    /// answer for each, in order, and their errors as of [`Sink::append`].
    pub fn commit(&self, written: Vec<Written>) -> Vec<Result<Appended, SinkError>> {
        let mut queued = Vec::new();
        let commit = |w: Written| match (&self.store, w.place) {
            (Some(store), Place::Store(place)) => self.commit_stored(store, place, w.groups, &mut queued),
            _ => Ok(self.accept_for_engine(w.groups, &mut queued)),
        };
        let mut done: Vec<_> = written.into_iter().map(commit).collect();
        let failed = if queued.is_empty() { None } else { self.queues.iter().find_map(|q| q.append(&queued).err()) };
        if let Some(e) = failed {
            done.iter_mut().filter(|d| d.is_ok()).for_each(|d| *d = Err(e.clone().into()));
        }
        done
    }

    fn commit_stored(
        &self,
        store: &Store,
        place: fabriclens_store::Written,
        groups: Vec<RowGroup>,
        queued: &mut Vec<RowGroup>,
    ) -> Result<Appended, SinkError> {
        let appended = store.commit(place)?;
        if appended.accepted + appended.duplicates == appended.total() {
            queued.extend(groups);
        } else {
            let kept: Result<Vec<_>, _> = groups.iter().map(|g| kept(store, g)).collect();
            queued.extend(kept.map_err(SinkError::Read)?);
        }
        Ok(appended)
    }

    /// Only for queues: what the remote engine thinks of a sample, it says later.
    fn accept_for_engine(&self, groups: Vec<RowGroup>, queued: &mut Vec<RowGroup>) -> Appended {
        let newest = now_ms().saturating_add(self.future);
        let mut sum = Appended::default();
        for group in groups {
            let early = group.times.iter().any(|t| *t > newest);
            let group = if early { filter_times(&group, i64::MIN, newest, &mut sum) } else { group };
            sum.accepted += present(&group.values);
            queued.push(group);
        }
        sum
    }

    /// Why samples cannot be made durable in a queue right now.
    pub fn failure(&self) -> Option<String> {
        self.queues.iter().find_map(|q| q.failure())
    }

    /// Ends the senders; what waits is sent after the next start.
    pub fn stop(&self) {
        self.queues.iter().for_each(|q| q.stop());
    }
}

/// What the store holds of a group: what it refused must not reach anybody else.
fn kept(store: &Store, group: &RowGroup) -> Result<RowGroup, fabriclens_model::ReadError> {
    let (Some(start), Some(end)) = (group.times.iter().min(), group.times.iter().max()) else {
        return Ok(group.clone());
    };
    let mut held: Vec<Series> = store.select(&shared(&group.series), *start, *end)?;
    held.sort_by(|a, b| a.labels.cmp(&b.labels));
    let rows = group.times.len();
    let mut values = group.values.clone();
    for (labels, column) in group.series.iter().zip(values.chunks_mut(rows)) {
        let series = held.binary_search_by(|s| s.labels.cmp(labels)).ok().map(|i| &held[i]);
        for (time, value) in group.times.iter().zip(column) {
            let at = series.and_then(|s| s.times.binary_search(time).ok().map(|i| s.values[i]));
            if !is_absent(*value) && at.map(f64::to_bits) != Some(value.to_bits()) {
                *value = absent();
            }
        }
    }
    Ok(RowGroup { values, ..group.clone() })
}

/// Matchers for the labels that all of these have in common.
fn shared(series: &[Labels]) -> Vec<Matcher> {
    let Some((first, rest)) = series.split_first() else { return Vec::new() };
    let common = first.iter().filter(|(name, value)| rest.iter().all(|l| l.get(name) == *value));
    common.map(|(name, value)| Matcher::equal(name, value)).collect()
}

fn start(
    config: &config::Forward,
    limits: Limits,
    root: &Path,
    store: &Arc<Store>,
    telemetry: &Telemetry,
) -> Result<Arc<Queue>, ForwardError> {
    let name = || config.name.clone();
    let other = |message: String| ForwardError::Other { name: name(), message };
    let client =
        Client::new(&config.endpoint, telemetry).map_err(|source| ForwardError::File { name: name(), source })?;
    let select: Vec<_> =
        config.select.iter().map(|text| selector::selector(text)).collect::<Result<_, _>>().map_err(other)?;
    let teller = Teller::new(store, select.clone());
    let (dir, telemetry) = (root.join(&config.name), telemetry.forward(&config.name));
    let queue = Queue::open(Arc::new(OsFiles), &dir, select, limits, store.retention_clock(), telemetry.clone());
    let queue = Arc::new(queue.map_err(|source| ForwardError::Queue { name: name(), dir, source })?);
    let sender = Sender {
        name: name(),
        queue: queue.clone(),
        client,
        teller: Mutex::new(teller),
        batch: config.batch,
        parallel: config.parallel,
        telemetry,
        logged: Default::default(),
    };
    tracing::info!(queue = config.name, url = config.endpoint.url, "forwarding");
    let thread = std::thread::Builder::new().name("forward".to_owned());
    thread.spawn(move || sender.run()).map_err(|e| other(format!("cannot start a thread: {e}")))?;
    Ok(queue)
}

/// Queues that no config names any more hold samples that nobody sends.
fn warn_of_others(root: &Path, config: &config::Config) {
    let known: Vec<&config::Forward> = config.forward.iter().chain(config.store.as_ref().map(|r| &r.write)).collect();
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        if !known.iter().any(|f| entry.file_name() == f.name.as_str()) {
            let dir = entry.path().display().to_string();
            tracing::warn!(dir, "a forward queue that the config does not name; remove it if it is not needed");
        }
    }
}
