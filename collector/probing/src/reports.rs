//! Checks what agents report: who may report it, of which pairs, and from when.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use fabriclens_base::host_name;
use fabriclens_correlate::{FlowName, PortName, ProbeTransport, RouteUpdate};
use fabriclens_probe_plan::{
    Malformed, ProbeResult, ProbeTransport as Carrier, RESULTS, ReportReply, ReportRequest, TracedPath,
};

use crate::feed::Timed;
use crate::hops::Trace;
use crate::plan_table::{PlanTable, Planned};
use crate::registry::Reporter;

/// How far an agent's clock may be ahead, nanoseconds.
const AHEAD_NS: i64 = 5_000_000_000;
/// Age from which a result is too old, nanoseconds: its window was judged.
const OLD_NS: i64 = 60_000_000_000;
/// Longest credible time of a probe, nanoseconds.
const LONGEST_NS: u64 = 30_000_000_000;
/// Time that the prober's own host may take for a probe, nanoseconds: beyond it, its CPU is busy and the result says nothing.
const BUSY_NS: u64 = 50_000_000;
/// Results that a host may report at once, and per second.
const BURST: f64 = RESULTS as f64 * 2.0;
const PER_S: f64 = 2500.0;

/// A report is refused as a whole; `Display` names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportRefused {
    /// The request is out of bounds.
    #[error("{0}; report in smaller parts")]
    Malformed(#[from] Malformed),
    /// The host offered no ports.
    #[error("host {0:?} has no plan; ask for one first")]
    NoPlan(String),
    /// Another agent process asked for the host's plan since.
    #[error("another agent process of host {0:?} asks for its plan; run one agent on a host, with a name of its own")]
    OtherAgent(String),
    /// The host's own credential offers its ports.
    #[error("host {0:?} reports with a token or certificate of its own; this caller is bound to no host")]
    Taken(String),
}

/// What a report holds that may be used.
#[derive(Default)]
pub(crate) struct Taken {
    /// Traced paths.
    pub traces: Vec<Trace>,
    /// Results of probes with their instants, Unix nanoseconds.
    pub probes: Vec<Timed>,
    /// Results by transport.
    pub counts: HashMap<&'static str, u64>,
    /// Refused paths and results by reason.
    pub refused: HashMap<&'static str, u64>,
    /// The answer.
    pub reply: ReportReply,
}

impl Taken {
    fn refuse(&mut self, reason: &'static str, why: impl FnOnce() -> String) {
        *self.refused.entry(reason).or_default() += 1;
        if self.reply.refused == 0 {
            self.reply.why = why();
        }
        self.reply.refused += 1;
    }
}

/// Checks a report of a host against its present and its last plan.
pub(crate) fn check(
    reporter: &Arc<Reporter>,
    request: &ReportRequest,
    plans: [&PlanTable; 2],
    budget: &mut Budgets,
    now: Instant,
    now_ns: i64,
) -> Taken {
    let (mut taken, host) = (Taken::default(), &reporter.host);
    let of = |at: u32| {
        let pair = request.pairs.get(usize::try_from(at).ok()?)?;
        let names = [pair.from.as_str(), pair.host.as_str(), pair.port.as_str()];
        // Plans change while probes are on their way.
        let planned: Vec<Planned<'_>> = plans.into_iter().filter_map(|plan| plan.pair(host, names)).collect();
        Some((pair, planned)).filter(|(_, planned)| !planned.is_empty())
    };
    let known: Vec<_> = (0..request.pairs.len()).map(|at| of(at as u32)).collect();
    let mut left = budget.take(host, request.paths.len() + request.probes.len(), now);
    let unplanned = |at: u32| {
        let name = request.pairs.get(at as usize).map(|p| format!("{} to {} {}", p.from, p.host, p.port));
        format!("the plan of {host} does not name the pair {}", name.unwrap_or_default().escape_debug())
    };
    let flow = |at: u32, source_port: u32| {
        let (pair, _) = known.get(at as usize)?.as_ref()?;
        let from = PortName { node: host.to_string(), port: pair.from.clone() };
        let to = PortName { node: pair.host.clone(), port: pair.port.clone() };
        let source_port = u16::try_from(source_port).ok().filter(|port| *port != 0);
        Some(FlowName { from, to, source_port })
    };
    let is_planned = |at: u32, source_port: u32| {
        known[at as usize].as_ref().is_some_and(|(_, planned)| {
            planned.iter().any(|plan| plan.source_ports.iter().any(|port| u32::from(*port) == source_port))
        })
    };
    for path in &request.paths {
        let Some(flow) = flow(path.pair, path.source_port) else {
            taken.refuse("pair", || unplanned(path.pair));
            continue;
        };
        if !is_planned(path.pair, path.source_port) {
            taken
                .refuse("source_port", || format!("the plan of {host} does not name source port {}", path.source_port));
        } else if let Err((reason, why)) = recent(path.traced_ns, now_ns) {
            taken.refuse(reason, || why);
        } else if !left.one() {
            taken.refuse("rate", || too_many(host));
        } else {
            let TracedPath { hops, complete, traced_ns, .. } = path;
            let at_ns = i64::try_from(*traced_ns).unwrap_or(i64::MAX);
            taken.traces.push(Trace::new(reporter.clone(), Arc::new(flow), at_ns, hops, *complete));
            *taken.counts.entry("path").or_default() += 1;
        }
    }
    for probe in &request.probes {
        let Some(flow) = flow(probe.pair, probe.source_port) else {
            taken.refuse("pair", || unplanned(probe.pair));
            continue;
        };
        let carrier = Carrier::try_from(probe.transport).unwrap_or(Carrier::Unknown);
        let (transport, name) = match carrier {
            Carrier::Rdma | Carrier::RdmaSoftwareTime => (ProbeTransport::Rdma, "rdma"),
            Carrier::Tcp => (ProbeTransport::Tcp, "tcp"),
            Carrier::Unknown => {
                taken.refuse("transport", || format!("transport {} is not known", probe.transport));
                continue;
            }
        };
        let is_flow = probe.source_port == 0 || is_planned(probe.pair, probe.source_port);
        if transport == ProbeTransport::Rdma && !is_flow {
            taken.refuse("source_port", || {
                format!("the plan of {host} does not name source port {}", probe.source_port)
            });
        } else if let Err((reason, why)) = recent(probe.sent_ns, now_ns).and_then(|()| credible(probe)) {
            taken.refuse(reason, || why);
        } else if !left.one() {
            taken.refuse("rate", || too_many(host));
        } else if probe.own_ns > BUSY_NS {
            // Counted as taken: the agent did nothing wrong.
            *taken.counts.entry("busy").or_default() += 1;
        } else {
            let answer = known[probe.pair as usize].as_ref().and_then(|(_, planned)| planned[0].answer);
            let sent_ns = i64::try_from(probe.sent_ns).unwrap_or(i64::MAX);
            let (rtt_ns, turn_ns) = (probe.rtt_ns.map(|ns| ns as f64), probe.turn_ns.map(|ns| ns as f64));
            let source_port = flow.source_port;
            let update = RouteUpdate::Probe {
                flow,
                answer_port: answer.filter(|_| source_port.is_some()).or(source_port),
                transport,
                sent_ns,
                rtt_ns,
                turn_ns,
            };
            taken.probes.push((sent_ns, update));
            *taken.counts.entry(name).or_default() += 1;
        }
    }
    taken
}

fn too_many(host: &str) -> String {
    format!("host {host} reports more than {PER_S} paths and results per second; probe as planned")
}

fn recent(at_ns: u64, now_ns: i64) -> Result<(), (&'static str, String)> {
    let at_ns = i64::try_from(at_ns).unwrap_or(i64::MAX);
    let off_s = |ns: i64| ns / 1_000_000_000;
    if at_ns > now_ns.saturating_add(AHEAD_NS) {
        let ahead = off_s(at_ns.saturating_sub(now_ns));
        return Err(("future", format!("a result from {ahead} s in the future; set the host's clock")));
    }
    if at_ns < now_ns.saturating_sub(OLD_NS) {
        let old = off_s(now_ns.saturating_sub(at_ns));
        return Err(("old", format!("a result from {old} s ago; set the host's clock, or report sooner")));
    }
    Ok(())
}

fn credible(probe: &ProbeResult) -> Result<(), (&'static str, String)> {
    let times = [probe.rtt_ns, probe.turn_ns, Some(probe.own_ns)];
    match times.into_iter().flatten().find(|ns| *ns > LONGEST_NS) {
        Some(ns) => Err(("time", format!("a probe that took {} s", ns / 1_000_000_000))),
        None => Ok(()),
    }
}

/// How much each host may report, so that one host cannot fill the feed.
#[derive(Default)]
pub(crate) struct Budgets(HashMap<String, (f64, Instant)>);

/// What one report may hold.
struct Allowance(usize);

impl Allowance {
    fn one(&mut self) -> bool {
        let is_left = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        is_left
    }
}

impl Budgets {
    fn take(&mut self, host: &str, wanted: usize, now: Instant) -> Allowance {
        let (left, at) = self.0.entry(host_name::key(host)).or_insert((BURST, now));
        *left = (*left + now.saturating_duration_since(*at).as_secs_f64() * PER_S).min(BURST);
        *at = now;
        let given = (*left as usize).min(wanted);
        *left -= given as f64;
        Allowance(given)
    }

    /// Forgets hosts for which `keeps` is false.
    pub fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.0.retain(|host, _| keeps(host));
    }
}

#[cfg(test)]
mod tests;
