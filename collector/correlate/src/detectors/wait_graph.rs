//! Who waits for whom. A switch holds back those before it because one of its ports out is full; that port is full because
//! it is held back itself, or because more comes than its link carries. Walked to its end, this names where congestion
//! begins. What waits in one priority does not wait for another, and nobody waits for who was held only later. Where the way
//! leads back to where it began, nobody begins it: each waits for the next.

use crate::detectors::backpressure::{EXPLAINED, FULL, HoldSignal, Onset, PART, is_held, load, load_while, waited_for};
use crate::detectors::context::DetectorContext;
use crate::model::signal::Signal;
use crate::model::stats::mean;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// A switch that holds others back in a priority; `None`: nobody says in which.
type State = (usize, Option<usize>);

/// A port at which congestion ends: nobody holds it back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CongestionRoot {
    /// Sends as fast as it can, or is a host's that holds its switch back.
    pub port: usize,
    /// Bytes that wait there, on average; 0 if not measured.
    pub queue: f64,
    began: Option<Onset>,
}

/// Why a port does not send what waits for it.
enum Cause {
    /// It sends as fast as it can.
    Full,
    /// Its peer does not let it.
    Peer(usize),
    /// What waits there waits in another priority, or came later.
    Another,
}

/// See the module.
#[derive(Default)]
pub struct WaitGraph {
    /// By switch and priority: the ports through which it waits for another switch, and for which.
    waits: BTreeMap<State, Vec<(usize, State)>>,
    ends: Vec<CongestionRoot>,
}

/// Where the holding back that is seen anywhere comes from, by priority (`None`: nobody says in which), the longest queue
/// first.
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
    /// From this port that is kept from sending in a priority, along what began no later.
    pub fn from(ctx: &DetectorContext<'_>, port: usize, priority: Option<usize>) -> Self {
        Self::of(ctx, behind(ctx, port, priority), true)
    }

    /// The same as it stands now, whatever began first.
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

    /// Where it ends: of several those that began first, the longest queue first.
    pub fn ends(mut self, ctx: &DetectorContext<'_>) -> Vec<CongestionRoot> {
        self.ends.sort_by(|a, b| b.queue.total_cmp(&a.queue));
        let mut seen = BTreeSet::new();
        self.ends.retain(|end| seen.insert(end.port));
        let first = self.ends.iter().filter_map(|end| end.began).map(|began| began.at_ns).min();
        self.ends.retain(|end| !end.began.zip(first).is_some_and(|(began, first)| began.is_later(ctx, first)));
        self.ends
    }

    /// Ports of a circle in which each waits for the next, the one first that was held first; if it ends nowhere.
    pub fn cycle(&self, ctx: &DetectorContext<'_>) -> Option<Vec<usize>> {
        if !self.ends.is_empty() {
            return None;
        }
        // Who waits for nobody that waits is in no circle.
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

/// What holds this port back, if it is a switch.
fn behind(ctx: &DetectorContext<'_>, port: usize, priority: Option<usize>) -> Option<State> {
    let peer = ctx.fabric.ports.list[port].peer.filter(|peer| !ctx.fabric.is_host(*peer))?;
    Some((ctx.fabric.ports.list[peer].end.node, priority))
}

/// Since when a switch holds others back.
fn began(ctx: &DetectorContext<'_>, (node, priority): State) -> Option<Onset> {
    let held = |port: &usize| HoldSignal::of_peer(ctx, *port).filter(|hold| hold.holds(ctx, priority));
    let holds = ctx.fabric.ports.of_node(node).iter().filter_map(held);
    holds.filter_map(|hold| hold.onset(ctx, priority)).min_by_key(|began| began.at_ns)
}

/// Ports of a switch that are full, and why: those with the long queues, or where no queue is told those that are busy or
/// held. Of those that are held none may be held only since it began to hold others back, if that is to count.
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

/// Whether a switch holds others back in another priority too, in which none of its ports is held: then what is full by itself
/// (nobody counts queues by priority) is why it does that.
fn leaves_one_without(ctx: &DetectorContext<'_>, (node, priority): State) -> bool {
    let Some(own) = priority else { return false };
    let ports = || ctx.fabric.ports.of_node(node).iter().copied();
    let holds = ports().filter_map(|port| HoldSignal::of_peer(ctx, port)).filter(|hold| hold.holds(ctx, None));
    let others: BTreeSet<usize> = holds.flat_map(|hold| hold.priorities(ctx).iter()).filter(|of| *of != own).collect();
    let held = |of: usize| ports().any(|port| matches!(cause(ctx, port, (node, Some(of)), None), Cause::Peer(_)));
    others.into_iter().any(|of| !held(of))
}

/// Why a port does not send more, to a switch that holds others back since then.
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

/// Whether a port was full from one instant until before another.
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
