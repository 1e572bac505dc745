//! Feeds the incident tracker from the store: frames of the past, ports that existed, and signals that cannot be
//! computed from arriving samples.

use std::collections::HashSet;

use fabriclens_correlate::Incident;
use fabriclens_correlate::topology::port_name;
use fabriclens_correlate::{
    ALL, Fabric, Frame, IncidentTracker, Job, Ports, QueriedSignal, SignalSpec, Topology, query_frames,
};
use fabriclens_model::{Matcher, Read, Unlimited};
use fabriclens_promql::{Engine, QueryError};

use fabriclens_core::time::now_ms;
use fabriclens_data::HostReader;
use fabriclens_data::engine;
use fabriclens_state::AppState;

/// Length of a frame, ms: the interval at which agents send.
pub(super) const STEP_MS: i64 = 1000;
/// Range that is read before the begin of an evaluation, ms.
pub(super) const BEFORE_MS: i64 = 90_000;
/// Range before an incident that serves as baseline: begin and end, ms before it.
const BASELINE_MS: [i64; 2] = [80_000, 20_000];
/// Incidents that began longer ago than this belong to the baseline, ms.
const OLD_MS: i64 = 300_000;
const DAY_MS: i64 = 86_400_000;
/// How far back incidents are compared with those of today, ms.
const PAST_MS: i64 = 29 * DAY_MS;
/// A metric of every port, by which ports are discovered at the start.
const PORTS: &str = "fabric_port_io_bytes_total";

/// The tracker with its access to the store. Instants are Unix ms.
pub(super) struct Backfill {
    state: AppState,
    engine: Engine,
    pub(super) tracker: IncidentTracker,
    signals: Vec<QueriedSignal>,
    /// Index of the last query.
    next_signal: usize,
}

impl Backfill {
    /// Creates a tracker that knows past incidents only, with these queried signals.
    pub(super) fn new(state: &AppState, signals: impl IntoIterator<Item = &'static SignalSpec>) -> Self {
        let fabric = Fabric::new(Topology::default(), Ports::default(), Vec::new());
        let mut tracker = IncidentTracker::new(fabric, state.config.thresholds.clone());
        tracker.learn_past(&state.incidents.ended_since((now_ms() - PAST_MS).saturating_mul(1_000_000)));
        Self {
            tracker,
            engine: engine(&state.config.query),
            state: state.clone(),
            signals: signals.into_iter().map(QueriedSignal::new).collect(),
            next_signal: 0,
        }
    }

    /// Number of queried signals.
    pub(super) fn signal_count(&self) -> usize {
        self.signals.len()
    }

    /// Queries the next signal at an instant.
    pub(super) fn query_next(&mut self, at: i64) {
        if self.signals.is_empty() {
            return;
        }
        self.next_signal = (self.next_signal + 1) % self.signals.len();
        self.query_one(self.next_signal, at);
    }

    /// Queries all signals at an instant.
    pub(super) fn query_all(&mut self, at: i64) {
        (0..self.signals.len()).for_each(|one| self.query_one(one, at));
    }

    fn query_one(&mut self, one: usize, at: i64) {
        let one = &mut self.signals[one];
        if let Err(error) = one.query(&self.engine, self.state.data.reader(), self.tracker.fabric(), at) {
            tracing::debug!(%error, query = one.row.promql("30s"), "cannot query a signal");
        }
    }

    /// Writes the last values of all queried signals into a frame.
    pub(super) fn fill(&self, frame: &mut Frame) {
        self.signals.iter().for_each(|one| one.fill(frame));
    }

    /// Removes ports not in `heard`; returns the removed ones.
    pub(super) fn forget(&mut self, heard: &HashSet<usize>) -> HashSet<usize> {
        let gone: HashSet<usize> = self.tracker.forget(|port| heard.contains(&port)).into_iter().collect();
        self.signals.iter_mut().for_each(|one| one.remove_ports(&gone));
        gone
    }

    /// Adds the ports that were measured before an instant, from the begin of the first open incident; false if there
    /// were none.
    pub(super) fn find_ports(&mut self, open: &[Incident], from: i64, to: i64) -> bool {
        let first = open.iter().map(begin_ms).min().unwrap_or(from);
        let since = first.min(from - BEFORE_MS).max(to - DAY_MS);
        let known =
            self.state.data.series(&[Matcher::equal("__name__", PORTS)], since, to, &Unlimited).unwrap_or_default();
        for labels in &known {
            self.tracker.measured_port(labels.get("host"), &port_name(labels));
        }
        !known.is_empty()
    }

    /// Replaces the running jobs.
    pub(super) fn set_jobs(&mut self, jobs: &[fabriclens_jobs::Job]) {
        let jobs = jobs.iter().map(|job| job_of(self.tracker.fabric(), job)).collect();
        self.tracker.set_jobs(jobs);
    }

    /// Adds baseline frames from before the open incidents, and returns the instant from which frames must be replayed.
    ///
    /// # Errors
    /// [`QueryError`].
    pub(super) fn load_baseline(&mut self, open: &[Incident], at: i64) -> Result<i64, QueryError> {
        let young = open.iter().filter(|i| !Self::is_old(i, at)).map(begin_ms).min().map(frame_of);
        if !open.is_empty() {
            for frame in self.baseline_frames(young.unwrap_or(at))? {
                self.tracker.add_baseline_frame(frame);
            }
        }
        Ok(young.map_or(at - BEFORE_MS, |first| first.max(at - BEFORE_MS)))
    }

    /// Baseline frames before an incident.
    ///
    /// # Errors
    /// [`QueryError`].
    pub(super) fn baseline_frames(&self, begin: i64) -> Result<Vec<Frame>, QueryError> {
        self.frames(begin - BASELINE_MS[0], begin - BASELINE_MS[1])
    }

    /// Resumes an old incident with the baseline of its location at that time; there may be many such incidents, weeks
    /// old. False if the fabric does not have its location (yet).
    pub(super) fn resume_old(&mut self, incident: &Incident, now: i64) -> bool {
        if incident.root.find(self.tracker.fabric()).is_none() {
            return false;
        }
        let (nodes, begin) = (incident.root.nodes(), frame_of(begin_ms(incident)));
        let reader = HostReader::new(self.state.data.reader(), nodes.clone());
        let read: &dyn Read = if nodes.is_empty() { self.state.data.reader() } else { &reader };
        let baseline = self.frames_of(read, begin - BASELINE_MS[0], begin - BASELINE_MS[1]).unwrap_or_else(|error| {
            tracing::warn!(%error, id = incident.id, "cannot read the baseline of an incident; it may end prematurely");
            Vec::new()
        });
        self.tracker.resume_with_baseline(incident, baseline, now.saturating_mul(1_000_000))
    }

    /// Whether an incident began long enough before an instant to belong to the baseline.
    pub(super) fn is_old(incident: &Incident, at: i64) -> bool {
        begin_ms(incident) <= at - OLD_MS
    }

    /// Reads frames between two instants, both included, from the store.
    ///
    /// # Errors
    /// [`QueryError`].
    pub(super) fn frames(&self, from: i64, to: i64) -> Result<Vec<Frame>, QueryError> {
        self.frames_of(self.state.data.reader(), from, to)
    }

    fn frames_of(&self, read: &dyn Read, from: i64, to: i64) -> Result<Vec<Frame>, QueryError> {
        let ticks: Vec<i64> = (0..).map(|n| from + n * STEP_MS).take_while(|t| *t <= to).collect();
        // Slow signals look back for up to a day and are queried in turn.
        let rows = ALL.iter().filter(|row| !row.slow);
        query_frames(&self.engine, read, self.tracker.fabric(), rows, &ticks, STEP_MS)
    }
}

fn begin_ms(incident: &Incident) -> i64 {
    incident.start_ns / 1_000_000
}

/// End of the frame that contains an instant.
pub(super) fn frame_of(ms: i64) -> i64 {
    ms.saturating_sub(1).div_euclid(STEP_MS).saturating_add(1).saturating_mul(STEP_MS)
}

/// A job with its ports: those of its devices, or all RDMA ports of its hosts if devices are unknown.
fn job_of(fabric: &Fabric, job: &fabriclens_jobs::Job) -> Job {
    let mut ports = Vec::new();
    for (host, place) in &job.hosts {
        let Some(node) = fabric.topology.node(host) else { continue };
        let has = |port: &&usize| {
            let name = &fabric.ports.list[**port].end.port;
            let device = name.split_once('/').map_or(name.as_str(), |d| d.0);
            place.devices.is_empty() || place.devices.iter().any(|d| d == device)
        };
        ports.extend(fabric.ports.of_node(node).iter().filter(has));
    }
    Job { id: job.key().to_string(), ports, since_ns: job.start_ns }
}
