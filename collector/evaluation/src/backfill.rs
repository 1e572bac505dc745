//! What a watch is shown out of the store: frames of before, ports that there were, and answers to the questions that samples
//! as they arrive do not answer.

use std::collections::HashSet;

use fabriclens_correlate::Incident;
use fabriclens_correlate::topology::port_name;
use fabriclens_correlate::{
    ALL, Fabric, Frame, IncidentTracker, Job, Ports, SignalSpec, Topology, query_at, query_frames,
};
use fabriclens_model::{Matcher, Read};
use fabriclens_promql::{Engine, QueryError};

use fabriclens_data::Near;
use fabriclens_data::engine;
use fabriclens_state::AppState;

/// One frame, ms: what agents send in.
pub(super) const STEP_MS: i64 = 1000;
/// What is read of what was before, ms.
pub(super) const BEFORE_MS: i64 = 90_000;
/// What was calm before an incident: from so long before it until so long before it, ms.
const CALM_MS: [i64; 2] = [80_000, 20_000];
/// What began so long before is a part of what is usual, ms.
const STANDING_MS: i64 = 300_000;
const DAY_MS: i64 = 86_400_000;
/// A metric that every port has, by which ports are known at the start.
const PORTS: &str = "fabric_port_io_bytes_total";

/// A question that is asked now and then; its answer holds until the next.
struct Asked {
    row: &'static SignalSpec,
    answer: Vec<(usize, f64)>,
}

/// See the module. Instants are Unix ms.
pub(super) struct Eyes {
    state: AppState,
    engine: Engine,
    pub(super) watch: IncidentTracker,
    asked: Vec<Asked>,
    /// Which was asked last.
    turn: usize,
}

impl Eyes {
    /// That know nothing yet, and ask these questions.
    pub(super) fn new(state: &AppState, questions: impl IntoIterator<Item = &'static SignalSpec>) -> Self {
        let fabric = Fabric::new(Topology::default(), Ports::default(), Vec::new());
        Self {
            watch: IncidentTracker::new(fabric, state.config.thresholds.clone()),
            engine: engine(&state.config.query),
            state: state.clone(),
            asked: questions.into_iter().map(|row| Asked { row, answer: Vec::new() }).collect(),
            turn: 0,
        }
    }

    /// How many questions there are.
    pub(super) fn questions(&self) -> usize {
        self.asked.len()
    }

    /// Asks the next question as of an instant.
    pub(super) fn ask_next(&mut self, at: i64) {
        if self.asked.is_empty() {
            return;
        }
        self.turn = (self.turn + 1) % self.asked.len();
        self.ask_one(self.turn, at);
    }

    /// Asks all of them.
    pub(super) fn ask_all(&mut self, at: i64) {
        (0..self.asked.len()).for_each(|one| self.ask_one(one, at));
    }

    fn ask_one(&mut self, one: usize, at: i64) {
        let one = &mut self.asked[one];
        match query_at(&self.engine, self.state.data.reader(), self.watch.fabric(), one.row, at) {
            Ok(answer) => one.answer = answer,
            Err(error) => tracing::debug!(%error, query = one.row.promql("30s"), "cannot ask"),
        }
    }

    /// The answers of now are those of a frame.
    pub(super) fn tell_asked(&self, frame: &mut Frame) {
        for one in &self.asked {
            one.answer.iter().for_each(|(port, value)| frame.set(one.row.signal, *port, *value));
        }
    }

    /// Lets ports go that are not heard of; those that did.
    pub(super) fn forget(&mut self, heard: &HashSet<usize>) -> HashSet<usize> {
        let gone: HashSet<usize> = self.watch.forget(|port| heard.contains(&port)).into_iter().collect();
        self.asked.iter_mut().for_each(|one| one.answer.retain(|(port, _)| !gone.contains(port)));
        gone
    }

    /// Takes over the ports that were measured before an instant, since the first of what was open then began; false if there
    /// was none.
    pub(super) fn find_ports(&mut self, open: &[Incident], from: i64, to: i64) -> bool {
        let first = open.iter().map(begin_ms).min().unwrap_or(from);
        let since = first.min(from - BEFORE_MS).max(to - DAY_MS);
        let known = self.state.data.series(&[Matcher::equal("__name__", PORTS)], since, to).unwrap_or_default();
        for labels in &known {
            self.watch.measured_port(labels.get("host"), &port_name(labels));
        }
        !known.is_empty()
    }

    /// These jobs run and no others.
    pub(super) fn employ(&mut self, jobs: &[fabriclens_jobs::Job]) {
        let jobs = jobs.iter().map(|job| job_of(self.watch.fabric(), job)).collect();
        self.watch.set_jobs(jobs);
    }

    /// Shows what was calm before what is open at an instant, and says from when on frames are to be shown.
    ///
    /// # Errors
    /// [`QueryError`].
    pub(super) fn calm_before(&mut self, open: &[Incident], at: i64) -> Result<i64, QueryError> {
        let young = open.iter().filter(|i| !Self::stands(i, at)).map(begin_ms).min().map(frame_of);
        if !open.is_empty() {
            for frame in self.calm(young.unwrap_or(at))? {
                self.watch.add_baseline_frame(frame);
            }
        }
        Ok(young.map_or(at - BEFORE_MS, |first| first.max(at - BEFORE_MS)))
    }

    /// Frames of before an instant, when nothing was wrong yet.
    ///
    /// # Errors
    /// [`QueryError`].
    pub(super) fn calm(&self, begin: i64) -> Result<Vec<Frame>, QueryError> {
        self.frames(begin - CALM_MS[0], begin - CALM_MS[1])
    }

    /// Goes on with one that began long before this instant, beside what was calm at its place then: many may stand, for weeks.
    /// False if the fabric does not have its place (yet).
    pub(super) fn take_up_old(&mut self, incident: &Incident, now: i64) -> bool {
        if incident.root.find(self.watch.fabric()).is_none() {
            return false;
        }
        let (nodes, begin) = (incident.root.nodes(), frame_of(begin_ms(incident)));
        let there = Near::new(self.state.data.reader(), nodes.clone());
        let read: &dyn Read = if nodes.is_empty() { self.state.data.reader() } else { &there };
        let calm = self.frames_of(read, begin - CALM_MS[0], begin - CALM_MS[1]).unwrap_or_else(|error| {
            tracing::warn!(%error, id = incident.id, "what was before an incident cannot be read; it may seem to be over");
            Vec::new()
        });
        self.watch.resume_with_baseline(incident, calm, now.saturating_mul(1_000_000))
    }

    /// Whether it began so long before an instant that it is a part of what is usual.
    pub(super) fn stands(incident: &Incident, at: i64) -> bool {
        begin_ms(incident) <= at - STANDING_MS
    }

    /// Frames from one instant to another, both included, that are told by the store.
    ///
    /// # Errors
    /// [`QueryError`].
    pub(super) fn frames(&self, from: i64, to: i64) -> Result<Vec<Frame>, QueryError> {
        self.frames_of(self.state.data.reader(), from, to)
    }

    fn frames_of(&self, read: &dyn Read, from: i64, to: i64) -> Result<Vec<Frame>, QueryError> {
        let ticks: Vec<i64> = (0..).map(|n| from + n * STEP_MS).take_while(|t| *t <= to).collect();
        // What is slow looks back for as much as a day, and is asked in its turn.
        let rows = ALL.iter().filter(|row| !row.slow);
        query_frames(&self.engine, read, self.watch.fabric(), rows, &ticks, STEP_MS)
    }
}

fn begin_ms(incident: &Incident) -> i64 {
    incident.start_ns / 1_000_000
}

/// End of the frame in which an instant lies.
pub(super) fn frame_of(ms: i64) -> i64 {
    ms.saturating_sub(1).div_euclid(STEP_MS).saturating_add(1).saturating_mul(STEP_MS)
}

/// A job with its ports: those of its devices, or all RDMA ports of its hosts where nobody says which.
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
