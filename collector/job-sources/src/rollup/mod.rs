//! Network activity of each job as series (`fabric_job_*`), so that a dashboard over a thousand jobs is one cheap
//! query. Each row of [`table::ROWS`] is one query over all ports, run every fifteen seconds, or as seldom as it takes
//! to use about a tenth of a core. Its values are assigned to jobs by their devices.
//!
//! Counters add up the increases of the ports' counters between two rounds in which the job ran, so they never
//! decrease. The time of the last round is kept on disk: a restarted process continues from the series and counters of
//! that time.

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

/// Shortest interval of rounds.
const ROUND_INTERVAL: Duration = Duration::from_secs(15);
/// After a round, pause for at least this many times its duration.
const PAUSE_FACTOR: u32 = 9;
/// Most series of all jobs together.
const MOST: usize = 200_000;
/// A process that was down for longer starts anew, ms.
const MAX_DOWNTIME_MS: i64 = 86_400_000;
/// Table in the store's database, and its key.
const TABLE: &str = "job_rollups";
const LAST_ROUND: &str = "at";

/// Runs rounds until `stop` becomes true, then ends all series.
pub async fn run(jobs: Arc<Jobs>, data: Arc<Data>, sink: Arc<Sink>, engine: Engine, mut stop: watch::Receiver<bool>) {
    let mut rollup = Rollup::new(jobs, data, sink, engine);
    let mut pause = Duration::ZERO;
    loop {
        let last = tokio::select! {
            () = tokio::time::sleep(pause) => false,
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
                pause = ROUND_INTERVAL.saturating_sub(took).max(took * PAUSE_FACTOR);
            }
            Err(error) => return tracing::error!(%error, "job rollups are no longer written"),
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
    /// Whether the state of the previous process was restored.
    restored: bool,
    /// Whether the last round failed, which is logged once.
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
                tracing::warn!(%error, "cannot restore job rollups; they start anew");
            }
        }
        self.state.forget(&running, now);
        match self.compute(&running, now) {
            Ok(series) => {
                self.failed = false;
                self.write(series, now);
                self.store_round_time(now);
            }
            Err(error) if !self.failed => {
                self.failed = true;
                tracing::warn!(%error, "cannot compute job rollups");
            }
            Err(_) => {}
        }
    }

    fn compute(&mut self, jobs: &[Job], now: i64) -> Result<Vec<(Labels, f64)>, QueryError> {
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
                // Rows with the same query are adjacent, so only one result is held.
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

    /// Writes these series and ends others.
    fn write(&mut self, mut series: Vec<(Labels, f64)>, now: i64) {
        series.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        series.dedup_by(|a, b| a.0 == b.0);
        let truncated = series.len() > MOST;
        if truncated && !self.truncated {
            tracing::warn!(series = series.len(), most = MOST, "too many series of jobs; some are omitted");
        }
        self.truncated = truncated;
        series.truncate(MOST);
        let (labels, values): (Vec<Labels>, Vec<f64>) = series.into_iter().unzip();
        if self.written.write(&self.sink, "job rollups", labels, values, now) {
            describe(&self.jobs.store);
        }
    }

    fn end(&mut self) {
        self.write(Vec::new(), now_ms());
    }

    fn store_round_time(&self, now: i64) {
        let kept = self.jobs.store.table(TABLE).put(LAST_ROUND, now.to_be_bytes());
        if let Err(error) = kept {
            tracing::warn!(%error, "cannot store the time of the last job rollup; after a restart rollups start anew");
        }
    }

    /// Restores the state of the previous process.
    fn restore(&mut self, jobs: &[Job], now: i64) -> Result<(), QueryError> {
        let kept = self.jobs.store.table(TABLE).get(LAST_ROUND).ok().flatten();
        let at = kept.and_then(|v| Some(i64::from_be_bytes(v.try_into().ok()?)));
        let Some(at) = at.filter(|at| (now - MAX_DOWNTIME_MS..now).contains(at)) else { return Ok(()) };
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
        tracing::warn!(%error, "cannot store metadata of job rollups");
    }
}
