//! Congestion suffered and caused by the job, over time and by port.

use super::ReportContext;
use super::ports::{Aggregation, Counter, Port, figure, sum};
use crate::model::{CongestedPort, Congestion, Grade, Line, Method, Plot, Unit};
use fabriclens_promql::QueryError;
use std::collections::BTreeSet;

/// Maximum number of listed ports.
const LISTED: usize = 20;
/// Minimum fraction of time for a port to be listed.
const WORTH: f64 = 0.001;

pub(super) fn congestion(context: &ReportContext<'_>) -> Result<Congestion, QueryError> {
    let ports = &context.ports;
    let shares =
        |title: &str, counter, rollup: [&str; 2], direction| plot_shares(context, title, counter, rollup, direction);
    let pause = ["fabric_job_pause_share_ratio", "fabric_job_pause_share_max_ratio"];
    let wait = ["fabric_job_xmit_wait_share_ratio", "fabric_job_xmit_wait_share_max_ratio"];
    let mut suffered = vec![
        shares("Could not send: paused by the switch", Counter::Paused, pause, "direction=\"receive\"")?,
        shares("Could not send: no credits (XmitWait)", Counter::Wait, wait, "")?,
        counts(context, "Slowed down by congestion notifications (CNPs handled)", Counter::CnpReceived, "receive")?,
    ];
    let mut caused = vec![
        shares("Paused the switch (pause sent)", Counter::Pausing, pause, "direction=\"transmit\"")?,
        counts(context, "Slowed senders down (CNPs sent)", Counter::CnpSent, "transmit")?,
    ];
    suffered.retain(|p| !p.lines.is_empty());
    caused.retain(|p| !p.lines.is_empty());
    Ok(Congestion {
        paused: context.share(ports, Counter::Paused, Aggregation::Mean),
        pausing: context.share(ports, Counter::Pausing, Aggregation::Mean),
        xmit_wait: figure(Unit::Ratio, Aggregation::Mean, ports.iter().map(|p| (p.grade, wait_share(context, p)))),
        cnp_received: sum(Unit::Count, ports, Counter::CnpReceived),
        cnp_sent: sum(Unit::Count, ports, Counter::CnpSent),
        ecn_marked: sum(Unit::Count, ports, Counter::Marked),
        suffered,
        caused,
        ports: worst(context),
    })
}

/// Fraction of the time that a port lost to waiting for credits.
pub(super) fn wait_share(context: &ReportContext<'_>, port: &Port) -> Option<f64> {
    Some((port.total(Counter::Wait)? / (port.rate? * context.source.seconds())).min(1.0))
}

/// Fraction of a step that a counter of seconds or of waiting bytes covers.
pub(super) fn held(context: &ReportContext<'_>, port: &Port, counter: Counter, n: usize) -> Option<f64> {
    let seconds = match counter {
        Counter::Wait => port.step(counter, n)? / port.rate?,
        _ => port.step(counter, n)?,
    };
    Some((seconds / context.steps[n]).clamp(0.0, 1.0))
}

/// Plot of the mean and the maximum over ports.
fn plot_shares(
    context: &ReportContext<'_>,
    title: &str,
    counter: Counter,
    rollups: [&str; 2],
    more: &str,
) -> Result<Plot, QueryError> {
    let mut lines = Vec::new();
    let names = ["mean over ports", "worst port"];
    if context.source.method == Method::Checkpoints {
        for (metric, name) in rollups.iter().zip(names) {
            let question = format!("max by (attribution) ({})", context.rollup(metric, more));
            lines.extend(context.rollup_lines(&question, |_| name.to_owned())?);
        }
    }
    if lines.is_empty() {
        for grade in grades(&context.ports) {
            for (over, name) in [Aggregation::Mean, Aggregation::Most].into_iter().zip(names) {
                let at = |n: usize| {
                    let ports = context.ports.iter().filter(|p| p.grade == grade);
                    figure(Unit::Ratio, over, ports.map(|p| (grade, held(context, p, counter, n)))).part(grade)
                };
                let points: Vec<Option<f64>> = (0..context.steps.len()).map(at).collect();
                if points.iter().any(Option::is_some) {
                    lines.push(Line { name: name.to_owned(), grade, points });
                }
            }
        }
        return Ok(plot(context, title, Unit::Ratio, context.step_seconds(), lines));
    }
    Ok(plot(context, title, Unit::Ratio, context.source.step_ms as f64 / 1000.0, lines))
}

/// Plot of the rate of all ports together.
fn counts(context: &ReportContext<'_>, title: &str, counter: Counter, direction: &str) -> Result<Plot, QueryError> {
    if context.source.method == Method::Checkpoints {
        let selector = context.rollup("fabric_job_cnp_packets_total", &format!("direction=\"{direction}\""));
        let width = context.source.step_ms.max(60_000);
        let question = format!("sum by (attribution) (rate({selector}[{width}ms]))");
        let lines = context.rollup_lines(&question, |_| "all ports".to_owned())?;
        if !lines.is_empty() {
            return Ok(plot(context, title, Unit::CountPerSecond, context.source.step_ms as f64 / 1000.0, lines));
        }
    }
    let line = |grade: Grade| {
        let ports = || context.ports.iter().filter(|p| p.grade == grade);
        let at =
            |n: usize| ports().filter_map(|p| p.step(counter, n)).reduce(|a, b| a + b).map(|v| v / context.steps[n]);
        Line { name: "all ports".to_owned(), grade, points: (0..context.steps.len()).map(at).collect() }
    };
    let lines = grades(&context.ports).into_iter().map(line).filter(|l| l.points.iter().any(Option::is_some));
    Ok(plot(context, title, Unit::CountPerSecond, context.step_seconds(), lines.collect()))
}

fn plot(context: &ReportContext<'_>, title: &str, unit: Unit, step_seconds: f64, lines: Vec<Line>) -> Plot {
    Plot { title: title.to_owned(), unit, start_ns: context.source.start_ms * 1_000_000, step_seconds, lines }
}

pub(super) fn grades(ports: &[Port]) -> BTreeSet<Grade> {
    ports.iter().map(|p| p.grade).collect()
}

/// Ports that were paused or paused their switch, the worst first.
fn worst(context: &ReportContext<'_>) -> Vec<CongestedPort> {
    let share = |p: &Port, counter| p.total(counter).map(|s| (s / context.source.seconds()).min(1.0));
    let mut ports: Vec<(f64, CongestedPort)> = Vec::new();
    for p in &context.ports {
        let (paused, pausing) = (share(p, Counter::Paused), share(p, Counter::Pausing));
        let most = paused.unwrap_or(0.0).max(pausing.unwrap_or(0.0)).max(wait_share(context, p).unwrap_or(0.0));
        if most >= WORTH {
            let (host, device, cnp_sent) = (p.host.clone(), p.device.clone(), p.total(Counter::CnpSent));
            // At equal fractions, ports that cause congestion rank before ports that suffer it.
            let rank = most + pausing.unwrap_or(0.0);
            ports.push((rank, CongestedPort { host, device, paused, pausing, cnp_sent, grade: p.grade }));
        }
    }
    ports.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| (&a.1.host, &a.1.device).cmp(&(&b.1.host, &b.1.device))));
    ports.into_iter().take(LISTED).map(|p| p.1).collect()
}
