//! Turns frames into incidents. It opens an incident when a detector is sure that something began, keeps the baseline
//! from before, runs the detectors again at each tick, and closes the incident when they have found nothing for a
//! while.
//!
//! Several incidents may be open. Each location with a directly observed problem (a NIC that pauses, a link with
//! errors) has its own. Findings inferred from effects take many forms, so they belong to an open incident.

use crate::baseline::history::History;
use crate::baseline::reference::Baseline;
use crate::baseline::window::Window;
use crate::detectors::context::{DetectorContext, SlowdownCache};
use crate::detectors::counter_sanity::{CounterSanity, ImplausibleReason};
use crate::detectors::detector::Detector;
use crate::detectors::fault_domain::{DomainSet, FaultDomain};
use crate::detectors::thresholds::Thresholds;
use crate::model::fabric::{Fabric, Job};
use crate::model::finding::Finding;
use crate::model::frame::Frame;
use crate::model::incident::Incident;
use crate::model::inferred_cables::{self, InferredCables};
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::priority::Priorities;
use crate::model::signal::Signal;
use crate::model::topology::{Topology, TopologySource};
use crate::signals::frame_sink::FrameSink;
use crate::tracker::evaluation::{EvaluationCache, Evaluator};
use crate::tracker::open_incident::OpenIncident;
use crate::tracker::timing::{
    ALIVE, ASKED, CHECKED, FILLED_S, HEARD_S, HOST_DOWN_S, LAG_S, LEAST, LONGEST, LOOK_S, NEWEST, QUIET_S, SILENT_S,
    SPLIT_S, STANDING_S, SUFFERED, TURNS, YOUNG_S,
};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// What one open incident means for the others.
pub(super) struct OpenSummary {
    pub id: String,
    pub root: LocationId,
    pub kind: IncidentKind,
    pub priorities: Priorities,
    /// Open for long, and it does not freeze the baseline.
    pub chronic: bool,
    /// Fault domains that it touches.
    pub at: DomainSet,
}

impl OpenSummary {
    /// Whether a finding is at its location. A chronic incident does not hide a storm there.
    pub(super) fn covers(&self, finding: &Finding, fabric: &Fabric) -> bool {
        let hides = !self.chronic || !finding.kind.spec().freezes_baseline;
        let all = self.root == LocationId::Fabric && self.kind.spec().may_spread && self.kind == finding.kind;
        hides && (all || self.root == finding.root || self.root.overlaps(&finding.root, fabric))
    }

    /// Whether a finding is at its location, or a coarse one that it explains.
    pub(super) fn owns(&self, finding: &Finding, fabric: &Fabric) -> bool {
        let holds = || self.kind.spec().holds_others_back && self.priorities.meets(finding.priorities);
        (self.root != LocationId::Fabric && self.covers(finding, fabric)) || (finding.kind.spec().is_coarse && holds())
    }
}

/// Result of evaluating an open incident again.
pub(super) enum Reevaluation {
    Open,
    Over,
    /// Over as a whole; these parts of it go on.
    Parts(Vec<Finding>),
}

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
            eval: Evaluator { fabric, thresholds, history: History::default() },
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

    /// Adds a frame and evaluates it. Returns the incidents that closed.
    pub fn tick(&mut self, frame: Frame) -> Vec<Incident> {
        self.push(frame);
        self.evaluate()
    }

    /// Adds a frame.
    pub fn push(&mut self, frame: Frame) {
        let lag = self.eval.ticks(LAG_S);
        let baseline_from_ns = self.frozen_until_ns(self.open.iter(), self.baseline_from_ns);
        self.eval.history.push(frame, lag, baseline_from_ns);
    }

    /// Instant of the newest frame, Unix nanoseconds.
    pub fn now_ns(&self) -> i64 {
        self.eval.history.now_ns()
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

    pub(super) fn check_counters(&mut self) {
        let now_ns = self.eval.history.now_ns();
        for port in self.eval.history.correct_glitches(CHECKED) {
            self.implausible.record(port, ImplausibleReason::Leaps, now_ns);
        }
        if let Some(ticks) = self.implausible.due(now_ns) {
            let baseline = self.eval.history.baseline(&self.eval.fabric, self.baseline_from_ns);
            let now = self.eval.history.last_since(ticks, i64::MIN);
            let (slowdowns, step_s) = (SlowdownCache::new(), self.eval.history.step_s());
            let whole = FaultDomain::whole(&self.eval.fabric);
            let ctx = DetectorContext::new(
                &self.eval.fabric,
                &self.eval.thresholds,
                [&now, &now],
                &baseline,
                step_s,
                &whole,
                &slowdowns,
            );
            self.implausible.check(&ctx);
        }
    }

    /// Evaluates all frames so far. Returns the incidents that closed.
    pub fn evaluate(&mut self) -> Vec<Incident> {
        self.check_counters();
        let cache = self.new_cache();
        self.evaluate_with(&cache)
    }

    pub(super) fn evaluate_with(&mut self, cache: &EvaluationCache) -> Vec<Incident> {
        let all = std::mem::take(&mut self.open);
        let due = self.due(&all);
        let verdicts: Vec<OpenSummary> = all.iter().map(|incident| self.summary(cache, incident)).collect();
        let (mut open, mut over, mut calmed) = (Vec::new(), Vec::new(), Vec::new());
        for (at, mut incident) in all.into_iter().enumerate() {
            if self.is_long_lived(&incident) {
                incident.shrink_baseline(&self.eval.fabric);
            }
            let here = self.containing(cache, &incident);
            let other = |other: &&OpenSummary| other.id != incident.id && other.at.meets(&here);
            let others: Vec<&OpenSummary> = verdicts.iter().filter(other).collect();
            let look =
                if due.contains(&at) { self.reevaluate(cache, &mut incident, &others) } else { Reevaluation::Open };
            match look {
                Reevaluation::Open => open.push(incident),
                Reevaluation::Over => {
                    over.push(incident.to_incident(&self.eval.fabric, true));
                    calmed.push(self.close(cache, &incident));
                }
                Reevaluation::Parts(parts) => {
                    over.push(incident.to_incident(&self.eval.fabric, true));
                    calmed.push(self.close(cache, &incident));
                    parts.into_iter().for_each(|part| self.open_split(cache, &mut open, &incident, part));
                }
            }
        }
        self.begin(cache, &mut open, &calmed);
        for mut incident in open {
            // Two incidents of the whole fabric are the same only if their kinds are.
            let same =
                |a: &Finding, b: &Finding| a.root == b.root && (a.root != LocationId::Fabric || a.kind == b.kind);
            let one = |other: &&OpenIncident| {
                self.containing(cache, other).meets(&self.containing(cache, &incident))
                    && same(other.verdict(), incident.verdict())
                    && self.summary(cache, other).covers(incident.verdict(), &self.eval.fabric)
            };
            match self.open.iter().find(one) {
                Some(other) => {
                    incident.part_of = Some(other.id.clone());
                    over.push(incident.to_incident(&self.eval.fabric, true));
                }
                None => self.open.push(incident),
            }
        }
        over
    }

    /// Incidents that are evaluated in this tick: some long-lived ones and some young ones, in turns.
    pub(super) fn due(&mut self, open: &[OpenIncident]) -> Vec<usize> {
        let (old, young): (Vec<usize>, Vec<usize>) = (0..open.len()).partition(|at| self.is_long_lived(&open[*at]));
        self.turn = self.turn.wrapping_add(1);
        let some = |(all, turns): (Vec<usize>, usize)| {
            let first = self.turn.wrapping_mul(turns);
            (0..turns.min(all.len())).map(|k| all[first.wrapping_add(k) % all.len()]).collect::<Vec<_>>()
        };
        [old, young].into_iter().zip(TURNS).flat_map(some).collect()
    }

    pub(super) fn summary(&self, cache: &EvaluationCache, incident: &OpenIncident) -> OpenSummary {
        let verdict = incident.verdict();
        OpenSummary {
            id: incident.id.clone(),
            root: verdict.root.clone(),
            kind: verdict.kind,
            priorities: verdict.priorities,
            chronic: self.is_long_lived(incident) && !verdict.kind.spec().freezes_baseline,
            at: cache.containing(verdict, &self.eval.fabric),
        }
    }

    pub(super) fn is_long_lived(&self, incident: &OpenIncident) -> bool {
        self.age(incident) > self.eval.ticks(self.long_lived_after_s(incident.verdict()))
    }

    /// Seconds after which an incident counts as part of the baseline.
    pub(super) fn long_lived_after_s(&self, finding: &Finding) -> f64 {
        if finding.is_host_down(&self.eval.fabric) { HOST_DOWN_S } else { STANDING_S }
    }

    pub(super) fn is_young(&self, incident: &OpenIncident) -> bool {
        self.age(incident) <= self.eval.ticks(YOUNG_S)
    }

    /// Ticks since it was detected.
    pub(super) fn age(&self, incident: &OpenIncident) -> usize {
        self.ticks_since(incident.detected_ns)
    }

    pub(super) fn ticks_since(&self, time_ns: i64) -> usize {
        let seconds = (self.eval.history.now_ns() - time_ns) as f64 / 1e9;
        (seconds / self.eval.history.step_s()).round().max(0.0) as usize
    }

    /// Evaluates an open incident again, without findings that belong to other incidents.
    pub(super) fn reevaluate(
        &self,
        cache: &EvaluationCache,
        incident: &mut OpenIncident,
        others: &[&OpenSummary],
    ) -> Reevaluation {
        self.eval.look_before(cache, incident);
        let (young, at) = (self.is_young(incident), self.containing(cache, incident));
        let root = incident.verdict().root.clone();
        let owner = |f: &Finding| others.iter().find(|other| other.root != root && other.owns(f, &self.eval.fabric));
        let found = |part: f64| {
            let ticks = |d: &Detector| self.eval.ticks(part * d.warm_up_s);
            let keep = |f: &Finding| (young || incident.recognizes(f)) && !incident.is_elsewhere(f, &self.eval.fabric);
            self.eval.findings(cache, (&incident.baseline, incident.start_ns, &at), ticks, keep)
        };
        let mut own = found(1.0);
        own.retain(|f| owner(f).is_none());
        let (now, all) = (!own.is_empty(), found(ALIVE));
        if own.iter().any(|f| f.root == root) || !incident.verdict().is_aggregate() {
            incident.whole_ns = self.eval.history.now_ns();
        }
        if now && self.ticks_since(incident.whole_ns) > self.eval.ticks(SPLIT_S) {
            let kind = incident.verdict().kind;
            own.retain(|f| f.kind == kind);
            (incident.last_ns, incident.part_of) = (incident.whole_ns, None);
            return Reevaluation::Parts(own);
        }
        let lately = all.iter().any(|f| owner(f).is_none());
        incident.part_of = all.iter().filter(|_| !lately).find_map(owner).map(|other| other.id.clone());
        incident.quiet += 1;
        if lately {
            incident.quiet = 0;
            incident.alive_ns = self.eval.history.now_ns();
        }
        if now {
            incident.last_ns = self.eval.history.now_ns();
            let baseline = incident.baseline.clone();
            let whole = |d: &Detector| if d.looks_back { self.eval.ticks(d.warm_up_s) } else { LONGEST };
            // A part that remains of an aggregate for a while does not change the incident.
            let is_whole = incident.verdict().is_aggregate();
            let of_it = |f: &Finding| !is_whole || f.root == root || f.kind != incident.verdict().kind;
            let keep = |f: &Finding| owner(f).is_none() && !incident.is_elsewhere(f, &self.eval.fabric) && of_it(f);
            let own = self.eval.findings(cache, (&baseline, incident.start_ns, &at), whole, keep);
            let long =
                self.eval.evaluation(cache, self.eval.history.span_since(SUFFERED, incident.start_ns), &baseline, &at);
            incident.record(own, &self.eval.context(&long));
        }
        // Without samples of the location its end cannot be detected.
        if !lately && self.ticks_since(incident.last_ns) <= self.eval.ticks(SILENT_S) && !self.has_samples(incident) {
            (incident.quiet, incident.alive_ns) = (0, self.eval.history.now_ns());
        }
        let over = incident.quiet > LEAST && self.ticks_since(incident.alive_ns) > self.eval.ticks(QUIET_S);
        if over { Reevaluation::Over } else { Reevaluation::Open }
    }

    /// Whether ports of the location that were measured in the baseline had samples lately.
    pub(super) fn has_samples(&self, incident: &OpenIncident) -> bool {
        let now = self.eval.history.last_since(self.eval.ticks(HEARD_S), i64::MIN);
        let tells = |window: &Window, port: usize| {
            [Signal::Tx, Signal::Rx, Signal::Up].iter().any(|signal| window.values(*signal, port).next().is_some())
        };
        let ports = incident.verdict().root.ports(&self.eval.fabric);
        let known: Vec<usize> = ports.into_iter().filter(|port| tells(&incident.baseline.window, *port)).collect();
        if known.is_empty() {
            return now.frames().iter().any(|frame| !frame.is_empty());
        }
        known.into_iter().any(|port| tells(&now, port))
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
