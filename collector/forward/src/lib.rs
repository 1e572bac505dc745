//! Writes samples to the store, and forwards them to other servers by Prometheus remote write 1.0. Samples are in the
//! durable queue of each target (`DATA/forward/NAME`) before they are acknowledged, and are delivered at least once,
//! unless a limit of the queue or the target itself drops them.
//!
//! [`Sink`] is the only place where samples are written: first to the store, then to the queues.

#![forbid(unsafe_code)]

mod error;
pub mod fuzzing;
mod meta;
mod queue;
mod reader;
pub mod request;
mod request_v2;
mod segment;
mod sender;
mod series_writer;
mod state;
mod target;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use fabriclens_base::Sender as SampleSender;
use fabriclens_model::{
    Labels, Matcher, Read as _, Series, Unlimited, absent, histograms_in, is_absent, is_of_histograms, samples_in,
};
use fabriclens_store::io::OsFiles;
use fabriclens_store::{AppendError, Appended, RowGroup, Store, filter_times};

pub use error::ForwardError;
use fabriclens_config as config;
use fabriclens_core::failover_client::FailoverClient;
use fabriclens_core::sample_feed::SampleFeed;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ms;
use meta::MetadataSender;
use parking_lot::Mutex;
pub use queue::{Limits, Queue, QueueError};
use sender::Sender;
pub use series_writer::SeriesWriter;
pub use target::JUDGE_WRITE;
use target::{Target, targets};

/// Nothing was acknowledged; the sender should retry.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] AppendError),
    /// A forward queue failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Stored samples could not be read back to find the accepted ones.
    #[error("cannot read back stored samples to forward them: {0}")]
    Read(fabriclens_model::ReadError),
}

/// Samples written by [`Sink::write`] that are not yet durable.
#[must_use = "not durable before it is committed"]
pub struct PendingWrite {
    destination: Destination,
    /// Samples for the queues.
    groups: Vec<RowGroup>,
}

enum Destination {
    Store(fabriclens_store::Written),
    /// A remote engine stores the samples.
    Queues,
}

/// Destination of all samples.
pub struct Sink {
    /// `None` if a remote engine stores the samples; its queue is one of `queues`.
    store: Option<Arc<Store>>,
    /// How far in the future a sample for a remote engine may be, ms.
    future: i64,
    queues: Vec<Arc<Queue>>,
    sample_feed: SampleFeed,
}

impl Sink {
    /// Opens the queues and starts their senders.
    ///
    /// # Errors
    /// [`ForwardError`].
    pub fn start(store: Arc<Store>, config: &config::Config, telemetry: &Telemetry) -> Result<Self, ForwardError> {
        let root = config.data.join("forward");
        let targets = targets(config)?;
        warn_of_others(&root, &targets);
        let queues = targets.into_iter().map(|target| start(target, &root, &store, telemetry));
        let queues = queues.collect::<Result<_, _>>()?;
        let future = i64::try_from(config.ingest.future.as_millis()).unwrap_or(i64::MAX);
        Ok(Self { store: config.store.is_none().then_some(store), future, queues, sample_feed: SampleFeed::default() })
    }

    /// Stores and queues samples of the collector's own; returns when all of them survive a crash.
    ///
    /// # Errors
    /// [`SinkError`]; nothing is acknowledged. Samples that were stored nevertheless count as duplicates when they are
    /// sent again, and are forwarded then, possibly twice.
    pub fn append(&self, groups: Vec<RowGroup>) -> Result<Appended, SinkError> {
        self.append_from(groups, SampleSender::Bound)
    }

    /// [`Sink::append`] for any sender.
    ///
    /// # Errors
    /// As [`Sink::append`].
    pub fn append_from(&self, groups: Vec<RowGroup>, sender: SampleSender<'_>) -> Result<Appended, SinkError> {
        let written = self.write(groups, sender)?;
        let mut done = self.commit(vec![written]);
        done.pop().unwrap_or_else(|| Ok(Appended::default()))
    }

    /// Shows samples to the detectors without storing them: an ingest collector has written them to the engine.
    pub fn feed(&self, groups: Vec<RowGroup>) {
        self.sample_feed.push(groups);
    }

    /// The feed of written samples, for the detectors.
    pub fn sample_feed(&self) -> &SampleFeed {
        &self.sample_feed
    }

    /// First half of [`Sink::append_from`]; the result must be committed before anything is acknowledged.
    ///
    /// # Errors
    /// [`SinkError`].
    pub fn write(&self, groups: Vec<RowGroup>, sender: SampleSender<'_>) -> Result<PendingWrite, SinkError> {
        let destination = match &self.store {
            Some(store) => Destination::Store(store.write(&groups, sender)?),
            None => Destination::Queues,
        };
        let queued = !self.queues.is_empty();
        Ok(match (queued, self.sample_feed.is_open()) {
            (true, true) => {
                self.sample_feed.push(groups.clone());
                PendingWrite { destination, groups }
            }
            (true, false) => PendingWrite { destination, groups },
            // Only queues read the samples later.
            (false, _) => {
                self.sample_feed.push(groups);
                PendingWrite { destination, groups: Vec::new() }
            }
        })
    }

    /// Makes written samples durable with one sync of the store and of each queue. Returns one result per write, in
    /// order.
    pub fn commit(&self, written: Vec<PendingWrite>) -> Vec<Result<Appended, SinkError>> {
        let mut queued = Vec::new();
        let commit = |w: PendingWrite| match (&self.store, w.destination) {
            (Some(store), Destination::Store(place)) => self.commit_stored(store, place, w.groups, &mut queued),
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
            let part =
                |g: &RowGroup| if is_of_histograms(g) { stored_histograms(store, g) } else { stored_part(store, g) };
            let kept: Result<Vec<_>, _> = groups.iter().map(part).collect();
            queued.extend(kept.map_err(SinkError::Read)?);
        }
        Ok(appended)
    }

    /// The remote engine itself decides later which samples it rejects.
    fn accept_for_engine(&self, groups: Vec<RowGroup>, queued: &mut Vec<RowGroup>) -> Appended {
        let newest = now_ms().saturating_add(self.future);
        let mut sum = Appended::default();
        for group in groups {
            let early = group.times.iter().any(|t| *t > newest);
            let group = if early { filter_times(&group, i64::MIN, newest, &mut sum) } else { group };
            let samples = samples_in(&group);
            sum.accepted += samples;
            sum.histograms += if is_of_histograms(&group) { samples } else { 0 };
            queued.push(group);
        }
        sum
    }

    /// Why samples cannot be made durable in a queue at present.
    pub fn failure(&self) -> Option<String> {
        self.queues.iter().find_map(|q| q.failure())
    }

    /// Stops the senders; waiting samples are sent after the next start.
    pub fn stop(&self) {
        self.queues.iter().for_each(|q| q.stop());
    }
}

/// The part of a group that the store holds: samples that it rejected must not be forwarded.
fn stored_part(store: &Store, group: &RowGroup) -> Result<RowGroup, fabriclens_model::ReadError> {
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

/// The same of a group of histograms.
fn stored_histograms(store: &Store, group: &RowGroup) -> Result<RowGroup, fabriclens_model::ReadError> {
    let rows = group.times.len();
    let mut kept = group.clone();
    kept.values.fill(absent());
    for (labels, time, histogram) in histograms_in(group) {
        let held = store.select_histograms(&shared(std::slice::from_ref(&labels)), time, time, &Unlimited)?;
        let same = held.iter().any(|s| s.labels == labels && s.values.iter().any(|h| h.same_observations(&histogram)));
        if same && let Some(row) = group.times.iter().position(|t| *t == time) {
            let cells = (row..group.values.len()).step_by(rows);
            cells.for_each(|cell| kept.values[cell] = group.values[cell]);
        }
    }
    Ok(kept)
}

/// Matchers for the labels that all series have in common.
fn shared(series: &[Labels]) -> Vec<Matcher> {
    let Some((first, rest)) = series.split_first() else { return Vec::new() };
    let common = first.iter().filter(|(name, value)| rest.iter().all(|l| l.get(name) == *value));
    common.map(|(name, value)| Matcher::equal(name, value)).collect()
}

fn start(target: Target, root: &Path, store: &Arc<Store>, telemetry: &Telemetry) -> Result<Arc<Queue>, ForwardError> {
    let Target { name: of, endpoints, select, describe, limits, batch, parallel, message, max_backoff } = target;
    let name = || of.clone();
    let other = |message: String| ForwardError::Other { name: name(), message };
    let client = FailoverClient::new(&endpoints, telemetry);
    let client = client.map_err(|source| ForwardError::File { name: name(), source })?;
    let metadata = MetadataSender::new(store, describe);
    let (dir, telemetry) = (root.join(&of), telemetry.forward(&of));
    let queue = Queue::open(Arc::new(OsFiles), &dir, select, limits, store.retention_clock(), telemetry.clone());
    let queue = Arc::new(queue.map_err(|source| ForwardError::Queue { name: name(), dir, source })?);
    let sender = Sender {
        name: name(),
        queue: queue.clone(),
        client,
        max_backoff,
        message,
        metadata: Mutex::new(metadata),
        described: Mutex::default(),
        batch,
        parallel,
        telemetry,
        logged: Default::default(),
        refused: Mutex::default(),
    };
    tracing::info!(queue = of, url = sender.client.url(), "forwarding samples");
    let thread = std::thread::Builder::new().name("forward".to_owned());
    thread.spawn(move || sender.run()).map_err(|e| other(format!("cannot start a thread: {e}")))?;
    Ok(queue)
}

/// Warns of queues that are no longer configured and so are never sent.
fn warn_of_others(root: &Path, known: &[Target]) {
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        if !known.iter().any(|f| entry.file_name() == f.name.as_str()) {
            let dir = entry.path().display().to_string();
            tracing::warn!(dir, "forward queue is not configured and will not be sent; remove it if it is not needed");
        }
    }
}
