//! Turns frames into incidents. It opens an incident when a detector is sure that something began, keeps the baseline
//! from before, runs the detectors again at each tick, and closes the incident when they have found nothing for a
//! while.
//!
//! Several incidents may be open. Each location with a directly observed problem (a NIC that pauses, a link with
//! errors) has its own. Findings inferred from effects take many forms, so they belong to an open incident.

use crate::baseline::history::History;
use crate::baseline::reference::Baseline;
use crate::baseline::window::Window;
use crate::detectors::counter_sanity::{CounterSanity, ImplausibleReason};
use crate::detectors::thresholds::Thresholds;
use crate::model::fabric::{Fabric, Job};
use crate::model::frame::Frame;
use crate::model::incident::Incident;
use crate::model::inferred_cables::{self, InferredCables};
use crate::model::location::LocationId;
use crate::model::routes::update::RouteUpdate;
use crate::model::signal::Signal;
use crate::model::topology::{Topology, TopologySource};
use crate::signals::frame_sink::FrameSink;
use crate::tracker::evaluation::Evaluator;
use crate::tracker::open_incident::OpenIncident;
use crate::tracker::past_incidents::PastIncidents;
use crate::tracker::timing::{ASKED, FILLED_S, LAG_S, LAG_TICKS, LOOK_S, NEWEST};
use fabriclens_collectives::JobCollectives;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Open incidents and their life cycle.
pub struct IncidentTracker {
    pub(super) eval: Evaluator,
    /// Open incidents, the oldest first.
    pub(super) open: Vec<OpenIncident>,
    pub(super) opened: usize,
    /// When the baseline may learn again, Unix ns.
    pub(super) baseline_from_ns: i64,
    /// Ports and end (Unix ns) of the latest closed incidents.
    pub(super) ended: VecDeque<(Vec<usize>, i64)>,
    /// Counts ticks, to take turns.
    pub(super) turn: usize,
    pub(super) cables: InferredCables,
    /// When cables were last inferred, Unix ns.
    pub(super) cables_inferred_ns: i64,
    pub(super) implausible: CounterSanity,
    pub(super) full: bool,
}

impl IncidentTracker {
    /// A tracker without incidents.
    pub fn new(fabric: Fabric, thresholds: Thresholds) -> Self {
        let never = i64::MIN;
        Self {
            eval: Evaluator { fabric, thresholds, history: History::default(), past: PastIncidents::default() },
            open: Vec::new(),
            opened: 0,
            baseline_from_ns: never,
            ended: VecDeque::new(),
            turn: 0,
            cables: InferredCables::default(),
            cables_inferred_ns: never,
            implausible: CounterSanity::default(),
            full: false,
        }
    }

    /// A port that receives too much and whose queue-pair peers are still unknown.
    pub fn next_port_without_peers(&mut self) -> Option<usize> {
        let receivers =
            |incident: &OpenIncident| incident.verdict().receivers.iter().take(ASKED).copied().collect::<Vec<_>>();
        let all: Vec<usize> = self.open.iter().flat_map(receivers).collect();
        self.eval.fabric.first_without_peers(&all)
    }

    /// Sets the queue-pair peers of a port.
    pub fn set_peers(&mut self, port: usize, peers: BTreeSet<usize>) {
        self.eval.fabric.set_peers(port, peers);
    }

    /// Stores what became known of paths, queue pairs or probes at an instant, Unix nanoseconds.
    pub fn learn(&mut self, time_ns: i64, update: RouteUpdate) {
        self.eval.fabric.learn(time_ns, update);
    }

    /// Replaces what is known of collectives: of running jobs with stragglers, by job id.
    pub fn set_collectives(&mut self, of_job: BTreeMap<String, JobCollectives>) {
        self.eval.fabric.collectives = of_job;
    }

    /// Adds a frame and evaluates it. Returns the incidents that closed.
    pub fn tick(&mut self, frame: Frame) -> Vec<Incident> {
        self.push(frame);
        self.evaluate()
    }

    /// Adds a frame.
    pub fn push(&mut self, frame: Frame) {
        let lag = self.eval.ticks(LAG_S).max(LAG_TICKS);
        let baseline_from_ns = self.frozen_until_ns(self.open.iter(), self.baseline_from_ns);
        self.eval.history.push(frame, lag, baseline_from_ns);
    }

    /// Instant of the newest frame, Unix nanoseconds.
    pub fn now_ns(&self) -> i64 {
        self.eval.history.now_ns()
    }

    /// The newest value of a signal at each port since an instant (Unix ns), in the order of the fabric's ports; `NaN` where there is
    /// none.
    pub fn newest(&self, signal: Signal, from_ns: i64) -> Vec<f32> {
        self.eval.history.newest(signal, self.eval.fabric.ports.list.len(), from_ns)
    }

    /// The line rate of a port as last reported, bytes per second.
    pub fn line_rate(&self, port: usize) -> Option<f64> {
        self.eval.history.line_rate(port)
    }

    /// The frame of an instant, for samples that arrive late.
    pub fn frame(&mut self, time_ns: i64) -> Option<&mut Frame> {
        let late = self.eval.history.now_ns().saturating_sub(time_ns) as f64 > FILLED_S * 1e9;
        let frame = self.eval.history.at(time_ns)?;
        frame.late |= late;
        Some(frame)
    }

    /// Copies a rate to the frames just before an instant that have none, because the rate covers them too.
    pub fn fill(&mut self, time_ns: i64, signal: Signal, port: usize, rate: f64) {
        self.eval.history.fill(time_ns, signal, port, rate);
    }

    /// Adds an older frame that is known to be free of incidents.
    pub fn add_baseline_frame(&mut self, frame: Frame) {
        self.eval.history.add_baseline_frame(Arc::new(frame));
    }

    /// The fabric.
    pub fn fabric(&self) -> &Fabric {
        &self.eval.fabric
    }

    /// Index of a port, which is added if it is new.
    pub fn measured_port(&mut self, node: &str, port: &str) -> Option<usize> {
        self.eval.fabric.measured_port(node, port)
    }

    /// Infers cables now and then; returns them if they have changed. `is_switch` is true for nodes that forward,
    /// including those that the fabric takes for hosts.
    pub fn cables(&mut self, is_switch: impl Fn(&Fabric, usize) -> bool) -> Option<TopologySource> {
        let (due, step) = (self.eval.nanoseconds(LOOK_S), (self.eval.history.step_s() * 1e9) as i64);
        if self.eval.history.now_ns().saturating_sub(self.cables_inferred_ns) < due {
            return None;
        }
        self.cables_inferred_ns = self.eval.history.now_ns();
        // The newest frames are incomplete: samples are still arriving.
        let to_ns = self.cables_inferred_ns - NEWEST * step;
        let now = self.eval.history.between(to_ns - (inferred_cables::TICKS as i64) * step, to_ns);
        let is_switch = |node: usize| is_switch(&self.eval.fabric, node);
        self.cables
            .update(now.frames(), &self.eval.fabric, is_switch)
            .then(|| self.cables.as_source(&self.eval.fabric, is_switch))
    }

    /// Takes over the links of another topology. Incidents keep their links.
    pub fn rewire(&mut self, topology: &Topology) {
        let old: Vec<_> = self.eval.fabric.topology.links.iter().map(|link| link.ends.clone()).collect();
        self.eval.fabric.rewire(topology);
        let new: HashMap<_, usize> =
            self.eval.fabric.topology.links.iter().enumerate().map(|(at, link)| (link.ends.clone(), at)).collect();
        // A link that no source names any more is replaced by one of its ports.
        let list = &self.eval.fabric.ports.list;
        let left = |link: usize| {
            let ports: Vec<usize> = old[link].iter().filter_map(|end| self.eval.fabric.ports.at(end)).collect();
            let linked = ports.iter().find_map(|port| list[*port].link).map(LocationId::Link);
            let host = || ports.iter().find(|port| self.eval.fabric.is_host(**port)).or(ports.first());
            linked.or_else(|| host().map(|port| LocationId::Port(*port))).unwrap_or(LocationId::Fabric)
        };
        for incident in &mut self.open {
            incident.renumber(|link| new.get(&old[link]).map_or_else(|| left(link), |at| LocationId::Link(*at)));
        }
    }

    /// Replaces the running jobs.
    pub fn set_jobs(&mut self, jobs: Vec<Job>) {
        let pinned: HashSet<usize> = self.open.iter().flat_map(OpenIncident::jobs).collect();
        self.eval.fabric.set_jobs(jobs, &pinned);
    }

    /// Resumes incidents that were open before a restart, at an instant (Unix ns). Returns those whose location the
    /// fabric does not have.
    pub fn resume<'a>(&mut self, incidents: &'a [Incident], now_ns: i64) -> Vec<&'a Incident> {
        let baseline = self.eval.history.baseline(&self.eval.fabric, self.baseline_from_ns);
        let mut lost = Vec::new();
        for incident in incidents {
            match OpenIncident::resume(incident, &self.eval.fabric, baseline.clone()) {
                Some(mut resumed) => {
                    resumed.confirm(now_ns);
                    self.open.push(resumed);
                }
                None => lost.push(incident),
            }
        }
        lost
    }

    /// Resumes an incident with the baseline from before it. False if the fabric does not have its location.
    pub fn resume_with_baseline(&mut self, incident: &Incident, calm: Vec<Frame>, now_ns: i64) -> bool {
        let calm = Window::new(calm.into_iter().map(Arc::new).collect());
        let baseline = Arc::new(Baseline::of(calm, &self.eval.fabric, i64::MIN));
        let Some(mut resumed) = OpenIncident::resume(incident, &self.eval.fabric, baseline) else { return false };
        resumed.confirm(now_ns);
        self.open.push(resumed);
        true
    }

    /// Takes incidents that ended before a restart, in the order in which they ended, to tell which ones come back by the clock.
    pub fn learn_past<'a>(&mut self, ended: impl IntoIterator<Item = &'a Incident>) {
        ended.into_iter().for_each(|incident| self.eval.past.add(incident));
    }

    /// Open incidents, the oldest first.
    pub fn open(&self) -> Vec<Incident> {
        self.open.iter().map(|incident| incident.to_incident(&self.eval.fabric, false)).collect()
    }

    /// Ports with implausible counters, and why.
    pub fn implausible(&self) -> impl Iterator<Item = (usize, ImplausibleReason)> + '_ {
        self.implausible.all()
    }

    /// Whether findings were lately suppressed because of the limit of open incidents.
    pub fn is_at_limit(&self) -> bool {
        self.full
    }
}

impl FrameSink for IncidentTracker {
    fn now_ns(&self) -> i64 {
        self.now_ns()
    }

    fn measured_port(&mut self, node: &str, port: &str) -> Option<usize> {
        self.measured_port(node, port)
    }

    fn frame(&mut self, time_ns: i64) -> Option<&mut Frame> {
        self.frame(time_ns)
    }

    fn fill(&mut self, time_ns: i64, signal: Signal, port: usize, rate: f64) {
        self.fill(time_ns, signal, port, rate);
    }
}
