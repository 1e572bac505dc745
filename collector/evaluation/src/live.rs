//! The watch over live data: frames of what is written, judged several times a second; what it says goes to the book.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_correlate::Incident;
use fabriclens_correlate::{Fabric, Frame, ImplausibleReason, Node, Role, StreamingEval, Topology};
use fabriclens_promql::QueryError;
use fabriclens_store::RowGroup;
use tokio::sync::watch::Receiver;

use super::flows::Flows;
use super::late::{self, Late};
use crate::backfill::{Eyes, STEP_MS, frame_of};
use fabriclens_core::periodic::{Trigger, periodic};
use fabriclens_core::time::now_ms;
use fabriclens_job_sources::Running;
use fabriclens_state::AppState;

/// How often is judged. A pause must be seen in two samples to be no hiccup, which leaves little of the two seconds in
/// which an incident shall be open.
const PACE: Duration = Duration::from_millis(200);
/// From one judgement to the next, beside what it takes: never more than a fifth of a core.
const PAUSE: u32 = 5;
/// How long agents may take to tell again of the place of an incident, ms.
const FOUND_MS: i64 = 60_000;
/// How often each question is asked of the store, ms, and the rest after one beside the time that it took.
const ASK_MS: i64 = 30_000;
const REST: i64 = 20;
/// How far ahead of this clock samples may be and are still judged: they wait for their frame, ms. Whose clock is further off is
/// told by an alert.
const AHEAD_MS: i64 = 5_000;
/// A clock that goes back by more than this was set, ms: all begins anew.
const BACK_MS: i64 = 10_000;
/// Longest time without samples after which a frame is still made for each second, ms.
const GAP_MS: i64 = 120_000;
/// Series of which nothing came for so long are forgotten, and how often such are looked for, ms.
const SILENT_MS: i64 = 600_000;
const FORGET_MS: i64 = 60_000;
/// Ports of which nothing came for so long leave, ms, if nothing is open about them and nobody tells of them.
const GONE_MS: i64 = 2 * 3_600_000;

/// Watches until `stop` becomes true, and goes on with what is open in the book now; beside it, judges again what came late.
pub fn run(state: AppState, stop: Receiver<bool>) -> impl Future<Output = ()> + Send {
    let (sink, open) = (state.sink.clone(), state.book.open_ones());
    let late = Arc::new(Late::open(&state, now_ms()));
    let again = late::run(state.clone(), late.clone(), stop.clone());
    sink.tap().open();
    let mut live = Live::new(state, late, open);
    let work = move |why| {
        if why != Trigger::Stop {
            live.round(now_ms());
        }
    };
    async move {
        let live = async {
            periodic(PACE, Arc::default(), stop, "nothing is judged any more", work).await;
            sink.tap().close();
        };
        tokio::join!(live, again);
    }
}

struct Live {
    state: AppState,
    eyes: Eyes,
    standing: StreamingEval,
    /// What came too late for it, and what was found in that.
    late: Arc<Late>,
    /// When the next question is asked, Unix ms.
    ask_ms: i64,
    flows: Flows,
    running: Running,
    topology: Option<Arc<Topology>>,
    /// Ports that there ever were when jobs were last told theirs.
    ports: u64,
    /// End of the last frame that was pushed, Unix ms.
    frame_ms: i64,
    started: bool,
    /// End of the first frame, Unix ms.
    first_ms: i64,
    /// What was open before the start at places that the fabric does not have yet, and until when they may come, Unix ms.
    unplaced: Vec<Incident>,
    lost_ms: i64,
    /// When series that are gone were last looked for, Unix ms.
    forgot_ms: i64,
    /// Samples of clocks that are ahead, and the last frame that each of these requests is of, Unix ms.
    ahead: VecDeque<(i64, Vec<RowGroup>)>,
    /// Told once, until it is over.
    behind: bool,
    full: bool,
    doubts: BTreeSet<(usize, ImplausibleReason)>,
    /// When is judged next: large fabrics take their time.
    next: Instant,
}

impl Live {
    fn new(state: AppState, late: Arc<Late>, open: Vec<Incident>) -> Self {
        let (standing, asked) = StreamingEval::new(STEP_MS);
        Self {
            eyes: Eyes::new(&state, asked),
            state,
            standing,
            late,
            ask_ms: 0,
            flows: Flows::default(),
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
            doubts: BTreeSet::new(),
            next: Instant::now(),
        }
    }

    fn round(&mut self, now: i64) {
        let began = Instant::now();
        if now < self.frame_ms - BACK_MS {
            tracing::warn!("this host's clock was set back; what is usual is learned anew");
            *self = Self::new(self.state.clone(), self.late.clone(), self.state.book.open_ones());
        }
        self.fabric(now);
        if !self.started {
            self.started = true;
            self.start(now);
        }
        // Also while it is not judged: what waits has a bound.
        self.push_frames(now);
        self.draw();
        if began < self.next {
            return;
        }
        self.ask(now);
        self.take_up(now);
        self.take_up_late(now);
        self.infer();
        self.flows.round(&self.state, &mut self.eyes.watch, now);
        self.state.telemetry.verdict_seconds.with_label_values(&["take"]).observe(began.elapsed().as_secs_f64());
        let began = Instant::now();
        let mut seen = self.eyes.watch.evaluate();
        seen.extend(self.eyes.watch.open());
        self.state.book.update(now.saturating_mul(1_000_000), &seen);
        if self.eyes.watch.is_at_limit() && !self.full {
            tracing::warn!(
                "so many incidents are open that more trouble is told by none: end what stands for long, or raise its threshold"
            );
        }
        self.full = self.eyes.watch.is_at_limit();
        self.doubt();
        let took = began.elapsed();
        self.state.telemetry.verdict_seconds.with_label_values(&["judge"]).observe(took.as_secs_f64());
        self.next = Instant::now() + took * PAUSE;
    }

    /// Cables and jobs as they are now.
    fn fabric(&mut self, now: i64) {
        let topology = self.state.topologies.current();
        if self.topology.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &topology)) {
            self.eyes.watch.rewire(&topology);
            self.standing.rewired();
            self.topology = Some(topology);
        }
        let changed = self.running.update(&self.state.jobs.registry, now);
        let ports = self.eyes.watch.fabric().ports.added();
        if changed || ports != self.ports {
            self.ports = ports;
            self.eyes.employ(&self.running.jobs);
        }
    }

    /// Cables that nobody tells. A node that nobody tells of is no agent's, so it may be a switch.
    fn infer(&mut self) {
        let Some(told) = &self.topology else { return };
        let is_switch = |fabric: &Fabric, node: usize| {
            let Node { name, role } = &fabric.topology.nodes[node];
            *role != Role::Host || told.node(name).is_none()
        };
        if let Some(inferred) = self.eyes.watch.cables(is_switch) {
            self.state.topologies.infer(inferred);
        }
    }

    fn push_frames(&mut self, now: i64) {
        let last = self.standing.frame_of(now);
        let mut next = self.frame_ms.saturating_add(STEP_MS).max(last - GAP_MS);
        while next <= last {
            let mut frame = Frame::new(next.saturating_mul(1_000_000));
            self.eyes.tell_asked(&mut frame);
            self.eyes.watch.push(frame);
            self.frame_ms = next;
            next += STEP_MS;
        }
    }

    /// Samples as they were written.
    fn draw(&mut self) {
        let drawn = self.state.sink.tap().draw();
        let of = |request: &[RowGroup]| request.iter().flat_map(|g| &g.times).copied().max().unwrap_or(0);
        for request in drawn.requests {
            self.ahead.push_back((self.standing.frame_of(of(&request)), request));
        }
        let all = std::mem::take(&mut self.ahead);
        for (frame_ms, request) in all {
            if (self.frame_ms + 1..=self.frame_ms + AHEAD_MS).contains(&frame_ms) {
                self.ahead.push_back((frame_ms, request));
                continue;
            }
            for group in &request {
                self.standing.take(&group.series, &group.times, &group.values, &mut self.eyes.watch);
            }
        }
        if self.frame_ms >= self.forgot_ms + FORGET_MS {
            self.forgot_ms = self.frame_ms;
            let gone = self.leave();
            self.standing.forget(self.frame_ms - SILENT_MS, &gone);
        }
        self.late.note(&self.standing.late(), self.frame_ms);
        // There was no room for them here; the store has them.
        self.late.note(&drawn.spans, self.frame_ms);
        let behind = drawn.lost > 0 || self.standing.is_full();
        if behind && !self.behind {
            tracing::warn!(
                lost = drawn.lost,
                "verdicts do not keep up with samples: some are judged only later, or not at all"
            );
        }
        self.behind = behind;
    }

    /// Lets ports go that told nothing for hours; those that did.
    fn leave(&mut self) -> HashSet<usize> {
        if self.frame_ms < self.first_ms + GONE_MS {
            return HashSet::new();
        }
        let heard = self.standing.heard(self.frame_ms - GONE_MS);
        // Nobody at all tells anything: that is this collector's trouble.
        if heard.is_empty() {
            return heard;
        }
        let gone = self.eyes.forget(&heard);
        if !gone.is_empty() {
            tracing::info!(ports = gone.len(), "ports that told nothing for hours are watched no more");
        }
        gone
    }

    /// Tells whose counters cannot be right, when that changes.
    fn doubt(&mut self) {
        let doubts: BTreeSet<_> = self.eyes.watch.implausible().collect();
        if doubts == self.doubts {
            return;
        }
        let fabric = self.eyes.watch.fabric();
        let labels = |(at, reason): &(usize, ImplausibleReason)| {
            let end = &fabric.ports.list[*at].end;
            [fabric.topology.nodes[end.node].name.as_str(), end.port.as_str(), reason.name()]
        };
        for new in doubts.difference(&self.doubts) {
            let ([node, port, reason], why) = (labels(new), new.1.text());
            tracing::warn!(node, port, reason, "counters cannot be right, and accuse nobody: {why}");
        }
        for gone in self.doubts.difference(&doubts) {
            let [node, port, reason] = labels(gone);
            tracing::info!(node, port, reason, "counters are believed again");
        }
        self.state.telemetry.doubted_counters(doubts.iter().map(labels));
        self.doubts = doubts;
    }

    /// Questions that need the store, one after the other, with a rest that is long beside what they take.
    fn ask(&mut self, now: i64) {
        if now < self.ask_ms || self.eyes.questions() == 0 {
            return;
        }
        let began = Instant::now();
        self.eyes.ask_next(now);
        let rest = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX).saturating_mul(REST);
        self.ask_ms = now.saturating_add(rest.max(ASK_MS / self.eyes.questions() as i64));
    }

    /// What was before a restart: the last minute, what was calm before, and what was open.
    fn start(&mut self, now: i64) {
        let now = self.standing.frame_of(now) - STEP_MS;
        (self.frame_ms, self.first_ms, self.lost_ms) = (now, now, now + FOUND_MS);
        if let Err(error) = self.read_back(now) {
            tracing::warn!(%error, "what was before the start cannot be read; what is usual is learned anew");
        }
    }

    /// Watches on what was open before a restart, as soon as its place is known; what has none for a while is over.
    fn take_up(&mut self, now: i64) {
        if self.unplaced.is_empty() {
            return;
        }
        let all = std::mem::take(&mut self.unplaced);
        let (old, young): (Vec<Incident>, Vec<Incident>) = all.iter().cloned().partition(|i| Eyes::stands(i, now));
        self.unplaced.extend(old.into_iter().filter(|incident| !self.eyes.take_up_old(incident, now)));
        let lost = self.eyes.watch.resume(&young, now.saturating_mul(1_000_000));
        self.unplaced.extend(lost.into_iter().cloned());
        let found = all.len() - self.unplaced.len();
        if found > 0 {
            tracing::info!(incidents = found, "incidents of before the start are watched on");
        }
        if now >= self.lost_ms {
            let lost = std::mem::take(&mut self.unplaced);
            let ids: Vec<&str> = lost.iter().map(|incident| incident.id.as_str()).collect();
            tracing::info!(?ids, "incidents of before the start are over: the fabric no longer has their places");
            self.state.book.give_up(now.saturating_mul(1_000_000), &ids);
        }
    }

    fn read_back(&mut self, now: i64) -> Result<(), QueryError> {
        if !self.eyes.find_ports(&self.unplaced, now, now) {
            return Ok(());
        }
        self.fabric(now);
        let any = !self.unplaced.is_empty();
        let from = self.eyes.calm_before(&self.unplaced, now)?;
        // From here on what is read is not calm.
        self.take_up(now);
        if any {
            // What is open may stand on it.
            self.eyes.ask_all(now);
        }
        for mut frame in self.eyes.frames(from, now)? {
            self.eyes.tell_asked(&mut frame);
            self.eyes.watch.push(frame);
        }
        Ok(())
    }

    /// Goes on with what late samples say that it goes on, beside what was calm before it.
    fn take_up_late(&mut self, now: i64) {
        for incident in self.late.take_up() {
            let id = incident.id.clone();
            let calm = self.eyes.calm(frame_of(incident.start_ns / 1_000_000)).unwrap_or_default();
            if !self.eyes.watch.resume_with_baseline(&incident, calm, now.saturating_mul(1_000_000)) {
                tracing::info!(
                    id,
                    "an incident that was found in late samples is over: the fabric no longer has its place"
                );
                self.state.book.give_up(now.saturating_mul(1_000_000), &[&id]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
