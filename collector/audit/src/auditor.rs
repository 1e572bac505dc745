//! The audit of a running collector: repeated every few seconds, as often as a twentieth of one core allows.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_core::periodic::{Trigger, periodic};
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ms;
use fabriclens_correlate::Topology;
use fabriclens_data::Data;
use fabriclens_forward::{SeriesWriter, Sink};
use fabriclens_promql::{Engine, QueryError};
use fabriclens_store::Store;
use fabriclens_topology::Topologies;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::baseline::SettingsBaseline;
use crate::changes::Changes;
use crate::drift::{Drift, Split};
use crate::files::{BaselineFileState, Files};
use crate::judge::judge;
use crate::learn::learn;
use crate::member::Members;
use crate::read::SettingsReader;
use crate::series;

/// Interval of audits. Agents read settings every few seconds, and a series must be written well within the lookback of queries.
const INTERVAL: Duration = Duration::from_secs(10);
/// Pause after an audit as a multiple of its duration, which limits audits to a twentieth of a core.
const PAUSE_FACTOR: u32 = 19;
/// Most drifts that are kept.
const MOST: usize = 10_000;
/// Most split groups that are kept.
const MOST_SPLITS: usize = 200;

/// What the last audit found.
#[derive(Clone, Debug, Default)]
pub struct AuditReport {
    /// Time of the audit, Unix ms; 0 before the first one.
    pub time_ms: i64,
    /// Ports and devices that were compared.
    pub compared: usize,
    /// Settings that are not as expected, the worst first; bounded.
    pub drifts: Vec<Drift>,
    /// Drifts beyond the bound.
    pub more: usize,
    /// Groups without a majority; bounded.
    pub splits: Vec<Split>,
    /// Files of baselines.
    pub files: Vec<BaselineFileState>,
    /// Why settings or their history could not be read at the last attempt.
    pub error: Option<String>,
}

/// The last report, and what the next one needs.
pub struct Auditor {
    report: RwLock<Arc<AuditReport>>,
    members: RwLock<Arc<Members>>,
    round: Mutex<Round>,
}

struct Round {
    files: Files,
    changes: Changes,
}

impl Auditor {
    /// Reads the files of baselines, and logs those that it cannot use.
    pub fn new(baselines: Vec<PathBuf>) -> Self {
        let files = Files::new(baselines);
        let report = AuditReport { files: files.state(), ..AuditReport::default() };
        Self {
            report: RwLock::new(Arc::new(report)),
            members: RwLock::default(),
            round: Mutex::new(Round { files, changes: Changes::default() }),
        }
    }

    /// The last report.
    pub fn report(&self) -> Arc<AuditReport> {
        self.report.read().clone()
    }

    /// The settings of a host as a file of baselines; `None` if none of its ports was up at the last audit.
    pub fn learn(&self, host: &str) -> Option<String> {
        let members = self.members.read().clone();
        learn(&members, host)
    }

    /// Audits all ports at `now_ms`.
    fn audit(&self, engine: &Engine, data: &Data, topology: &Topology, now_ms: i64) {
        let mut round = self.round.lock();
        round.files.refresh();
        let mut report = match self.read(&mut round, engine, data, topology, now_ms) {
            Ok(report) => report,
            Err(error) => {
                let last = self.report();
                if last.error.is_none() {
                    tracing::warn!(%error, "cannot read settings; the audit keeps its last report");
                }
                AuditReport { error: Some(error.to_string()), ..(*last).clone() }
            }
        };
        report.files = round.files.state();
        *self.report.write() = Arc::new(report);
    }

    fn read(
        &self,
        round: &mut Round,
        engine: &Engine,
        data: &Data,
        topology: &Topology,
        now_ms: i64,
    ) -> Result<AuditReport, QueryError> {
        let now = SettingsReader { engine, read: data.reader(), at_ms: now_ms };
        let members = now.members()?;
        let baselines: Vec<&SettingsBaseline> = round.files.baselines().collect();
        let judgment = judge(&members, topology, &baselines);
        let (mut drifts, mut splits) = (judgment.drifts, judgment.splits);
        let more = drifts.len().saturating_sub(MOST);
        drifts.truncate(MOST);
        splits.truncate(MOST_SPLITS);
        // A report without times of changes is better than none.
        let explained = round.changes.explain(&mut drifts, &members, now);
        let compared = members.iter().filter(|member| !member.of_switch).count();
        *self.members.write() = Arc::new(members);
        let error = explained.err().map(|error| error.to_string());
        Ok(AuditReport { time_ms: now_ms, compared, drifts, more, splits, files: Vec::new(), error })
    }
}

/// What audits read and write.
pub struct Services {
    /// Samples of this collector.
    pub data: Arc<Data>,
    /// Engine with the configured limits.
    pub engine: Engine,
    /// Cables, for the other ends of links.
    pub topologies: Arc<Topologies>,
    /// Takes the drifts as series.
    pub sink: Arc<Sink>,
    /// Takes their metadata.
    pub store: Arc<Store>,
    /// Counts what audits cost.
    pub telemetry: Telemetry,
}

/// Audits until `stop` becomes true, writes the drifts as series, and tells them to `tell` after each audit.
pub async fn run(
    auditor: Arc<Auditor>,
    services: Services,
    tell: impl Fn(&[Drift]) + Send + 'static,
    stop: watch::Receiver<bool>,
) {
    let Services { data, engine, topologies, sink, store, telemetry } = services;
    let (mut writer, mut next) = (SeriesWriter::default(), Instant::now());
    let work = move |trigger| {
        let (now, began) = (now_ms(), Instant::now());
        if trigger == Trigger::Stop {
            return series::write(&mut writer, &sink, &store, &[], now);
        }
        if began >= next {
            auditor.audit(&engine, &data, &topologies.current(), now);
            tell(&auditor.report().drifts);
            let took = began.elapsed();
            telemetry.audit_seconds.observe(took.as_secs_f64());
            next = Instant::now() + took * PAUSE_FACTOR;
        }
        series::write(&mut writer, &sink, &store, &auditor.report().drifts, now);
    };
    periodic(INTERVAL, Arc::default(), stop, "settings are no longer audited", work).await;
}
