//! Jobs in the collector: sources (schedulers, files, agents) and the API report jobs to the registry; the collector
//! writes them as `fabric_job_info`, which joins the series of a host to its jobs, and as rollups of each job.

#![forbid(unsafe_code)]

mod agents;
mod body;
mod command;
mod files;
mod http;
mod kubernetes;
mod reconciler;
mod rollup;
mod running;
mod series;
mod slurm;

use std::sync::Arc;
use std::time::Duration;

use fabriclens_jobs::{HostNames, Limits, Registry, RegistryError};
use fabriclens_store::{Clock, Store};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

pub use body::{Body, BodyError, Change};
use fabriclens_config::Config;
use fabriclens_core::endpoint::FileError;
use fabriclens_core::periodic::{Trigger, periodic};
use fabriclens_core::telemetry::Telemetry;
use fabriclens_data::Data;
use fabriclens_forward::Sink;
pub use rollup::run as roll_up;
pub use running::Running;
use series::Writer;

/// Table of the registry, in the database next to the samples, so that a backup contains both.
const TABLE: &str = "jobs";
/// Interval at which `fabric_job_info` is written, well within the lookback of queries.
const WRITE_INTERVAL: Duration = Duration::from_secs(10);

/// The registry of jobs and its series.
pub struct Jobs {
    /// All known jobs.
    pub registry: Registry,
    store: Arc<Store>,
    /// Clock by which age is measured, Unix ms.
    age: Clock,
    changed: Arc<Notify>,
}

impl Jobs {
    /// Opens the registry in the store's database.
    ///
    /// # Errors
    /// [`RegistryError::Disk`].
    pub fn open(store: &Arc<Store>, limits: Limits) -> Result<Self, RegistryError> {
        let registry = Registry::open(store.table(TABLE), limits)?;
        Ok(Self { registry, store: store.clone(), age: store.retention_clock(), changed: Arc::default() })
    }

    /// Requests that changed jobs are written as series at once.
    pub fn changed(&self) {
        self.changed.notify_one();
    }

    /// Deletes jobs that ended longer ago than `keep`.
    fn forget(&self, keep: Duration) {
        let keep = i64::try_from(keep.as_nanos()).unwrap_or(i64::MAX);
        let now = (self.age)().saturating_mul(1_000_000);
        match self.registry.expire(now.saturating_sub(keep)) {
            Ok(0) => {}
            Ok(runs) => tracing::info!(runs, "deleted old jobs"),
            Err(error) => tracing::warn!(%error, "cannot delete old jobs"),
        }
    }
}

/// A source of jobs that is polled.
trait JobSource: Send {
    /// Polls the source and updates the registry. Returns whether something changed.
    fn poll(&mut self, registry: &Registry) -> bool;
}

/// Dependencies of the sources.
struct Opening<'a> {
    config: &'a Config,
    data: &'a Arc<Data>,
    telemetry: &'a Telemetry,
    /// Becomes true when the collector stops; long operations are then abandoned.
    stop: &'a watch::Receiver<bool>,
}

/// A source; `None` if it is not configured.
type Opened = Result<Option<Box<dyn JobSource>>, FileError>;

/// A row of the table of sources: polling interval and constructor.
struct SourceRow {
    interval: Duration,
    open: fn(&Opening<'_>) -> Opened,
}

/// All polled sources, one file and one row each. Requests reach the registry through the API.
const SOURCES: [SourceRow; 4] = [
    SourceRow { interval: Duration::from_secs(10), open: files::open },
    // Less often, to spare schedulers.
    SourceRow { interval: Duration::from_secs(15), open: slurm::open },
    SourceRow { interval: Duration::from_secs(15), open: kubernetes::open },
    SourceRow { interval: Duration::from_secs(10), open: agents::open },
];

/// Starts to poll all configured sources until `stop` becomes true.
///
/// # Errors
/// [`FileError`]; then no source is polled.
pub fn start_sources(
    jobs: &Arc<Jobs>,
    data: &Arc<Data>,
    config: &Config,
    telemetry: &Telemetry,
    stop: &watch::Receiver<bool>,
) -> Result<Vec<JoinHandle<()>>, FileError> {
    // Before the first source reports a host by the scheduler's name.
    jobs.registry.set_host_names(HostNames::new(config.jobs.hosts.clone()));
    let opening = Opening { config, data, telemetry, stop };
    let open = |row: &SourceRow| Ok((row.open)(&opening)?.map(|source| (row.interval, source)));
    let sources = SOURCES.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let start = |(interval, mut source): (Duration, Box<dyn JobSource>)| {
        let jobs = jobs.clone();
        let work = move |trigger| {
            if trigger != Trigger::Stop && source.poll(&jobs.registry) {
                jobs.changed();
            }
        };
        tokio::spawn(periodic(interval, Arc::default(), stop.clone(), "a source of jobs is no longer polled", work))
    };
    Ok(sources.into_iter().flatten().map(start).collect())
}

/// Deletes old jobs and writes the series, until `stop` becomes true.
pub async fn run(jobs: Arc<Jobs>, sink: Arc<Sink>, config: Config, stop: watch::Receiver<bool>) {
    let (mut writer, keep) = (Writer::default(), config.retention.jobs);
    let wake = jobs.changed.clone();
    let work = move |trigger| {
        if trigger == Trigger::Interval && !keep.is_zero() {
            jobs.forget(keep);
        }
        writer.write(&jobs.registry, &jobs.store, &sink, trigger == Trigger::Stop);
    };
    periodic(WRITE_INTERVAL, wake, stop, "jobs are no longer written as series", work).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_jobs::{Filter, JobKey, JobRecord, Source};
    use fabriclens_store::Options;
    use std::sync::atomic::{AtomicI64, Ordering};

    /// A store with its own clock (Unix ms), which is in doubt for an hour after a leap.
    fn store_with_clock(dir: &std::path::Path, now_ms: i64) -> (Arc<Store>, Arc<AtomicI64>) {
        let now = Arc::new(AtomicI64::new(now_ms));
        let read = now.clone();
        let clock = Arc::new(move || read.load(Ordering::Relaxed));
        (Arc::new(Store::open(dir, Options { background: false, clock, ..Options::default() }).unwrap()), now)
    }

    #[test]
    fn clock_leaps_delete_no_job() {
        const KEEP: Duration = Duration::from_secs(3600);
        let dir = tempfile::tempdir().unwrap();
        let (store, now) = store_with_clock(dir.path(), 60_000);
        let jobs = Jobs::open(&store, Default::default()).unwrap();
        let key = JobKey { cluster: String::new(), id: "7".into() };
        jobs.registry.begin(Source::Http, &key, JobRecord::default(), 1).unwrap();
        jobs.registry.end(Source::Http, &key, 2).unwrap();
        let known = || {
            jobs.forget(KEEP);
            jobs.registry.list(&Filter::default()).len()
        };
        now.fetch_add(365 * 86_400_000, Ordering::Relaxed);
        assert_eq!(known(), 1);
        now.fetch_sub(365 * 86_400_000, Ordering::Relaxed);
        assert_eq!(known(), 1);
        for _ in 0..3 {
            now.fetch_add(1_800_000, Ordering::Relaxed);
            known();
        }
        assert_eq!(known(), 0, "it is deleted once the time really passed");
    }
}
