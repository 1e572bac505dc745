//! Evidence and phrases that detectors share.

use crate::detectors::context::DetectorContext;
use crate::model::finding::Evidence;
use crate::model::signal::Signal;
use crate::signals::table::ALL;
use fabriclens_collectives::Straggler;

/// A value of a port as evidence.
pub(super) fn evidence(ctx: &DetectorContext<'_>, signal: Signal, port: usize, value: f64, threshold: f64) -> Evidence {
    Evidence {
        metric: metric(signal).to_owned(),
        at: name(ctx, port),
        value,
        threshold,
        window_ns: ctx.window.time_range_ns(),
    }
}

/// A value of a job as evidence.
pub(super) fn of_job(ctx: &DetectorContext<'_>, signal: Signal, job: usize, value: f64, threshold: f64) -> Evidence {
    let at = ctx.fabric.jobs[job].id.clone();
    Evidence { metric: metric(signal).to_owned(), at, value, threshold, window_ns: ctx.window.time_range_ns() }
}

/// Ports of a job that receive at least `times` their baseline of marked packets.
pub(super) fn marked_ports(ctx: &DetectorContext<'_>, job: usize, times: f64) -> Vec<usize> {
    let grown = |port: &usize| {
        let baseline = ctx.baseline_mean(Signal::EcnRx, *port).unwrap_or(0.0);
        ctx.mean(Signal::EcnRx, *port).is_some_and(|now| now > 0.0 && now >= times * baseline)
    };
    ctx.fabric.jobs[job].ports.iter().copied().filter(grown).collect()
}

/// Whether the hosts of a job meet so many times the marks, notifications or pause of the baseline. A job that loses to others
/// does; one that evaluates, computes for longer or waits for its own slow rank does not.
pub(super) fn meets_more(ctx: &DetectorContext<'_>, job: usize, times: f64) -> bool {
    let ports = || ctx.fabric.jobs[job].ports.iter().copied();
    let grown = |s| ctx.sum(s, ports()) >= times * ctx.baseline_sum(s, ports());
    [Signal::EcnRx, Signal::CnpRx, Signal::PauseRx].into_iter().any(|s| ctx.sum(s, ports()) > 0.0 && grown(s))
}

/// The metric that a signal is named after in evidence.
fn metric(signal: Signal) -> &'static str {
    ALL[signal as usize].expression.metric()
}

/// Name of a port in explanations.
pub(super) fn name(ctx: &DetectorContext<'_>, port: usize) -> String {
    let end = &ctx.fabric.ports.list[port].end;
    format!("{} port {}", ctx.fabric.topology.nodes[end.node].name, end.port)
}

/// A share in percent for explanations.
pub(super) fn percent(share: f64) -> String {
    if share < 0.095 { format!("{:.1} %", share * 100.0) } else { format!("{:.0} %", share * 100.0) }
}

/// The process of a rank in brackets, after its number; empty if nothing is known of it.
pub(super) fn in_brackets(rank: &Straggler) -> String {
    let process = rank.process();
    if process.is_empty() { process } else { format!(" ({process})") }
}

/// Element at a quantile of a sorted list.
pub(super) fn nth<T>(list: &[T], part: f64) -> Option<&T> {
    list.get((list.len() as f64 * part) as usize)
}
