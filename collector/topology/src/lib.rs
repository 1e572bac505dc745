//! Topology of the fabric, merged every half minute from configured files and reports of agents. Every version is kept
//! with the time from which it is valid, so that reports use the topology of their time.
//!
//! ```
//! use fabriclens_config::Config;
//! use fabriclens_core::host_senders::HostSenders;
//! use fabriclens_store::{Options, Store};
//! use fabriclens_topology::Topologies;
//! use std::sync::Arc;
//!
//! let dir = tempfile::tempdir()?;
//! let file = dir.path().join("topology.conf");
//! std::fs::write(&file, "SwitchName=leaf1 Nodes=gpu-[01-02]\n")?;
//! let store = Arc::new(Store::open(&dir.path().join("data"), Options::default())?);
//! let config = Config { topology: vec![file], ..Config::default() };
//! let topologies = Topologies::open(&store, &config, HostSenders::default())?;
//! assert_eq!(topologies.current().links.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod bounds;
mod change;
mod files;
mod history;
mod neighbors;
mod reported;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fabriclens_correlate::Topology;
use fabriclens_correlate::topology::{
    HostNames, PortInfo, SwitchNeighbor, TopologySource, from_agents, from_switches, merge,
};
use fabriclens_promql::{Engine, QueryError, Value};
use fabriclens_store::Store;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};

use bounds::BeyondLog;
use change::Change;
use fabriclens_config::Config;
use fabriclens_core::host_senders::HostSenders;
use fabriclens_core::periodic::{Trigger, periodic};
use fabriclens_core::time::now_ms;
use fabriclens_data::Data;
use files::Files;
pub use files::SourceFile;
use history::History;
use neighbors::Neighbors;
use reported::{Report, ReportedPorts};

/// Interval of polling files and agents.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// Table in the store's database, so that a backup contains it.
const TABLE: &str = "topology";
/// Ports as reported by agents, with the time of the report: after a cable moved, two series of one port exist for a
/// while, and the newer one is right.
const PORTS: &str = "timestamp(fabric_port_info)";
/// Neighbors as reported by switches, likewise.
const NEIGHBORS: &str = "timestamp(fabric_port_neighbor_info)";

/// The history of the topology cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the history of the topology: {0}; check the data directory's disk, or restore a backup")]
pub struct TopologiesError(String);

/// From what cables are inferred that no source reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopologyInference {
    /// Ports whose counters move together.
    Counters,
    /// Traces of agents.
    Traces,
}

/// The current topology and its history.
pub struct Topologies {
    aliases: BTreeMap<String, String>,
    /// Valid from this time, Unix ns.
    current: RwLock<(i64, Arc<Topology>)>,
    history: History,
    round: Mutex<Round>,
    wake: Arc<Notify>,
}

/// State between two rounds.
struct Round {
    files: Files,
    reported: ReportedPorts,
    neighbors: Neighbors,
    /// Cables inferred from counters and from traces.
    inferred: BTreeMap<TopologyInference, TopologySource>,
    /// Whether the last query failed, which is logged once.
    failing: bool,
    /// Ports of agents and of switches that are left out.
    beyond: [BeyondLog; 2],
}

impl Topologies {
    /// Restores the last version and reads the files. `senders` tell who reports the ports of each host.
    ///
    /// # Errors
    /// [`TopologiesError`] if the table cannot be opened. Unreadable files are logged.
    pub fn open(store: &Arc<Store>, config: &Config, senders: HostSenders) -> Result<Self, TopologiesError> {
        let history = History::open(store.table(TABLE), config.retention.jobs, store.retention_clock())
            .map_err(|e| TopologiesError(e.to_string()))?;
        Ok(Self::with_history(history, config.topology.clone(), config.jobs.hosts.clone(), senders, now_ms()))
    }

    fn with_history(
        history: History,
        files: Vec<PathBuf>,
        aliases: BTreeMap<String, String>,
        senders: HostSenders,
        now_ms: i64,
    ) -> Self {
        let (since, topology, ports) = history.last().unwrap_or_default();
        let reported = ReportedPorts::resume(ports, senders.clone(), now_ms);
        let neighbors = Neighbors::resume(SwitchNeighbor::known(&topology), senders, now_ms);
        let (files, inferred, beyond) = (Files::new(files), BTreeMap::new(), Default::default());
        let round = Mutex::new(Round { files, reported, neighbors, inferred, failing: false, beyond });
        let current = RwLock::new((since, Arc::new(topology)));
        let topologies = Self { aliases, current, history, round, wake: Arc::default() };
        topologies.round(None, now_ms);
        topologies
    }

    /// The current topology.
    pub fn current(&self) -> Arc<Topology> {
        self.current.read().1.clone()
    }

    /// The topology at a time, Unix ns; before the first version, the first one.
    pub fn at(&self, time_ns: i64) -> Arc<Topology> {
        self.version(time_ns).1
    }

    /// The same, with the time (Unix ns) from which it is valid; 0 if there is none.
    pub fn version(&self, time_ns: i64) -> (i64, Arc<Topology>) {
        let current = self.current.read().clone();
        if time_ns >= current.0 {
            return current;
        }
        self.history.at(time_ns).unwrap_or(current)
    }

    /// State of the configured files.
    pub fn files(&self) -> Vec<SourceFile> {
        self.round.lock().files.state()
    }

    /// Uses inferred cables from now on, in place of those inferred in the same way before.
    pub fn infer(&self, how: TopologyInference, source: TopologySource) {
        self.round.lock().inferred.insert(how, source);
        self.poll();
    }

    /// Polls files and agents at once.
    pub fn poll(&self) {
        self.wake.notify_one();
    }

    /// Merges files and reports; `None` if agents could not be queried.
    fn round(&self, reports: Option<Vec<Report>>, now_ms: i64) {
        let mut round = self.round.lock();
        round.files.read();
        if let Some(reports) = reports {
            let beyond = round.reported.update(reports, now_ms);
            round.beyond[0].tell(beyond);
        }
        let ports: Vec<PortInfo> = round.reported.ports();
        let mut described = from_agents(&ports);
        described.push(from_switches(&round.neighbors.all()));
        described.extend(round.files.described().chain(round.inferred.values()).cloned());
        let new = merge(&described, &HostNames::new(&ports, &self.aliases));
        let (held, old) = self.current.read().clone();
        let since = now_ms.saturating_mul(1_000_000);
        // A version with a later start was made while the clock was ahead; the present needs its own version.
        if *old == new && held <= since {
            return;
        }
        Change::between(&old, &new).log();
        self.history.add(since, &new, &ports);
        *self.current.write() = (since, Arc::new(new));
    }

    fn ask(&self, engine: &Engine, data: &Data, now_ms: i64) -> Option<Vec<Report>> {
        let asked = reports(engine, data, now_ms).and_then(|ports| Ok((ports, neighbors(engine, data, now_ms)?)));
        let mut round = self.round.lock();
        match asked {
            Ok((reports, neighbors)) => {
                round.failing = false;
                let beyond = round.neighbors.update(neighbors, now_ms);
                round.beyond[1].tell(beyond);
                Some(reports)
            }
            Err(error) => {
                if !std::mem::replace(&mut round.failing, true) {
                    tracing::warn!(%error, "cannot query the ports of agents; the topology stays unchanged");
                }
                None
            }
        }
    }
}

fn reports(engine: &Engine, data: &Data, now_ms: i64) -> Result<Vec<Report>, QueryError> {
    let Value::Vector(samples) = engine.instant(data.reader(), PORTS, now_ms)?.value else { return Ok(Vec::new()) };
    let report = |s: fabriclens_promql::Sample| {
        Some(Report { port: PortInfo::of(&s.labels)?, reported_ms: (s.value * 1e3) as i64 })
    };
    Ok(samples.into_iter().filter_map(report).collect())
}

/// Neighbors of switches, the newest of each port, in order of their names.
fn neighbors(engine: &Engine, data: &Data, now_ms: i64) -> Result<Vec<SwitchNeighbor>, QueryError> {
    let Value::Vector(samples) = engine.instant(data.reader(), NEIGHBORS, now_ms)?.value else { return Ok(Vec::new()) };
    let mut newest: BTreeMap<(String, String), (f64, SwitchNeighbor)> = BTreeMap::new();
    for sample in samples {
        let Some(one) = SwitchNeighbor::of(&sample.labels) else { continue };
        let port = (one.switch.clone(), one.port.clone());
        if newest.get(&port).is_none_or(|(at, _)| *at < sample.value) {
            newest.insert(port, (sample.value, one));
        }
    }
    Ok(newest.into_values().map(|(_, one)| one).collect())
}

/// Polls files and agents until `stop` becomes true.
pub async fn run(topologies: Arc<Topologies>, data: Arc<Data>, engine: Engine, stop: watch::Receiver<bool>) {
    let wake = topologies.wake.clone();
    let work = move |trigger| {
        if trigger != Trigger::Stop {
            let now = now_ms();
            let reports = topologies.ask(&engine, &data, now);
            topologies.round(reports, now);
        }
    };
    periodic(POLL_INTERVAL, wake, stop, "the topology is no longer updated", work).await;
}

#[cfg(test)]
mod tests;
