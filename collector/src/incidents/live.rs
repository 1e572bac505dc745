//! The watch over live data: frames of what is written, judged several times a second; what it says goes to the book.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_correlate::incident::Incident;
use fabriclens_correlate::topology::port_name;
use fabriclens_correlate::{
    ALL, DoubtReason, Fabric, Frame, Job, Node, Ports, Role, Row, Standing, Topology, Watch, frames,
};
use fabriclens_model::Matcher;
use fabriclens_promql::{Engine, QueryError};
use fabriclens_store::RowGroup;
use tokio::sync::watch::Receiver;

use crate::api;
use crate::api::time::now_ms;
use crate::every::{Why, every};
use crate::jobs::Running;
use crate::parts::Parts;

/// How often is judged. A pause must be seen in two samples to be no hiccup, which leaves little of the two seconds in
/// which an incident shall be open.
const PACE: Duration = Duration::from_millis(200);
/// From one judgement to the next, beside what it takes: never more than a fifth of a core.
const PAUSE: u32 = 5;
/// One frame, ms: what agents send in.
const STEP_MS: i64 = 1000;
/// What is read at the start of what was before, ms.
const BEFORE_MS: i64 = 90_000;
/// What was calm before an incident that is open at the start: from so long before it until so long before it, ms.
const CALM_MS: [i64; 2] = [80_000, 20_000];
/// What began so long before the start is a part of what is usual, ms.
const STANDING_MS: i64 = 300_000;
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
const DAY_MS: i64 = 86_400_000;
/// Series of which nothing came for so long are forgotten, and how often such are looked for, ms.
const SILENT_MS: i64 = 600_000;
const FORGET_MS: i64 = 60_000;
/// Ports of which nothing came for so long leave, ms, if nothing is open about them and nobody tells of them.
const GONE_MS: i64 = 2 * 3_600_000;
/// A metric that every port has, by which ports are known at the start.
const PORTS: &str = "fabric_port_io_bytes_total";

/// Watches until `stop` becomes true, and goes on with what is open in the book now.
pub fn run(parts: Parts, stop: Receiver<bool>) -> impl Future<Output = ()> + Send {
    let (sink, open) = (parts.sink.clone(), parts.book.open_ones());
    sink.tap().open();
    let mut live = Live::new(parts, open);
    let work = move |why| {
        if why != Why::Stop {
            live.round(now_ms());
        }
    };
    async move {
        every(PACE, Arc::default(), stop, "nothing is judged any more", work).await;
        sink.tap().close();
    }
}

/// A question that is asked now and then; its answer holds until the next.
struct Asked {
    row: &'static Row,
    answer: Vec<(usize, f64)>,
}

struct Live {
    parts: Parts,
    engine: Engine,
    watch: Watch,
    standing: Standing,
    /// Questions that are asked of the store, because samples as they arrive do not answer them.
    asked: Vec<Asked>,
    /// Which is next.
    turn: usize,
    /// When, Unix ms.
    ask_ms: i64,
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
    doubts: BTreeSet<(usize, DoubtReason)>,
    /// When is judged next: large fabrics take their time.
    next: Instant,
}

impl Live {
    fn new(parts: Parts, open: Vec<Incident>) -> Self {
        let (standing, asked) = Standing::new(STEP_MS);
        let fabric = Fabric::new(Topology::default(), Ports::default(), Vec::new());
        Self {
            watch: Watch::new(fabric, parts.config.thresholds.clone()),
            engine: api::engine(&parts.config.query),
            parts,
            standing,
            asked: asked.into_iter().map(|row| Asked { row, answer: Vec::new() }).collect(),
            turn: 0,
            ask_ms: 0,
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
            *self = Self::new(self.parts.clone(), self.parts.book.open_ones());
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
        self.infer();
        self.parts.telemetry.verdict_seconds.with_label_values(&["take"]).observe(began.elapsed().as_secs_f64());
        let began = Instant::now();
        let mut seen = self.watch.judge();
        seen.extend(self.watch.open());
        self.parts.book.update(now.saturating_mul(1_000_000), &seen);
        if self.watch.is_full() && !self.full {
            tracing::warn!(
                "so many incidents are open that more trouble is told by none: end what stands for long, or raise its threshold"
            );
        }
        self.full = self.watch.is_full();
        self.doubt();
        let took = began.elapsed();
        self.parts.telemetry.verdict_seconds.with_label_values(&["judge"]).observe(took.as_secs_f64());
        self.next = Instant::now() + took * PAUSE;
    }

    /// Cables and jobs as they are now.
    fn fabric(&mut self, now: i64) {
        let topology = self.parts.topologies.current();
        if self.topology.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &topology)) {
            self.watch.rewire(&topology);
            self.standing.rewired();
            self.topology = Some(topology);
        }
        let changed = self.running.update(&self.parts.jobs.registry, now);
        let ports = self.watch.fabric().ports.added();
        if changed || ports != self.ports {
            self.ports = ports;
            let jobs = self.running.jobs.iter().map(|job| job_of(self.watch.fabric(), job)).collect();
            self.watch.employ(jobs);
        }
    }

    /// Cables that nobody tells. A node that nobody tells of is no agent's, so it may be a switch.
    fn infer(&mut self) {
        let Some(told) = &self.topology else { return };
        let is_switch = |fabric: &Fabric, node: usize| {
            let Node { name, role } = &fabric.topology.nodes[node];
            *role != Role::Host || told.node(name).is_none()
        };
        if let Some(inferred) = self.watch.cables(is_switch) {
            self.parts.topologies.infer(inferred);
        }
    }

    fn push_frames(&mut self, now: i64) {
        let last = self.standing.frame_of(now);
        let mut next = self.frame_ms.saturating_add(STEP_MS).max(last - GAP_MS);
        while next <= last {
            let mut frame = Frame::new(next.saturating_mul(1_000_000));
            self.tell_asked(&mut frame);
            self.watch.push(frame);
            self.frame_ms = next;
            next += STEP_MS;
        }
    }

    /// The answers of now are those of a frame.
    fn tell_asked(&self, frame: &mut Frame) {
        for one in &self.asked {
            one.answer.iter().for_each(|(port, value)| frame.set(one.row.signal, *port, *value));
        }
    }

    /// Samples as they were written.
    fn draw(&mut self) {
        let drawn = self.parts.sink.tap().draw();
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
                self.standing.take(&group.series, &group.times, &group.values, &mut self.watch);
            }
        }
        if self.frame_ms >= self.forgot_ms + FORGET_MS {
            self.forgot_ms = self.frame_ms;
            let gone = self.leave();
            self.standing.forget(self.frame_ms - SILENT_MS, &gone);
        }
        let behind = drawn.lost > 0 || self.standing.is_full();
        if behind && !self.behind {
            tracing::warn!(lost = drawn.lost, "verdicts do not keep up with samples: some are not judged");
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
        let gone: HashSet<usize> = self.watch.forget(|port| heard.contains(&port)).into_iter().collect();
        for one in &mut self.asked {
            one.answer.retain(|(port, _)| !gone.contains(port));
        }
        if !gone.is_empty() {
            tracing::info!(ports = gone.len(), "ports that told nothing for hours are watched no more");
        }
        gone
    }

    /// Tells whose counters cannot be right, when that changes.
    fn doubt(&mut self) {
        let doubts: BTreeSet<_> = self.watch.doubts().collect();
        if doubts == self.doubts {
            return;
        }
        let fabric = self.watch.fabric();
        let labels = |(at, reason): &(usize, DoubtReason)| {
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
        self.parts.telemetry.doubted_counters(doubts.iter().map(labels));
        self.doubts = doubts;
    }

    /// Questions that need the store, one after the other, with a rest that is long beside what they take.
    fn ask(&mut self, now: i64) {
        if now < self.ask_ms || self.asked.is_empty() {
            return;
        }
        let began = Instant::now();
        self.turn = (self.turn + 1) % self.asked.len();
        self.ask_one(self.turn, now);
        let rest = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX).saturating_mul(REST);
        self.ask_ms = now.saturating_add(rest.max(ASK_MS / self.asked.len() as i64));
    }

    fn ask_one(&mut self, at: usize, now: i64) {
        let one = &mut self.asked[at];
        match fabriclens_correlate::ask(&self.engine, self.parts.data.reader(), self.watch.fabric(), one.row, now) {
            Ok(answer) => one.answer = answer,
            Err(error) => tracing::debug!(%error, query = one.row.query, "cannot ask"),
        }
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
        let lost: Vec<Incident> =
            self.watch.resume(&self.unplaced, now.saturating_mul(1_000_000)).into_iter().cloned().collect();
        let found = self.unplaced.len() - lost.len();
        self.unplaced = lost;
        if found > 0 {
            tracing::info!(incidents = found, "incidents of before the start are watched on");
        }
        if now >= self.lost_ms {
            let lost = std::mem::take(&mut self.unplaced);
            let ids: Vec<&str> = lost.iter().map(|incident| incident.id.as_str()).collect();
            tracing::info!(?ids, "incidents of before the start are over: the fabric no longer has their places");
            self.parts.book.give_up(now.saturating_mul(1_000_000), &ids);
        }
    }

    fn read_back(&mut self, now: i64) -> Result<(), QueryError> {
        let names = [Matcher::equal("__name__", PORTS)];
        let first = self.unplaced.iter().map(|incident| incident.start_ns / 1_000_000).min();
        let since = first.unwrap_or(now).min(now - BEFORE_MS).max(now - DAY_MS);
        let known = self.parts.data.series(&names, since, now).unwrap_or_default();
        for labels in &known {
            self.watch.measured_port(labels.get("host"), &port_name(labels));
        }
        if known.is_empty() {
            return Ok(());
        }
        self.fabric(now);
        let starts = self.unplaced.iter().map(|incident| incident.start_ns / 1_000_000);
        let young = starts.filter(|ms| *ms > now - STANDING_MS).min().map(|ms| self.standing.frame_of(ms));
        if first.is_some() {
            let until = young.unwrap_or(now);
            for frame in self.read_frames(until - CALM_MS[0], until - CALM_MS[1])? {
                self.watch.was_calm(frame);
            }
        }
        // From here on what is read is not calm.
        self.take_up(now);
        let from = young.map_or(now - BEFORE_MS, |first| first.max(now - BEFORE_MS));
        if first.is_some() {
            // What is open may stand on it.
            (0..self.asked.len()).for_each(|at| self.ask_one(at, now));
        }
        for mut frame in self.read_frames(from, now)? {
            self.tell_asked(&mut frame);
            self.watch.push(frame);
        }
        Ok(())
    }

    fn read_frames(&self, from: i64, to: i64) -> Result<Vec<Frame>, QueryError> {
        let ticks: Vec<i64> = (0..).map(|n| from + n * STEP_MS).take_while(|t| *t <= to).collect();
        // What is slow looks back for as much as a day, and is asked in its turn.
        let rows = ALL.iter().filter(|row| !row.slow);
        frames(&self.engine, self.parts.data.reader(), self.watch.fabric(), rows, &ticks, STEP_MS)
    }
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

#[cfg(test)]
mod tests;
