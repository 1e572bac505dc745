//! The graph of ports that wait for each other. A switch holds back its peers because one of its egress ports is full;
//! that port is full because it is held back itself, or because it gets more than its link carries. The end of this
//! path is the root of the congestion. Traffic of one priority does not wait for another, and no port waits for one
//! that was held back later. A path that returns to its start is a cycle without a root.

use crate::detectors::backpressure::{EXPLAINED, FULL, HoldSignal, Onset, PART, is_held, load, load_while, waited_for};
use crate::detectors::context::DetectorContext;
use crate::model::signal::Signal;
use crate::model::stats::mean;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// A switch that holds others back in a priority; `None` if drivers do not count by priority.
type State = (usize, Option<usize>);

/// A port where congestion starts: nothing holds it back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CongestionRoot {
    /// A switch port at full load, or a host port that pauses its switch.
    pub port: usize,
    /// Mean queue in bytes; 0 if not measured.
    pub queue: f64,
    began: Option<Onset>,
}

/// Why a port does not send its queue.
enum Cause {
    /// It sends at full load.
    Full,
    /// Its peer holds it back.
    Peer(usize),
    /// Its queue is of another priority, or was held back later.
    Another,
}

/// The wait graph from one or more starting points.
#[derive(Default)]
pub struct WaitGraph {
    /// By switch and priority: the ports that wait for other switches, and for which.
    waits: BTreeMap<State, Vec<(usize, State)>>,
    ends: Vec<CongestionRoot>,
}

/// Roots of all backpressure in the fault domain by priority (`None` if drivers do not count by priority), the longest
/// queue first.
pub fn congestion_roots(ctx: &DetectorContext<'_>) -> BTreeMap<Option<usize>, Vec<CongestionRoot>> {
    let mut starts: BTreeMap<Option<usize>, BTreeSet<State>> = BTreeMap::new();
    for port in ctx.switch_ports() {
        let Some(hold) = HoldSignal::of_peer(ctx, port).filter(|hold| hold.holds(ctx, None)) else { continue };
        for priority in hold.priorities(ctx).each() {
            starts.entry(priority).or_default().insert((ctx.fabric.ports.list[port].end.node, priority));
        }
    }
    let ends = |(priority, starts)| (priority, WaitGraph::of(ctx, starts, true).ends(ctx));
    starts.into_iter().map(ends).collect()
}

impl WaitGraph {
    /// The graph behind a port that is held back in a priority, along what began no later.
    pub fn from(ctx: &DetectorContext<'_>, port: usize, priority: Option<usize>) -> Self {
        Self::of(ctx, behind(ctx, port, priority), true)
    }

    /// The same without regard to what began first.
    pub fn unordered(ctx: &DetectorContext<'_>, port: usize, priority: Option<usize>) -> Self {
        Self::of(ctx, behind(ctx, port, priority), false)
    }

    fn of(ctx: &DetectorContext<'_>, starts: impl IntoIterator<Item = State>, ordered: bool) -> Self {
        let fabric = ctx.fabric;
        let (mut graph, mut next) = (Self::default(), starts.into_iter().collect::<Vec<_>>());
        while let Some(state) = next.pop() {
            if graph.waits.contains_key(&state) {
                continue;
            }
            let (mut waits, began) = (Vec::new(), began(ctx, state).filter(|_| ordered));
            for (port, cause) in exits(ctx, state, began) {
                let queue = ctx.mean(Signal::Queue, port).unwrap_or(0.0);
                let hold = HoldSignal::of(ctx, port);
                match cause {
                    Cause::Peer(peer) if fabric.is_host(peer) => {
                        let began = hold.and_then(|hold| hold.onset(ctx, state.1));
                        graph.ends.push(CongestionRoot { port: peer, queue, began });
                    }
                    Cause::Peer(peer) => {
                        let which = hold.filter(|_| state.1.is_none()).map(|hold| hold.priorities(ctx));
                        let node = fabric.ports.list[peer].end.node;
                        match which {
                            Some(which) => waits.extend(which.each().map(|priority| (port, (node, priority)))),
                            None => waits.push((port, (node, state.1))),
                        }
                    }
                    Cause::Full => graph.ends.push(CongestionRoot { port, queue, began }),
                    Cause::Another => {}
                }
            }
            next.extend(waits.iter().map(|wait| wait.1));
            graph.waits.insert(state, waits);
        }
        graph
    }

    /// Ports of all roots, whichever began first.
    pub fn all_ends(self) -> impl Iterator<Item = usize> {
        self.ends.into_iter().map(|end| end.port)
    }

    /// The roots that began first, the longest queue first.
    pub fn ends(mut self, ctx: &DetectorContext<'_>) -> Vec<CongestionRoot> {
        self.ends.sort_by(|a, b| b.queue.total_cmp(&a.queue));
        let mut seen = BTreeSet::new();
        self.ends.retain(|end| seen.insert(end.port));
        let first = self.ends.iter().filter_map(|end| end.began).map(|began| began.at_ns).min();
        self.ends.retain(|end| !end.began.zip(first).is_some_and(|(began, first)| began.is_later(ctx, first)));
        self.ends
    }

    /// Ports of a wait cycle, starting with the one held back first; `None` if the graph has a root.
    pub fn cycle(&self, ctx: &DetectorContext<'_>) -> Option<Vec<usize>> {
        if !self.ends.is_empty() {
            return None;
        }
        // Removes states that wait for nothing: they are in no cycle.
        let mut left = self.waits.clone();
        loop {
            let all: BTreeSet<State> = left.keys().copied().collect();
            left.values_mut().for_each(|waits| waits.retain(|(_, next)| all.contains(next)));
            left.retain(|_, waits| !waits.is_empty());
            if left.len() == all.len() {
                break;
            }
        }
        let mut way: Vec<(State, usize)> = Vec::new();
        let mut at = *left.keys().next()?;
        let begin = loop {
            if let Some(begin) = way.iter().position(|(state, _)| *state == at) {
                break begin;
            }
            let (port, next) = *left.get(&at)?.first()?;
            way.push((at, port));
            at = next;
        };
        let mut cycle = way.split_off(begin);
        let since = |((_, priority), port): &(State, usize)| {
            let began = HoldSignal::of(ctx, *port).and_then(|hold| hold.onset(ctx, *priority));
            began.map_or(i64::MAX, |began| began.at_ns)
        };
        let first = (0..cycle.len()).min_by_key(|at| since(&cycle[*at]))?;
        cycle.rotate_left(first);
        Some(cycle.into_iter().map(|(_, port)| port).collect())
    }
}

/// The switch that holds a port back.
fn behind(ctx: &DetectorContext<'_>, port: usize, priority: Option<usize>) -> Option<State> {
    let peer = ctx.fabric.ports.list[port].peer.filter(|peer| !ctx.fabric.is_host(*peer))?;
    Some((ctx.fabric.ports.list[peer].end.node, priority))
}

/// When a switch began to hold others back.
fn began(ctx: &DetectorContext<'_>, (node, priority): State) -> Option<Onset> {
    let held = |port: &usize| HoldSignal::of_peer(ctx, *port).filter(|hold| hold.holds(ctx, priority));
    let holds = ctx.fabric.ports.of_node(node).iter().filter_map(held);
    holds.filter_map(|hold| hold.onset(ctx, priority)).min_by_key(|began| began.at_ns)
}

/// Full ports of a switch and the cause: those with long queues or, without queue counters, those that are busy or held
/// back. With `began`, ports that were held back only after the switch began to hold others back do not count.
fn exits(ctx: &DetectorContext<'_>, state: State, began: Option<Onset>) -> Vec<(usize, Cause)> {
    let of = |port: &usize| (*port, cause(ctx, *port, state, began));
    let ports = ctx.fabric.ports.of_node(state.0).iter().map(of);
    let mut ports: Vec<(usize, Cause)> = ports.filter(|(_, cause)| !matches!(cause, Cause::Another)).collect();
    if ports.iter().any(|(_, cause)| matches!(cause, Cause::Peer(_))) && leaves_one_without(ctx, state) {
        ports.retain(|(_, cause)| !matches!(cause, Cause::Full));
    }
    let queue = |port: usize| ctx.mean(Signal::Queue, port);
    let longest = ports.iter().filter_map(|(port, _)| queue(*port)).fold(f64::NAN, f64::max);
    let waits = OnceCell::new();
    let busy = |port: usize| {
        let waits = || waits.get_or_init(|| waited_for(ctx, state.0));
        is_held(ctx, port) || load_while(ctx, waits(), port).is_some_and(|share| share >= ctx.threshold(&FULL))
    };
    ports.retain(|(port, _)| match queue(*port) {
        Some(waits) if longest > 0.0 => waits >= ctx.threshold(&PART) * longest,
        _ => busy(*port),
    });
    ports
}

/// Whether a switch also holds others back in another priority, in which none of its ports is held back. Then a port
/// that is full by itself causes that, because queues are not counted by priority.
fn leaves_one_without(ctx: &DetectorContext<'_>, (node, priority): State) -> bool {
    let Some(own) = priority else { return false };
    let ports = || ctx.fabric.ports.of_node(node).iter().copied();
    let holds = ports().filter_map(|port| HoldSignal::of_peer(ctx, port)).filter(|hold| hold.holds(ctx, None));
    let others: BTreeSet<usize> = holds.flat_map(|hold| hold.priorities(ctx).iter()).filter(|of| *of != own).collect();
    let held = |of: usize| ports().any(|port| matches!(cause(ctx, port, (node, Some(of)), None), Cause::Peer(_)));
    others.into_iter().any(|of| !held(of))
}

/// Why a port does not send more, on a switch that holds others back since then.
fn cause(ctx: &DetectorContext<'_>, port: usize, (node, priority): State, since: Option<Onset>) -> Cause {
    let Some(hold) = HoldSignal::of(ctx, port) else { return Cause::Full };
    let idle = 1.0 - load(ctx, port).unwrap_or(0.0).min(1.0);
    let explains = |of| hold.holds(ctx, of) && hold.share(ctx, of) >= ctx.threshold(&EXPLAINED) * idle;
    if !explains(None) {
        return Cause::Full;
    }
    if !explains(priority) {
        return Cause::Another;
    }
    let began = hold.onset(ctx, priority).zip(since);
    match began.filter(|(began, since)| began.is_later(ctx, since.at_ns)) {
        Some((began, since)) if was_full(ctx, node, port, [since.at_ns, began.at_ns]) => Cause::Full,
        Some(_) => Cause::Another,
        None => ctx.fabric.ports.list[port].peer.map_or(Cause::Full, Cause::Peer),
    }
}

/// Whether a port was full between two instants.
fn was_full(ctx: &DetectorContext<'_>, node: usize, port: usize, [from_ns, to_ns]: [i64; 2]) -> bool {
    let before = || ctx.history.frames().iter().filter(|frame| (from_ns..to_ns).contains(&frame.time_ns));
    let baseline = |signal, port| mean(before().filter_map(|frame| frame.get(signal, port)));
    let queues = ctx.fabric.ports.of_node(node).iter().filter_map(|port| baseline(Signal::Queue, *port));
    let longest = queues.fold(f64::NAN, f64::max);
    match baseline(Signal::Queue, port) {
        Some(queue) if longest > 0.0 => queue >= ctx.threshold(&PART) * longest,
        _ => baseline(Signal::Tx, port)
            .zip(ctx.line_rate(port))
            .is_some_and(|(sent, rate)| sent >= ctx.threshold(&FULL) * rate),
    }
}
