//! The tracer of a host: all ports, the plan, and the waiting.

use crate::port::{PortTracer, Step};
use crate::stats::{Paths, Stats};
use crate::target::{Found, LocalPort, TraceTarget};
use crate::transport::Transport;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Most paths that are traced, the first of the plan.
const PATHS: usize = 8192;

/// Traces the paths of a plan from all ports of a host.
#[derive(Debug)]
pub struct Tracer<T: Transport> {
    transport: T,
    per_second: u32,
    ports: BTreeMap<String, PortTracer<T>>,
    targets: Vec<TraceTarget>,
    left_out: usize,
    stats: Stats,
    random: u64,
}

impl<T: Transport> Tracer<T> {
    /// A tracer without ports and plan. `per_second`: most datagrams of each port. `seed`: a random number, which others cannot
    /// guess; answers with other tokens are ignored.
    pub fn new(transport: T, per_second: u32, seed: u64) -> Self {
        let (ports, targets, stats) = (BTreeMap::new(), Vec::new(), Stats::default());
        Self { transport, per_second, ports, targets, left_out: 0, stats, random: seed }
    }

    /// Sets the most datagrams of each port per second.
    pub fn set_rate(&mut self, per_second: u32) {
        self.per_second = per_second;
        self.ports.values_mut().for_each(|port| port.set_rate(per_second));
    }

    /// Sets the ports of this host. A port whose address or interface has changed begins anew.
    pub fn set_ports(&mut self, locals: Vec<LocalPort>, now: Instant) {
        let is_same = locals.len() == self.ports.len()
            && locals.iter().all(|local| self.ports.get(&local.name).is_some_and(|port| port.local() == local));
        if is_same {
            return;
        }
        let mut before = std::mem::take(&mut self.ports);
        for local in locals {
            let kept = before.remove(&local.name).filter(|port| *port.local() == local);
            let name = local.name.clone();
            self.ports.insert(name, kept.unwrap_or_else(|| PortTracer::new(local, self.per_second, now)));
        }
        self.assign(now);
    }

    /// Replaces the plan. An empty one ends all traces.
    pub fn set_targets(&mut self, targets: Vec<TraceTarget>, now: Instant) {
        self.targets = targets;
        self.assign(now);
    }

    fn assign(&mut self, now: Instant) {
        let (mut room, mut left_out) = (PATHS, 0);
        let strangers = self.targets.iter().filter(|target| !self.ports.contains_key(&target.pair.from));
        left_out += strangers.map(|target| target.source_ports.len()).sum::<usize>();
        for (name, port) in &mut self.ports {
            let targets = self.targets.iter().filter(|target| target.pair.from == *name);
            let (taken, out) = port.set_targets(targets, room, now);
            room -= taken;
            left_out += out;
        }
        self.left_out = left_out;
    }

    /// Does what is due at `now`, which is `unix_ns` by the wall clock. Returns the paths to report. Never waits.
    pub fn step(&mut self, now: Instant, unix_ns: u64) -> Vec<Found> {
        let mut found = Vec::new();
        let state = &mut self.random;
        let mut random = || split_mix(state);
        for port in self.ports.values_mut() {
            let (transport, stats) = (&mut self.transport, &mut self.stats);
            port.step(&mut Step { now, unix_ns, transport, stats, random: &mut random }, &mut found);
        }
        found
    }

    /// When something is due, unless an answer comes before.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        self.ports.values().map(|port| port.next(now)).min()
    }

    /// Waits until an answer is there or something is due, at most until `limit`.
    pub fn wait(&mut self, now: Instant, limit: Instant) {
        let until = self.next(now).unwrap_or(limit).min(limit);
        let timeout = until.saturating_duration_since(now).max(Duration::from_millis(1));
        let sockets: Vec<&T::Socket> = self.ports.values().flat_map(PortTracer::sockets).collect();
        self.transport.wait(&sockets, timeout);
    }

    /// Counts since the start.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Paths of the plan, by what is known of them.
    pub fn paths(&self) -> Paths {
        let mut paths = Paths { left_out: self.left_out, ..Paths::default() };
        self.ports.values().for_each(|port| port.count(&mut paths));
        paths
    }

    /// What the kernel refused, as sentences; a few of each port.
    pub fn problems(&self) -> Vec<String> {
        self.ports.values().flat_map(PortTracer::problems).collect()
    }
}

/// Next number of the generator SplitMix64.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
