//! What each job does on the network, as series of its own (`fabric_job_*`), so that a dashboard over a thousand jobs is
//! one cheap query. One question a row of [`table::ROWS`] is asked of all ports, each fifteen seconds or as seldom as it
//! takes to stay at about a tenth of a core, and its values are given to jobs by who has which device.
//!
//! Counters are added up from what the ports' counters rose between two rounds in which the job ran, so they never go
//! back. The instant of the last round is kept on disk: a new process takes up the jobs' series and the ports'
//! counters as they were then.

mod owners;
mod state;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_jobs::Job;
use fabriclens_model::Labels;
use fabriclens_promql::{Engine, QueryError, Sample, Value};
use fabriclens_store::{Metadata, Store};
use tokio::sync::watch;

use super::Jobs;
use super::running::Running;
use fabriclens_core::time::now_ms;
use fabriclens_data::Data;
use fabriclens_forward::SeriesWriter;
use fabriclens_forward::Sink;
use owners::Owners;
use state::State;
use table::ROWS;

/// How often a round is made, if it is cheap.
const EVERY: Duration = Duration::from_secs(15);
/// A round that takes long is followed by a rest of this many times as long.
const REST: u32 = 9;
/// Series of all jobs together.
const MOST: usize = 200_000;
/// A process that was away for longer takes nothing up, ms.
const AWAY_MS: i64 = 86_400_000;
/// In a table beside the registry.
const TABLE: &str = "job_rollups";
const AT: &str = "at";

/// Makes rounds until `stop` becomes true; then ends all series.
pub async fn run(jobs: Arc<Jobs>, data: Arc<Data>, sink: Arc<Sink>, engine: Engine, mut stop: watch::Receiver<bool>) {
    let mut rollup = Rollup::new(jobs, data, sink, engine);
    let mut rest = Duration::ZERO;
    loop {
        let last = tokio::select! {
            () = tokio::time::sleep(rest) => false,
            _ = stop.wait_for(|s| *s) => true,
        };
        let work = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            if last {
                rollup.end()
            } else {
                rollup.round(now_ms())
            }
            (rollup, began.elapsed())
        });
        match work.await {
            Ok(_) if last => return,
            Ok((back, took)) => {
                rollup = back;
                rest = EVERY.saturating_sub(took).max(took * REST);
            }
            Err(error) => return tracing::error!(%error, "jobs' rollups are no longer written"),
        }
    }
}

struct Rollup {
    jobs: Arc<Jobs>,
    data: Arc<Data>,
    sink: Arc<Sink>,
    engine: Engine,
    running: Running,
    state: State,
    written: SeriesWriter,
    /// What another process left was looked for.
    restored: bool,
    /// Told once, until it is over.
    failed: bool,
    truncated: bool,
}

impl Rollup {
    fn new(jobs: Arc<Jobs>, data: Arc<Data>, sink: Arc<Sink>, engine: Engine) -> Self {
        let (running, state, written) = (Running::default(), State::default(), SeriesWriter::default());
        Self { jobs, data, sink, engine, running, state, written, restored: false, failed: false, truncated: false }
    }

    fn round(&mut self, now: i64) {
        self.running.update(&self.jobs.registry, now);
        let running = self.running.jobs.clone();
        if running.is_empty() && self.written.is_empty() {
            return;
        }
        if !self.restored {
            self.restored = true;
            if let Err(error) = self.restore(&running, now) {
                tracing::warn!(%error, "jobs' rollups begin anew: what was written before cannot be read");
            }
        }
        self.state.forget(&running, now);
        match self.work_out(&running, now) {
            Ok(series) => {
                self.failed = false;
                self.write(series, now);
                self.keep_instant(now);
            }
            Err(error) if !self.failed => {
                self.failed = true;
                tracing::warn!(%error, "cannot work out jobs' rollups");
            }
            Err(_) => {}
        }
    }

    fn work_out(&mut self, jobs: &[Job], now: i64) -> Result<Vec<(Labels, f64)>, QueryError> {
        let mut out = Vec::new();
        if jobs.is_empty() {
            return Ok(out);
        }
        let processes = self.ask("fabric_job_processes", now)?;
        let ports = self.ask("fabric_port_info{rail!=\"\"}", now)?;
        let owners = Owners::new(jobs, &processes, &ports);
        let mut asked: HashMap<&str, Vec<Sample>> = HashMap::new();
        for (n, row) in ROWS.iter().enumerate() {
            if !asked.contains_key(row.promql) {
                // Rows that ask the same follow each other: no more than one answer is held.
                asked.clear();
                asked.insert(row.promql, self.ask(row.promql, now)?);
            }
            let samples = asked.get(row.promql).map_or(&[][..], Vec::as_slice);
            self.state.round((n, row), samples, jobs, &owners, now, &mut out);
        }
        Ok(out)
    }

    fn ask(&self, promql: &str, at_ms: i64) -> Result<Vec<Sample>, QueryError> {
        match self.engine.instant(self.data.reader(), promql, at_ms)?.value {
            Value::Vector(samples) => Ok(samples),
            _ => Ok(Vec::new()),
        }
    }

    /// Writes these and ends those that were written before and are none of them.
    fn write(&mut self, mut series: Vec<(Labels, f64)>, now: i64) {
        series.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        series.dedup_by(|a, b| a.0 == b.0);
        let truncated = series.len() > MOST;
        if truncated && !self.truncated {
            tracing::warn!(series = series.len(), most = MOST, "too many series of jobs; some are left out");
        }
        self.truncated = truncated;
        series.truncate(MOST);
        let (labels, values): (Vec<Labels>, Vec<f64>) = series.into_iter().unzip();
        if self.written.write(&self.sink, "jobs' rollups", labels, values, now) {
            describe(&self.jobs.store);
        }
    }

    fn end(&mut self) {
        self.write(Vec::new(), now_ms());
    }

    fn keep_instant(&self, now: i64) {
        let kept = self.jobs.store.table(TABLE).map(|t| t.insert(AT, &now.to_be_bytes()));
        if !matches!(kept, Ok(Ok(_))) {
            tracing::warn!("cannot keep when jobs' rollups were last written; after a restart they begin anew");
        }
    }

    /// Takes up what another process left.
    fn restore(&mut self, jobs: &[Job], now: i64) -> Result<(), QueryError> {
        let kept = self.jobs.store.table(TABLE).ok().and_then(|t| t.get(AT).ok().flatten());
        let at = kept.and_then(|v| Some(i64::from_be_bytes(v.as_ref().try_into().ok()?)));
        let Some(at) = at.filter(|at| (now - AWAY_MS..now).contains(at)) else { return Ok(()) };
        for (n, row) in ROWS.iter().enumerate() {
            let counters = row.fold == table::Fold::Total;
            let ports = if counters { self.ask(row.promql, at)? } else { Vec::new() };
            self.state.restore((n, row), ports, self.ask(row.name, at)?, jobs, at);
        }
        Ok(())
    }
}

fn describe(store: &Store) {
    let entries = ROWS.iter().map(|row| {
        let help = format!("{} attribution: exclusive, per_process or shared.", row.help);
        (row.name, Metadata { kind: row.kind().into(), unit: row.unit.into(), help })
    });
    if let Err(error) = store.put_metadata(entries) {
        tracing::warn!(%error, "cannot store metadata of jobs' rollups");
    }
}
