//! Jobs in the collector: what people and schedulers say of them comes in here, is kept by the registry, and goes out as
//! `fabric_job_info`, by which any series of a host becomes a job's, and as the rollups of each job.

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

use fabriclens_jobs::{Registry, RegistryError};
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

/// The registry's, beside the samples: a backup has both.
const TABLE: &str = "jobs";
/// How often `fabric_job_info` is written: well within the time that a query looks back.
const EVERY: Duration = Duration::from_secs(10);

/// See the module.
pub struct Jobs {
    /// What is known.
    pub registry: Registry,
    store: Arc<Store>,
    /// What age is measured by, Unix ms.
    age: Clock,
    changed: Arc<Notify>,
}

impl Jobs {
    /// Of an open store.
    ///
    /// # Errors
    /// [`RegistryError::Disk`].
    pub fn open(store: &Arc<Store>) -> Result<Self, RegistryError> {
        let table = store.table(TABLE).map_err(|e| RegistryError::Disk(e.to_string()))?;
        let registry = Registry::open(table)?;
        Ok(Self { registry, store: store.clone(), age: store.retention_clock(), changed: Arc::default() })
    }

    /// Something was said: the series are written at once.
    pub fn changed(&self) {
        self.changed.notify_one();
    }

    /// Lets go those that ended so long ago.
    fn forget(&self, keep: Duration) {
        let keep = i64::try_from(keep.as_nanos()).unwrap_or(i64::MAX);
        let now = (self.age)().saturating_mul(1_000_000);
        match self.registry.expire(now.saturating_sub(keep)) {
            Ok(0) => {}
            Ok(runs) => tracing::info!(runs, "jobs that ended long ago are forgotten"),
            Err(error) => tracing::warn!(%error, "cannot forget old jobs"),
        }
    }
}

/// A source of jobs that is asked again and again.
trait Ask: Send {
    /// Tells the registry what is new. True when something is.
    fn ask(&mut self, registry: &Registry) -> bool;
}

/// What a source may need.
struct Opening<'a> {
    config: &'a Config,
    data: &'a Arc<Data>,
    telemetry: &'a Telemetry,
    /// Becomes true when the collector stops: what takes long is given up.
    stop: &'a watch::Receiver<bool>,
}

/// A source; `None` if the config does not name it.
type Opened = Result<Option<Box<dyn Ask>>, FileError>;

/// How often a source is asked, and how it is made.
struct Row {
    pace: Duration,
    open: fn(&Opening<'_>) -> Opened,
}

/// All sources that are asked: a file and a row for each. Requests are told by the API.
const SOURCES: [Row; 4] = [
    Row { pace: Duration::from_secs(10), open: files::open },
    // Schedulers' controllers have other work.
    Row { pace: Duration::from_secs(15), open: slurm::open },
    Row { pace: Duration::from_secs(15), open: kubernetes::open },
    Row { pace: Duration::from_secs(10), open: agents::open },
];

/// Asks all sources that the config names until `stop` becomes true.
///
/// # Errors
/// [`FileError`]; nothing is asked then.
pub fn ask(
    jobs: &Arc<Jobs>,
    data: &Arc<Data>,
    config: &Config,
    telemetry: &Telemetry,
    stop: &watch::Receiver<bool>,
) -> Result<Vec<JoinHandle<()>>, FileError> {
    let opening = Opening { config, data, telemetry, stop };
    let open = |row: &Row| Ok((row.open)(&opening)?.map(|source| (row.pace, source)));
    let sources = SOURCES.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let start = |(pace, mut source): (Duration, Box<dyn Ask>)| {
        let jobs = jobs.clone();
        let work = move |why| {
            if why != Trigger::Stop && source.ask(&jobs.registry) {
                jobs.changed();
            }
        };
        tokio::spawn(periodic(pace, Arc::default(), stop.clone(), "a source of jobs is no longer asked", work))
    };
    Ok(sources.into_iter().flatten().map(start).collect())
}

/// Forgets old jobs and writes the series, until `stop` becomes true.
pub async fn run(jobs: Arc<Jobs>, sink: Arc<Sink>, config: Config, stop: watch::Receiver<bool>) {
    let (mut writer, keep) = (Writer::default(), config.retention.jobs);
    let wake = jobs.changed.clone();
    let work = move |why| {
        if why == Trigger::Interval && !keep.is_zero() {
            jobs.forget(keep);
        }
        writer.write(&jobs, &sink, why == Trigger::Stop);
    };
    periodic(EVERY, wake, stop, "jobs are no longer written as series", work).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_jobs::{Facts, Filter, Key, Source};
    use fabriclens_store::Options;
    use std::sync::atomic::{AtomicI64, Ordering};

    /// A store with a clock (Unix ms) that is in doubt after a leap for an hour, as usual.
    fn store_with_clock(dir: &std::path::Path, now_ms: i64) -> (Arc<Store>, Arc<AtomicI64>) {
        let now = Arc::new(AtomicI64::new(now_ms));
        let read = now.clone();
        let clock = Arc::new(move || read.load(Ordering::Relaxed));
        (Arc::new(Store::open(dir, Options { background: false, clock, ..Options::default() }).unwrap()), now)
    }

    #[test]
    fn a_clock_that_leaps_ahead_forgets_no_job() {
        const KEEP: Duration = Duration::from_secs(3600);
        let dir = tempfile::tempdir().unwrap();
        let (store, now) = store_with_clock(dir.path(), 60_000);
        let jobs = Jobs::open(&store).unwrap();
        let key = Key { cluster: String::new(), id: "7".into() };
        jobs.registry.begin(Source::Http, &key, Facts::default(), 1).unwrap();
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
        assert_eq!(known(), 0, "in its own time it goes");
    }
}
