//! Evaluates all detectors on arriving samples every 200 ms and persists the incidents. It keeps the baseline and open
//! incidents over restarts.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_correlate::Incident;
use fabriclens_correlate::{Fabric, Frame, ImplausibleReason, Node, Role, StreamingEval, Topology};
use fabriclens_promql::QueryError;
use fabriclens_store::RowGroup;
use tokio::sync::watch::Receiver;

use super::collectives_feed::CollectivesFeed;
use super::flows::PeerQueries;
use super::forwarding_paths::ForwardingPaths;
use super::late::{self, LateSamples};
use super::newest_signals::publish_newest;
use super::probe_feed::ProbeFeed;
use super::queue_pairs::QueuePairQueries;
use super::troubled_jobs::TroubledJobsFeed;
use crate::backfill::{Backfill, STEP_MS, frame_of};
use fabriclens_core::periodic::{Trigger, periodic};
use fabriclens_core::time::now_ms;
use fabriclens_job_sources::Running;
use fabriclens_state::AppState;
use fabriclens_topology::TopologyInference;

/// Evaluation interval. An incident must be open within two seconds, and a pause must be seen in two samples to count.
const INTERVAL: Duration = Duration::from_millis(200);
/// Pause after an evaluation as a multiple of its duration, which limits evaluation to a fifth of a core.
const PAUSE_FACTOR: u32 = 5;
/// Time for agents to report the location of an incident again after a restart, ms.
const LOCATE_MS: i64 = 60_000;
/// Interval at which each signal is queried from the store, ms, and pause after a query as a multiple of its duration.
const QUERY_INTERVAL_MS: i64 = 30_000;
const QUERY_PAUSE: i64 = 20;
/// Samples may be ahead of this clock by this much, and wait for their frame, ms. Larger offsets raise an alert.
const AHEAD_MS: i64 = 5_000;
/// If the clock goes back by more than this, it was set, and everything starts anew, ms.
const CLOCK_SET_MS: i64 = 10_000;
/// Longest gap without samples that is filled with a frame per second, ms.
const GAP_MS: i64 = 120_000;
/// Series silent for longer are forgotten, and the interval of looking for them, ms.
const SILENT_MS: i64 = 600_000;
const FORGET_MS: i64 = 60_000;
/// Ports silent for longer are removed unless they have an open incident or are reported by other means, ms.
const PORT_TIMEOUT_MS: i64 = 2 * 3_600_000;

/// Evaluates until `stop` becomes true, continuing the open incidents of the store; also re-evaluates late samples.
pub fn run(state: AppState, stop: Receiver<bool>) -> impl Future<Output = ()> + Send {
    let (sink, open) = (state.sink.clone(), state.incidents.open_incidents());
    let late = Arc::new(LateSamples::open(&state, now_ms()));
    let again = late::run(state.clone(), late.clone(), stop.clone());
    sink.sample_feed().open();
    let mut live = LiveEvaluation::new(state, late, open);
    let work = move |trigger| {
        if trigger != Trigger::Stop {
            live.round(now_ms());
        }
    };
    async move {
        let live = async {
            periodic(INTERVAL, Arc::default(), stop, "live evaluation stopped", work).await;
            sink.sample_feed().close();
        };
        tokio::join!(live, again);
    }
}

struct LiveEvaluation {
    state: AppState,
    backfill: Backfill,
    streaming: StreamingEval,
    /// Time spans of late samples, and incidents found in them.
    late: Arc<LateSamples>,
    /// Time of the next query, Unix ms.
    ask_ms: i64,
    peers: PeerQueries,
    queue_pairs: QueuePairQueries,
    probes: ProbeFeed,
    forwarding_paths: ForwardingPaths,
    collectives: CollectivesFeed,
    troubled_jobs: TroubledJobsFeed,
    running: Running,
    topology: Option<Arc<Topology>>,
    /// Number of ports ever added when jobs were last assigned theirs.
    ports: u64,
    /// End of the last frame, Unix ms.
    frame_ms: i64,
    started: bool,
    /// End of the first frame, Unix ms.
    first_ms: i64,
    /// Incidents from before the start whose location the fabric does not have yet, and until when it may appear, Unix
    /// ms.
    unplaced: Vec<Incident>,
    lost_ms: i64,
    /// When silent series were last removed, Unix ms.
    forgot_ms: i64,
    /// Samples with clocks ahead of ours, with the last frame of each request, Unix ms.
    ahead: VecDeque<(i64, Vec<RowGroup>)>,
    /// Conditions that are logged once, until they end.
    behind: bool,
    full: bool,
    implausible: BTreeSet<(usize, ImplausibleReason)>,
    /// Time of the next evaluation; large fabrics take longer.
    next: Instant,
}

impl LiveEvaluation {
    fn new(state: AppState, late: Arc<LateSamples>, open: Vec<Incident>) -> Self {
        let (streaming, asked) = StreamingEval::new(STEP_MS);
        Self {
            backfill: Backfill::new(&state, asked),
            state,
            streaming,
            late,
            ask_ms: 0,
            peers: PeerQueries::default(),
            queue_pairs: QueuePairQueries::default(),
            probes: ProbeFeed::default(),
            forwarding_paths: ForwardingPaths::default(),
            collectives: CollectivesFeed::default(),
            troubled_jobs: TroubledJobsFeed::default(),
            running: Running::default(),
            topology: None,
            ports: 0,
            frame_ms: 0,
            started: false,
            first_ms: 0,
            unplaced: open,
            lost_ms: 0,
            forgot_ms: 0,
            ahead: VecDeque::new(),
            behind: false,
            full: false,
            implausible: BTreeSet::new(),
            next: Instant::now(),
        }
    }

    fn round(&mut self, now: i64) {
        let began = Instant::now();
        if now < self.frame_ms - CLOCK_SET_MS {
            tracing::warn!("this host's clock was set back; baselines are learned anew");
            *self = Self::new(self.state.clone(), self.late.clone(), self.state.incidents.open_incidents());
        }
        self.fabric(now);
        if !self.started {
            self.started = true;
            self.start(now);
        }
        // Also between evaluations, because the feed is bounded.
        self.push_frames(now);
        self.take_samples();
        self.probes.drain(&self.state, &mut self.backfill.tracker, now);
        publish_newest(&self.backfill.tracker, &self.state.newest_signals);
        if began < self.next {
            return;
        }
        self.query_signals(now);
        self.resume(now);
        self.resume_late(now);
        self.infer();
        self.peers.round(&self.state, &mut self.backfill.tracker, now);
        self.probes.round(&self.state, &mut self.backfill.tracker, now);
        self.queue_pairs.round(&self.state, &mut self.backfill.tracker, now);
        let (flows, tracker) = (self.queue_pairs.flows(), &mut self.backfill.tracker);
        self.forwarding_paths.round(&self.state, tracker, flows, now);
        self.collectives.round(&self.state, tracker, &self.running.jobs, now);
        self.state.telemetry.verdict_seconds.with_label_values(&["take"]).observe(began.elapsed().as_secs_f64());
        let began = Instant::now();
        let mut seen = self.backfill.tracker.evaluate();
        let open = self.backfill.tracker.open();
        self.troubled_jobs.round(&self.state.telemetry.troubled_jobs, &open, &self.running.jobs);
        seen.extend(open);
        self.state.incidents.update(now.saturating_mul(1_000_000), &seen);
        if self.backfill.tracker.is_at_limit() && !self.full {
            tracing::warn!(
                "incident limit reached; new incidents are suppressed. Resolve long-standing incidents, or raise their thresholds"
            );
        }
        self.full = self.backfill.tracker.is_at_limit();
        self.publish_implausible();
        let took = began.elapsed();
        self.state.telemetry.verdict_seconds.with_label_values(&["judge"]).observe(took.as_secs_f64());
        self.next = Instant::now() + took * PAUSE_FACTOR;
    }

    /// Updates cables and jobs.
    fn fabric(&mut self, now: i64) {
        let topology = self.state.topologies.current();
        if self.topology.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &topology)) {
            self.backfill.tracker.rewire(&topology);
            self.streaming.rewired();
            self.topology = Some(topology);
        }
        let changed = self.running.update(&self.state.jobs.registry, now);
        let ports = self.backfill.tracker.fabric().ports.added();
        if changed || ports != self.ports {
            self.ports = ports;
            self.backfill.set_jobs(&self.running.jobs);
        }
    }

    /// Infers cables that no source reports. A node that no source reports has no agent, so it may be a switch.
    fn infer(&mut self) {
        let Some(reported) = &self.topology else { return };
        let is_switch = |fabric: &Fabric, node: usize| {
            let Node { name, role } = &fabric.topology.nodes[node];
            *role != Role::Host || reported.node(name).is_none()
        };
        if let Some(inferred) = self.backfill.tracker.cables(is_switch) {
            self.state.topologies.infer(TopologyInference::Counters, inferred);
        }
    }

    fn push_frames(&mut self, now: i64) {
        let last = self.streaming.frame_of(now);
        let mut next = self.frame_ms.saturating_add(STEP_MS).max(last - GAP_MS);
        while next <= last {
            let mut frame = Frame::new(next.saturating_mul(1_000_000));
            self.backfill.fill(&mut frame);
            self.backfill.tracker.push(frame);
            self.frame_ms = next;
            next += STEP_MS;
        }
    }

    /// Takes samples from the feed.
    fn take_samples(&mut self) {
        let drained = self.state.sink.sample_feed().drain();
        let of = |request: &[RowGroup]| request.iter().flat_map(|g| &g.times).copied().max().unwrap_or(0);
        for request in drained.requests {
            self.ahead.push_back((self.streaming.frame_of(of(&request)), request));
        }
        let all = std::mem::take(&mut self.ahead);
        for (frame_ms, request) in all {
            if (self.frame_ms + 1..=self.frame_ms + AHEAD_MS).contains(&frame_ms) {
                self.ahead.push_back((frame_ms, request));
                continue;
            }
            for group in &request {
                self.streaming.take(&group.series, &group.times, &group.values, &mut self.backfill.tracker);
            }
        }
        if self.frame_ms >= self.forgot_ms + FORGET_MS {
            self.forgot_ms = self.frame_ms;
            let gone = self.remove_silent_ports();
            self.streaming.forget(self.frame_ms - SILENT_MS, &gone);
        }
        self.late.note(&self.streaming.late(), self.frame_ms);
        // The feed was full; the store has these samples.
        self.late.note(&drained.spans, self.frame_ms);
        let behind = drained.lost > 0 || self.streaming.is_full();
        if behind && !self.behind {
            tracing::warn!(
                lost = drained.lost,
                "evaluation does not keep up with samples; some are evaluated late or not at all"
            );
        }
        self.behind = behind;
    }

    /// Removes ports that were silent for hours; returns them.
    fn remove_silent_ports(&mut self) -> HashSet<usize> {
        if self.frame_ms < self.first_ms + PORT_TIMEOUT_MS {
            return HashSet::new();
        }
        let heard = self.streaming.heard(self.frame_ms - PORT_TIMEOUT_MS);
        // All ports are silent: the problem is on this side.
        if heard.is_empty() {
            return heard;
        }
        let gone = self.backfill.forget(&heard);
        if !gone.is_empty() {
            tracing::info!(ports = gone.len(), "removed ports without samples for hours");
        }
        gone
    }

    /// Publishes and logs changes of the ports with implausible counters.
    fn publish_implausible(&mut self) {
        let implausible: BTreeSet<_> = self.backfill.tracker.implausible().collect();
        if implausible == self.implausible {
            return;
        }
        let fabric = self.backfill.tracker.fabric();
        let labels = |(at, reason): &(usize, ImplausibleReason)| {
            let end = &fabric.ports.list[*at].end;
            [fabric.topology.nodes[end.node].name.as_str(), end.port.as_str(), reason.name()]
        };
        for new in implausible.difference(&self.implausible) {
            let ([node, port, reason], why) = (labels(new), new.1.text());
            tracing::warn!(node, port, reason, why, "implausible counters; port is ignored");
        }
        for gone in self.implausible.difference(&implausible) {
            let [node, port, reason] = labels(gone);
            tracing::info!(node, port, reason, "counters are plausible again");
        }
        self.state.telemetry.doubted_counters(implausible.iter().map(labels));
        self.implausible = implausible;
    }

    /// Queries signals that need the store, one at a time with pauses.
    fn query_signals(&mut self, now: i64) {
        if now < self.ask_ms || self.backfill.signal_count() == 0 {
            return;
        }
        let began = Instant::now();
        self.backfill.query_next(now);
        let rest = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX).saturating_mul(QUERY_PAUSE);
        self.ask_ms = now.saturating_add(rest.max(QUERY_INTERVAL_MS / self.backfill.signal_count() as i64));
    }

    /// Restores the state from before a restart: the last minute, the baseline, and open incidents.
    fn start(&mut self, now: i64) {
        let now = self.streaming.frame_of(now) - STEP_MS;
        (self.frame_ms, self.first_ms, self.lost_ms) = (now, now, now + LOCATE_MS);
        if let Err(error) = self.read_back(now) {
            tracing::warn!(%error, "cannot read samples from before the start; baselines are learned anew");
        }
    }

    /// Resumes incidents from before a restart once their location is known; those without location end after a while.
    fn resume(&mut self, now: i64) {
        if self.unplaced.is_empty() {
            return;
        }
        let all = std::mem::take(&mut self.unplaced);
        let (old, young): (Vec<Incident>, Vec<Incident>) = all.iter().cloned().partition(|i| Backfill::is_old(i, now));
        self.unplaced.extend(old.into_iter().filter(|incident| !self.backfill.resume_old(incident, now)));
        let lost = self.backfill.tracker.resume(&young, now.saturating_mul(1_000_000));
        self.unplaced.extend(lost.into_iter().cloned());
        let found = all.len() - self.unplaced.len();
        if found > 0 {
            tracing::info!(incidents = found, "resumed incidents from before the start");
        }
        if now >= self.lost_ms {
            let lost = std::mem::take(&mut self.unplaced);
            let ids: Vec<&str> = lost.iter().map(|incident| incident.id.as_str()).collect();
            tracing::info!(?ids, "ended incidents from before the start; the fabric no longer has their locations");
            self.state.incidents.end_lost(now.saturating_mul(1_000_000), &ids);
        }
    }

    fn read_back(&mut self, now: i64) -> Result<(), QueryError> {
        if !self.backfill.find_ports(&self.unplaced, now, now) {
            return Ok(());
        }
        self.fabric(now);
        let any = !self.unplaced.is_empty();
        let from = self.backfill.load_baseline(&self.unplaced, now)?;
        // The following frames are not baseline.
        self.resume(now);
        if any {
            // Open incidents may depend on these signals.
            self.backfill.query_all(now);
        }
        for mut frame in self.backfill.frames(from, now)? {
            self.backfill.fill(&mut frame);
            self.backfill.tracker.push(frame);
        }
        Ok(())
    }

    /// Resumes incidents found open in late samples, with the baseline from before them.
    fn resume_late(&mut self, now: i64) {
        for incident in self.late.take_open() {
            let id = incident.id.clone();
            let baseline = self.backfill.baseline_frames(frame_of(incident.start_ns / 1_000_000)).unwrap_or_default();
            if !self.backfill.tracker.resume_with_baseline(&incident, baseline, now.saturating_mul(1_000_000)) {
                tracing::info!(id, "ended an incident found in late samples; the fabric no longer has its location");
                self.state.incidents.end_lost(now.saturating_mul(1_000_000), &[&id]);
            }
        }
    }
}

#[cfg(test)]
mod replay;
#[cfg(test)]
mod tests;
