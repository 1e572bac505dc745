//! Volume and rate by rail, host and time, and the host or port that stands out.

use super::ReportContext;
use super::ports::{Aggregation, Counter, Port, figure, sum};
use crate::model::{Figure, Grade, Host, Line, Method, Plot, Rail, StandsOut, Straggler, Traffic, Unit};
use fabriclens_promql::QueryError;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of rails with a line of their own in the plot.
const DRAWN: usize = 16;
/// A port that pauses its switch for more than this fraction of the time does not drain its data.
const PAUSING: f64 = 0.01;
/// Minimum number of notifications for an incast.
const INCAST: f64 = 1000.0;
/// A host that sends less than this fraction of the median lags behind.
const BEHIND: f64 = 0.8;

pub(super) fn traffic(context: &ReportContext<'_>) -> Result<Traffic, QueryError> {
    let ports = &context.ports;
    let transmitted = sum(Unit::Bytes, ports, Counter::Sent);
    let plot = plot(context)?;
    let mut mean_rate = Figure { unit: Unit::BytesPerSecond, parts: transmitted.parts.clone() };
    mean_rate.parts.iter_mut().for_each(|p| p.value /= context.source.seconds().max(1e-3));
    Ok(Traffic {
        received: sum(Unit::Bytes, ports, Counter::Received),
        mean_rate,
        peak_rate: peak(&plot, ports),
        rails: rails(context),
        hosts: hosts(context),
        straggler: straggler(context),
        plot,
        transmitted,
    })
}

/// Maximum over time of the sum of all lines, by grade.
fn peak(plot: &Plot, ports: &[Port]) -> Figure {
    let grades: BTreeSet<Grade> = plot.lines.iter().map(|l| l.grade).collect();
    let values = grades.into_iter().map(|grade| {
        let lines: Vec<&Line> = plot.lines.iter().filter(|l| l.grade == grade).collect();
        let steps = lines.iter().map(|l| l.points.len()).max().unwrap_or(0);
        let at = |n: usize| lines.iter().filter_map(|l| l.points.get(n).copied().flatten()).reduce(|a, b| a + b);
        (grade, (0..steps).filter_map(at).max_by(f64::total_cmp))
    });
    let mut figure = figure(Unit::BytesPerSecond, Aggregation::Most, values);
    for part in &mut figure.parts {
        part.of = ports.iter().filter(|p| p.grade == part.grade).count();
    }
    figure
}

fn plot(context: &ReportContext<'_>) -> Result<Plot, QueryError> {
    let mut plot = Plot {
        title: "Sent, by rail".into(),
        unit: Unit::BytesPerSecond,
        start_ns: context.source.start_ms * 1_000_000,
        step_seconds: context.step_seconds(),
        lines: Vec::new(),
    };
    if context.source.method == Method::Checkpoints {
        let rates = context.rollup("fabric_job_io_bytes_per_second", "direction=\"transmit\"");
        let rates = format!("sum by (rail, attribution) ({rates})");
        plot.step_seconds = context.source.step_ms as f64 / 1000.0;
        plot.lines = context.rollup_lines(&rates, |l| l.get("rail").to_owned())?;
    }
    if plot.lines.is_empty() {
        let mut lines: BTreeMap<(String, Grade), Vec<&Port>> = BTreeMap::new();
        for port in &context.ports {
            lines.entry((port.rail.clone(), port.grade)).or_default().push(port);
        }
        let line = |((name, grade), ports): ((String, Grade), Vec<&Port>)| {
            let at = |n: usize| ports.iter().filter_map(|p| p.step(Counter::Sent, n)).reduce(|a, b| a + b);
            let points = (0..context.steps.len()).map(|n| Some(at(n)? / context.steps[n]));
            Line { name, grade, points: points.collect() }
        };
        plot.step_seconds = context.step_seconds();
        plot.lines = lines.into_iter().map(line).collect();
    }
    if plot.lines.len() > DRAWN {
        let mut all: BTreeMap<Grade, Line> = BTreeMap::new();
        for line in plot.lines.drain(..) {
            let none = || Line { name: "all rails".into(), grade: line.grade, points: vec![None; line.points.len()] };
            let sum = all.entry(line.grade).or_insert_with(none);
            sum.points
                .iter_mut()
                .zip(&line.points)
                .for_each(|(a, b)| *a = a.or(b.map(|_| 0.0)).map(|v| v + b.unwrap_or(0.0)));
        }
        plot.lines = all.into_values().collect();
        plot.title = "Sent".into();
    }
    Ok(plot)
}

fn rails(context: &ReportContext<'_>) -> Vec<Rail> {
    let mut by: BTreeMap<&str, Vec<&Port>> = BTreeMap::new();
    context.ports.iter().for_each(|p| by.entry(&p.rail).or_default().push(p));
    let sent = |ports: &[&Port]| ports.iter().filter_map(|p| p.total(Counter::Sent)).reduce(|a, b| a + b);
    // If some rails are known, other adapters (such as those for storage) do not count for the balance.
    let known = context.ports.iter().any(|p| p.on_rail);
    let counts = |ports: &[&Port]| !known || ports.iter().any(|p| p.on_rail);
    let of_rails = by.values().filter(|ports| counts(ports));
    let all: Vec<f64> = of_rails.filter_map(|ports| Some(sent(ports)? / ports.len() as f64)).collect();
    let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
    let rail = |(rail, ports): (&&str, &Vec<&Port>)| Rail {
        rail: (*rail).to_owned(),
        ports: ports.len(),
        transmitted: sum(Unit::Bytes, ports.iter().copied(), Counter::Sent),
        received: sum(Unit::Bytes, ports.iter().copied(), Counter::Received),
        of_mean: sent(ports)
            .filter(|_| mean > 0.0 && all.len() > 1 && counts(ports))
            .map(|s| s / ports.len() as f64 / mean),
        paused: context.share(ports.iter().copied(), Counter::Paused, Aggregation::Mean),
    };
    by.iter().map(rail).collect()
}

fn hosts(context: &ReportContext<'_>) -> Vec<Host> {
    let mut by: BTreeMap<&str, Vec<&Port>> = context.job.hosts.keys().map(|h| (h.as_str(), Vec::new())).collect();
    context.ports.iter().for_each(|p| by.entry(&p.host).or_default().push(p));
    let host = |(host, ports): (&str, Vec<&Port>)| {
        let sum = |unit, counter| sum(unit, ports.iter().copied(), counter);
        Host {
            host: host.to_owned(),
            measured: ports.iter().any(|p| p.total(Counter::Sent).is_some()),
            transmitted: sum(Unit::Bytes, Counter::Sent),
            received: sum(Unit::Bytes, Counter::Received),
            paused: context.share(ports.iter().copied(), Counter::Paused, Aggregation::Most),
            pausing: context.share(ports.iter().copied(), Counter::Pausing, Aggregation::Most),
            cnp_sent: sum(Unit::Count, Counter::CnpSent),
            link_errors: sum(Unit::Count, Counter::LinkErrors),
        }
    };
    by.into_iter().map(host).collect()
}

/// The port that pauses its switch far more than the others, has link errors, or receives an incast; otherwise the host
/// that sends far less than the others.
fn straggler(context: &ReportContext<'_>) -> Option<Straggler> {
    let of = |port: &Port, by: StandsOut, text: String| {
        let (device, rail) = (Some(port.device.clone()), Some(port.rail.clone()));
        Some(Straggler { host: port.host.clone(), device, rail, by, text })
    };
    let pausing = |p: &Port| p.total(Counter::Pausing).map(|s| s / context.source.seconds());
    let most = context.ports.iter().filter_map(|p| Some((p, pausing(p)?))).max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((port, share)) = most.filter(|(_, share)| *share > PAUSING) {
        let rest: Vec<f64> = context.ports.iter().filter(|p| p.name() != port.name()).filter_map(pausing).collect();
        if median(&rest).is_none_or(|usual| share > 3.0 * usual) {
            let share = share * 100.0;
            let text = format!("paused its switch for {share:.1} % of the time, far more than the job's other ports");
            return of(port, StandsOut::Pausing, text);
        }
    }
    let failing = |p: &&Port| p.total(Counter::LinkErrors).is_some_and(|n| n >= 10.0);
    let worst = context.ports.iter().filter(failing).max_by(|a, b| {
        let errors = |p: &Port| p.total(Counter::LinkErrors).unwrap_or(0.0);
        errors(a).total_cmp(&errors(b))
    });
    if let Some(port) = worst {
        let errors = port.total(Counter::LinkErrors).unwrap_or(0.0);
        let again: f64 = context.ports.iter().filter_map(|p| p.total(Counter::Retransmits)).sum();
        let again = match again > 0.0 {
            true => format!(", and the job's ports counted {again:.0} lost packets"),
            false => String::new(),
        };
        return of(port, StandsOut::LinkErrors, format!("counted {errors:.0} link errors{again}"));
    }
    let cnps = |p: &Port| p.total(Counter::CnpSent).unwrap_or(0.0);
    let all: f64 = context.ports.iter().map(cnps).sum();
    let most = context.ports.iter().max_by(|a, b| cnps(a).total_cmp(&cnps(b)));
    if let Some(port) = most.filter(|p| context.ports.len() > 2 && cnps(p) > 0.5 * all && cnps(p) > INCAST) {
        let text = format!(
            "sent {:.0} % of the job's congestion notifications: more was sent to it at once than it can receive",
            cnps(port) / all * 100.0
        );
        return of(port, StandsOut::Incast, text);
    }
    let mut sent: BTreeMap<&str, f64> = BTreeMap::new();
    for port in &context.ports {
        *sent.entry(&port.host).or_default() += port.total(Counter::Sent).unwrap_or(0.0);
    }
    let usual = median(&sent.values().copied().collect::<Vec<_>>())?;
    let (host, least) = sent.iter().min_by(|a, b| a.1.total_cmp(b.1))?;
    (sent.len() > 2 && usual > 0.0 && *least < BEHIND * usual).then(|| Straggler {
        host: (*host).to_owned(),
        device: None,
        rail: None,
        by: StandsOut::Behind,
        text: format!("sent {:.0} % of the median of the job's hosts", least / usual * 100.0),
    })
}

/// The upper of the two in the middle, if their number is even; `None` without values.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}
