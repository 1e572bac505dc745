//! The fabric's topology while the collector runs: files of the config and what agents hear, merged again each half
//! minute. Every version is kept with the time from which it holds, so that a report uses the topology of its time.

#![forbid(unsafe_code)]

mod change;
mod files;
mod heard;
mod history;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fabriclens_correlate::Topology;
use fabriclens_correlate::topology::{HostNames, PortInfo, TopologySource, from_agents, merge};
use fabriclens_promql::{Engine, QueryError, Value};
use fabriclens_store::Store;
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use tokio::sync::{Notify, watch};

use change::Change;
use fabriclens_config::Config;
use fabriclens_core::periodic::{Trigger, periodic};
use fabriclens_core::time::now_ms;
use fabriclens_data::Data;
use files::Files;
use heard::{Heard, Report};
use history::History;

/// How often files and agents are asked.
const EVERY: Duration = Duration::from_secs(30);
/// Beside the samples: a backup has both.
const TABLE: &str = "topology";
/// What agents tell of their ports, with the time at which they told it: after a cable has moved, two series of one port
/// are found for a while, and the newer is right.
const PORTS: &str = "timestamp(fabric_port_info)";

/// Trigger the history cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the history of the topology: {0}; check the data directory's disk, or restore a backup")]
pub struct TopologiesError(String);

/// A file of the config, as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceFile {
    /// Its path.
    pub path: String,
    /// Its format, once it was read.
    pub format: Option<&'static str>,
    /// Cables that it tells.
    pub cables: usize,
    /// What in it was left out, by line; bounded.
    pub complaints: Vec<String>,
    /// Trigger its last version was not taken.
    pub error: Option<String>,
}

/// See the module.
pub struct Topologies {
    aliases: BTreeMap<String, String>,
    /// With the time (Unix ns) from which it holds.
    current: RwLock<(i64, Arc<Topology>)>,
    history: History,
    round: Mutex<Round>,
    wake: Arc<Notify>,
}

/// What a round goes on from.
struct Round {
    files: Files,
    heard: Heard,
    /// What follows from counters.
    inferred: Option<TopologySource>,
    /// Told once, until it is over.
    failing: bool,
}

impl Topologies {
    /// As it was when the collector stopped, with files as they are now.
    ///
    /// # Errors
    /// [`TopologiesError`] when the table does not open. Files that cannot be read are told in the log.
    pub fn open(store: &Arc<Store>, config: &Config) -> Result<Self, TopologiesError> {
        let failed = |e: &dyn std::fmt::Display| TopologiesError(e.to_string());
        let table = store.table(TABLE).map_err(|e| failed(&e))?;
        let history = History::open(table, config.retention.jobs, store.retention_clock()).map_err(|e| failed(&e))?;
        Ok(Self::over(history, config.topology.clone(), config.jobs.hosts.clone(), now_ms()))
    }

    fn over(history: History, files: Vec<PathBuf>, aliases: BTreeMap<String, String>, now_ms: i64) -> Self {
        let (since, topology, ports) = history.last().unwrap_or_default();
        let heard = Heard::resume(ports, now_ms);
        let round = Mutex::new(Round { files: Files::new(files), heard, inferred: None, failing: false });
        let current = RwLock::new((since, Arc::new(topology)));
        let topologies = Self { aliases, current, history, round, wake: Arc::default() };
        topologies.round(None, now_ms);
        topologies
    }

    /// The one that holds now.
    pub fn current(&self) -> Arc<Topology> {
        self.current.read().1.clone()
    }

    /// The one that held at a time (Unix ns); before the first that is known, the first.
    pub fn at(&self, time_ns: i64) -> Arc<Topology> {
        self.version(time_ns).1
    }

    /// The same, with the time (Unix ns) from which it holds; 0 if there is none.
    pub fn version(&self, time_ns: i64) -> (i64, Arc<Topology>) {
        let current = self.current.read().clone();
        if time_ns >= current.0 {
            return current;
        }
        self.history.at(time_ns).unwrap_or(current)
    }

    /// What the files of the config tell.
    pub fn files(&self) -> Vec<SourceFile> {
        self.round.lock().files.told()
    }

    /// Takes what follows from counters, from now on.
    pub fn infer(&self, told: TopologySource) {
        self.round.lock().inferred = Some(told);
        self.look();
    }

    /// Files are read and agents asked at once.
    pub fn look(&self) {
        self.wake.notify_one();
    }

    /// Merges what files say with what agents told; `None` if nobody could be asked.
    fn round(&self, told_now: Option<Vec<Report>>, now_ms: i64) {
        let mut round = self.round.lock();
        round.files.read();
        if let Some(reports) = told_now {
            round.heard.hear(reports, now_ms);
        }
        let ports: Vec<PortInfo> = round.heard.ports();
        let mut described = from_agents(&ports);
        described.extend(round.files.described().chain(&round.inferred).cloned());
        let new = merge(&described, &HostNames::new(&ports, &self.aliases));
        let (held, old) = self.current.read().clone();
        let since = now_ms.saturating_mul(1_000_000);
        // One that holds from later on was made while the clock was ahead: what is asked for now is that of before.
        if *old == new && held <= since {
            return;
        }
        Change::between(&old, &new).log();
        self.history.add(since, &new, &ports);
        *self.current.write() = (since, Arc::new(new));
    }

    fn ask(&self, engine: &Engine, data: &Data, now_ms: i64) -> Option<Vec<Report>> {
        let asked = reports(engine, data, now_ms);
        let mut round = self.round.lock();
        match asked {
            Ok(reports) => {
                round.failing = false;
                Some(reports)
            }
            Err(error) => {
                if !std::mem::replace(&mut round.failing, true) {
                    tracing::warn!(%error, "cannot ask how ports are wired; the topology stays as it is");
                }
                None
            }
        }
    }
}

fn reports(engine: &Engine, data: &Data, now_ms: i64) -> Result<Vec<Report>, QueryError> {
    let Value::Vector(samples) = engine.instant(data.reader(), PORTS, now_ms)?.value else { return Ok(Vec::new()) };
    let report =
        |s: fabriclens_promql::Sample| Some(Report { port: PortInfo::of(&s.labels)?, told_ms: (s.value * 1e3) as i64 });
    Ok(samples.into_iter().filter_map(report).collect())
}

/// Asks again and again until `stop` becomes true.
pub async fn run(topologies: Arc<Topologies>, data: Arc<Data>, engine: Engine, stop: watch::Receiver<bool>) {
    let wake = topologies.wake.clone();
    let work = move |why| {
        if why != Trigger::Stop {
            let now = now_ms();
            let told = topologies.ask(&engine, &data, now);
            topologies.round(told, now);
        }
    };
    periodic(EVERY, wake, stop, "the topology is no longer looked at", work).await;
}

#[cfg(test)]
mod tests;
