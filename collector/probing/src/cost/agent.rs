//! Agents at the level of their reports: they trace at a pace and probe as planned, and every probe is answered.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;

use fabriclens_probe_plan::{
    Hop, PlanReply, ProbeResult, ProbeTransport, ReportRequest, ReportedPair, Target, TracedPath, octets,
};

use crate::fleet::{Fleet, name, spine_address};

/// Answers of each switch in a first trace.
const ANSWERS: usize = 3;

/// Pace at which ports trace.
#[derive(Clone, Copy)]
pub(super) enum Pace {
    /// Datagrams per second of a port, the default of an agent, where switches answer all of them.
    Agent(f64),
    /// As the plan allows: that many traces of source ports per second from the ports of a leaf.
    Leaf(f64),
}

/// An agent: its plan, and what it has traced and probed.
pub(super) struct Agent {
    host: usize,
    pub targets: Vec<Target>,
    /// By own port: what is to be traced yet, in the order of the plan (target and position of the source port), the last one next.
    untraced: BTreeMap<usize, Vec<(usize, usize)>>,
    /// By own port: datagrams or traces that it may send.
    tokens: BTreeMap<usize, f64>,
    searched: Vec<bool>,
    /// By target: probes that are due, a fraction of one, and how many were sent.
    due: Vec<f64>,
    sent: Vec<usize>,
}

fn rail(port: &str) -> usize {
    port.trim_start_matches("mlx5_").split('/').next().unwrap().parse().unwrap()
}

fn number(host: &str) -> usize {
    host.trim_start_matches("gpu-").parse().unwrap()
}

impl Agent {
    /// An agent with its plan.
    pub fn new(host: usize, plan: PlanReply) -> Self {
        let targets = plan.targets;
        let mut untraced: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for (at, target) in targets.iter().enumerate().filter(|(_, target)| target.trace_every_ms > 0).rev() {
            untraced
                .entry(rail(&target.from))
                .or_default()
                .extend((0..target.source_ports.len()).rev().map(|port| (at, port)));
        }
        let spread = |at: usize| (at as f64 * 0.618_033_988_749_895).fract();
        let (due, count) = ((0..targets.len()).map(spread).collect(), targets.len());
        Self {
            host,
            targets,
            untraced,
            tokens: BTreeMap::new(),
            searched: vec![false; count],
            due,
            sent: vec![0; count],
        }
    }

    /// What it reports of the seconds since its last report.
    pub fn report(&mut self, fleet: Fleet, pace: Pace, seconds: f64, now_ns: i64) -> ReportRequest {
        let mut report = ReportRequest { host: name(self.host), agent: 1, ..ReportRequest::default() };
        let mut pairs: BTreeMap<usize, u32> = BTreeMap::new();
        self.trace(fleet, pace, seconds, now_ns, &mut report, &mut pairs);
        self.probe(seconds, now_ns, &mut report, &mut pairs);
        report
    }

    fn pair(&self, at: usize, report: &mut ReportRequest, pairs: &mut BTreeMap<usize, u32>) -> u32 {
        *pairs.entry(at).or_insert_with(|| {
            let target = &self.targets[at];
            let port = target.to.as_ref().unwrap().name.clone();
            report.pairs.push(ReportedPair { from: target.from.clone(), host: target.host.clone(), port });
            report.pairs.len() as u32 - 1
        })
    }

    fn trace(
        &mut self,
        fleet: Fleet,
        pace: Pace,
        seconds: f64,
        now_ns: i64,
        report: &mut ReportRequest,
        pairs: &mut BTreeMap<usize, u32>,
    ) {
        for (rail, mut queue) in std::mem::take(&mut self.untraced) {
            let (rate, is_datagrams) = match pace {
                Pace::Agent(rate) => (rate, true),
                Pace::Leaf(rate) => (rate / fleet.hosts as f64, false),
            };
            let mut tokens = self.tokens.get(&rail).copied().unwrap_or_default() + rate * seconds;
            while let Some((at, port)) = queue.last().copied() {
                let path = self.path(fleet, at, port, now_ns);
                // The first switch of a port is known; the search asks each switch, and the target.
                let search = if self.searched[at] { 0 } else { path.hops.len() + 1 };
                let cost = if is_datagrams { (search + ANSWERS * (path.hops.len() - 1)) as f64 } else { 1.0 };
                if tokens < cost {
                    break;
                }
                tokens -= cost;
                queue.pop();
                self.searched[at] = true;
                let pair = self.pair(at, report, pairs);
                report.paths.push(TracedPath { pair, ..path });
            }
            self.tokens.insert(rail, tokens);
            self.untraced.insert(rail, queue);
        }
    }

    /// The path of a source port. Each is hashed to one of the spines.
    fn path(&self, fleet: Fleet, at: usize, port: usize, now_ns: i64) -> TracedPath {
        let target = &self.targets[at];
        let [own, far] = [(self.host, &target.from), (number(&target.host), &target.to.as_ref().unwrap().name)]
            .map(|(host, port)| (host, rail(port)));
        let source_port = target.source_ports[port];
        let hash = foldhash::fast::FixedState::default().hash_one((own, far, source_port));
        let spine = Hop { addresses: vec![octets(spine_address(hash as usize % fleet.spines))] };
        // Leaves are known by the cables of their hosts.
        let hops = if fleet.leaf(own.0, own.1) == fleet.leaf(far.0, far.1) {
            vec![Hop::default()]
        } else {
            vec![Hop::default(), spine, Hop::default()]
        };
        TracedPath { pair: 0, source_port, traced_ns: now_ns as u64, hops, complete: true }
    }

    fn probe(&mut self, seconds: f64, now_ns: i64, report: &mut ReportRequest, pairs: &mut BTreeMap<usize, u32>) {
        for at in 0..self.targets.len() {
            self.due[at] += seconds * per_second(&self.targets[at]);
            while self.due[at] >= 1.0 {
                self.due[at] -= 1.0;
                let pair = self.pair(at, report, pairs);
                let (target, turn) = (&self.targets[at], self.sent[at]);
                let source_port =
                    target.source_ports.get(turn % target.source_ports.len().max(1)).copied().unwrap_or(0);
                self.sent[at] += 1;
                let probe = ProbeResult {
                    pair,
                    source_port,
                    sent_ns: now_ns as u64,
                    rtt_ns: Some(8_000 + turn as u64 % 7 * 100),
                    turn_ns: Some(3_000),
                    own_ns: 5_000,
                    transport: ProbeTransport::Rdma.into(),
                };
                if target.tcp_twin {
                    let transport = ProbeTransport::Tcp.into();
                    report.probes.push(ProbeResult { source_port: 0, turn_ns: None, transport, ..probe.clone() });
                }
                report.probes.push(probe);
            }
        }
    }
}

/// Probes per second of a target, without twins.
pub(super) fn per_second(target: &Target) -> f64 {
    if target.probe_every_ms == 0 { 0.0 } else { 1e3 / f64::from(target.probe_every_ms) }
}
