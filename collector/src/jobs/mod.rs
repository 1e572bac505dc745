//! Jobs in the collector: what people and schedulers say of them comes in here, is kept by the registry, and goes out as
//! `fabric_job_info`, by which any series of a host becomes a job's, and as the rollups of each job.

mod body;
mod files;
mod rollup;
mod running;
mod series;
mod slurm;

use std::sync::Arc;
use std::time::Duration;

use fabriclens_jobs::{Registry, RegistryError};
use fabriclens_store::Store;
use tokio::sync::{Notify, watch};

use crate::api::time::now_ns;
use crate::config::Config;
use crate::forward::Sink;
pub use body::{Body, BodyError, Change};
pub use rollup::run as roll_up;
use series::Writer;

/// The registry's, beside the samples: a backup has both.
const TABLE: &str = "jobs";
/// How often `fabric_job_info` is written: well within the time that a query looks back.
const EVERY: Duration = Duration::from_secs(10);
/// How often Slurm is asked; its controller has other work.
const ASK: Duration = Duration::from_secs(15);

/// See the module.
pub struct Jobs {
    /// What is known.
    pub registry: Registry,
    store: Arc<Store>,
    changed: Notify,
}

impl Jobs {
    /// Of an open store.
    ///
    /// # Errors
    /// [`RegistryError::Disk`].
    pub fn open(store: &Arc<Store>) -> Result<Self, RegistryError> {
        let table = store.table(TABLE).map_err(|e| RegistryError::Disk(e.to_string()))?;
        Ok(Self { registry: Registry::open(table)?, store: store.clone(), changed: Notify::new() })
    }

    /// Something was said: the series are written at once.
    pub fn changed(&self) {
        self.changed.notify_one();
    }
}

/// Asks Slurm, if it is to be asked, until `stop` becomes true.
pub async fn ask_slurm(jobs: Arc<Jobs>, config: Config, mut stop: watch::Receiver<bool>) {
    let Some(command) = config.jobs.squeue else { return };
    let mut slurm = slurm::Slurm::new(command);
    let mut tick = tokio::time::interval(ASK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            _ = stop.wait_for(|s| *s) => return,
        }
        let asked = jobs.clone();
        let work = tokio::task::spawn_blocking(move || (slurm.ask(&asked.registry), slurm));
        match work.await {
            Ok((changed, back)) => {
                slurm = back;
                if changed {
                    jobs.changed();
                }
            }
            Err(error) => return tracing::error!(%error, "Slurm is no longer asked for jobs"),
        }
    }
}

/// Reads the directory of files, forgets old jobs and writes the series, until `stop` becomes true.
pub async fn run(jobs: Arc<Jobs>, sink: Arc<Sink>, config: Config, mut stop: watch::Receiver<bool>) {
    let mut files = config.jobs.dir.map(files::Files::new);
    let mut writer = Writer::default();
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        let (round, last) = tokio::select! {
            _ = tick.tick() => (true, false),
            () = jobs.changed.notified() => (false, false),
            _ = stop.wait_for(|s| *s) => (false, true),
        };
        let (jobs, sink) = (jobs.clone(), sink.clone());
        let keep = config.retention.jobs;
        let work = tokio::task::spawn_blocking(move || {
            if let Some(files) = files.as_mut().filter(|_| round) {
                files.read(&jobs.registry);
            }
            if round && !keep.is_zero() {
                forget(&jobs.registry, keep);
            }
            writer.write(&jobs, &sink, last);
            (files, writer)
        });
        match work.await {
            Ok(_) if last => return,
            Ok(back) => (files, writer) = back,
            Err(error) => return tracing::error!(%error, "jobs are no longer written as series"),
        }
    }
}

fn forget(registry: &Registry, keep: Duration) {
    let keep = i64::try_from(keep.as_nanos()).unwrap_or(i64::MAX);
    match registry.expire(now_ns().saturating_sub(keep)) {
        Ok(0) => {}
        Ok(runs) => tracing::info!(runs, "jobs that ended long ago are forgotten"),
        Err(error) => tracing::warn!(%error, "cannot forget old jobs"),
    }
}
