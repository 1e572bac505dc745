//! Volume and rate by rail, host and time, and who stands out.

use super::Scene;
use super::ports::{Over, Port, What, figure, sum};
use crate::model::{Figure, Grade, Host, Line, Method, Plot, Rail, StandsOut, Straggler, Traffic, Unit};
use fabriclens_promql::QueryError;
use std::collections::{BTreeMap, BTreeSet};

/// Rails that are drawn one by one.
const DRAWN: usize = 16;
/// A port that pauses others for more than this share of the time is not taking its data.
const PAUSING: f64 = 0.01;
/// Notifications below are no incast.
const INCAST: f64 = 1000.0;
/// A host that sends less than this share of the median is behind.
const BEHIND: f64 = 0.8;

pub(super) fn traffic(scene: &Scene<'_>) -> Result<Traffic, QueryError> {
    let ports = &scene.ports;
    let transmitted = sum(Unit::Bytes, ports, What::Sent);
    let plot = plot(scene)?;
    let mut mean_rate = Figure { unit: Unit::BytesPerSecond, parts: transmitted.parts.clone() };
    mean_rate.parts.iter_mut().for_each(|p| p.value /= scene.source.seconds().max(1e-3));
    Ok(Traffic {
        received: sum(Unit::Bytes, ports, What::Received),
        mean_rate,
        peak_rate: peak(&plot, ports),
        rails: rails(scene),
        hosts: hosts(scene),
        straggler: straggler(scene),
        plot,
        transmitted,
    })
}

/// The highest sum of all lines of a grade.
fn peak(plot: &Plot, ports: &[Port]) -> Figure {
    let grades: BTreeSet<Grade> = plot.lines.iter().map(|l| l.grade).collect();
    let values = grades.into_iter().map(|grade| {
        let lines: Vec<&Line> = plot.lines.iter().filter(|l| l.grade == grade).collect();
        let steps = lines.iter().map(|l| l.points.len()).max().unwrap_or(0);
        let at = |n: usize| lines.iter().filter_map(|l| l.points.get(n).copied().flatten()).reduce(|a, b| a + b);
        (grade, (0..steps).filter_map(at).max_by(f64::total_cmp))
    });
    let mut figure = figure(Unit::BytesPerSecond, Over::Most, values);
    for part in &mut figure.parts {
        part.of = ports.iter().filter(|p| p.grade == part.grade).count();
    }
    figure
}

fn plot(scene: &Scene<'_>) -> Result<Plot, QueryError> {
    let mut plot = Plot {
        title: "Sent, by rail".into(),
        unit: Unit::BytesPerSecond,
        start_ns: scene.source.start_ms * 1_000_000,
        step_seconds: scene.step_seconds(),
        lines: Vec::new(),
    };
    if scene.source.method == Method::Checkpoints {
        let rates = scene.rollup("fabric_job_io_bytes_per_second", "direction=\"transmit\"");
        let rates = format!("sum by (rail, attribution) ({rates})");
        plot.step_seconds = scene.source.step_ms as f64 / 1000.0;
        plot.lines = scene.rollup_lines(&rates, |l| l.get("rail").to_owned())?;
    }
    if plot.lines.is_empty() {
        let mut lines: BTreeMap<(String, Grade), Vec<&Port>> = BTreeMap::new();
        for port in &scene.ports {
            lines.entry((port.rail.clone(), port.grade)).or_default().push(port);
        }
        let line = |((name, grade), ports): ((String, Grade), Vec<&Port>)| {
            let at = |n: usize| ports.iter().filter_map(|p| p.step(What::Sent, n)).reduce(|a, b| a + b);
            let points = (0..scene.steps.len()).map(|n| Some(at(n)? / scene.steps[n]));
            Line { name, grade, points: points.collect() }
        };
        plot.step_seconds = scene.step_seconds();
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

fn rails(scene: &Scene<'_>) -> Vec<Rail> {
    let mut by: BTreeMap<&str, Vec<&Port>> = BTreeMap::new();
    scene.ports.iter().for_each(|p| by.entry(&p.rail).or_default().push(p));
    let sent = |ports: &[&Port]| ports.iter().filter_map(|p| p.total(What::Sent)).reduce(|a, b| a + b);
    // Beside rails that are known, another adapter (for storage) is none, and weighs nothing in their balance.
    let known = scene.ports.iter().any(|p| p.on_rail);
    let counts = |ports: &[&Port]| !known || ports.iter().any(|p| p.on_rail);
    let of_rails = by.values().filter(|ports| counts(ports));
    let all: Vec<f64> = of_rails.filter_map(|ports| Some(sent(ports)? / ports.len() as f64)).collect();
    let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
    let rail = |(rail, ports): (&&str, &Vec<&Port>)| Rail {
        rail: (*rail).to_owned(),
        ports: ports.len(),
        transmitted: sum(Unit::Bytes, ports.iter().copied(), What::Sent),
        received: sum(Unit::Bytes, ports.iter().copied(), What::Received),
        of_mean: sent(ports)
            .filter(|_| mean > 0.0 && all.len() > 1 && counts(ports))
            .map(|s| s / ports.len() as f64 / mean),
        paused: scene.share(ports.iter().copied(), What::Paused, Over::Mean),
    };
    by.iter().map(rail).collect()
}

fn hosts(scene: &Scene<'_>) -> Vec<Host> {
    let mut by: BTreeMap<&str, Vec<&Port>> = scene.job.hosts.keys().map(|h| (h.as_str(), Vec::new())).collect();
    scene.ports.iter().for_each(|p| by.entry(&p.host).or_default().push(p));
    let host = |(host, ports): (&str, Vec<&Port>)| {
        let sum = |unit, what| sum(unit, ports.iter().copied(), what);
        Host {
            host: host.to_owned(),
            measured: ports.iter().any(|p| p.total(What::Sent).is_some()),
            transmitted: sum(Unit::Bytes, What::Sent),
            received: sum(Unit::Bytes, What::Received),
            paused: scene.share(ports.iter().copied(), What::Paused, Over::Most),
            pausing: scene.share(ports.iter().copied(), What::Pausing, Over::Most),
            cnp_sent: sum(Unit::Count, What::CnpSent),
            link_errors: sum(Unit::Count, What::LinkErrors),
        }
    };
    by.into_iter().map(host).collect()
}

/// The port that pauses others far more than the rest of the job's do, that takes errors or that is sent too much at
/// once; else the host that sends far less.
fn straggler(scene: &Scene<'_>) -> Option<Straggler> {
    let of = |port: &Port, by: StandsOut, text: String| {
        let (device, rail) = (Some(port.device.clone()), Some(port.rail.clone()));
        Some(Straggler { host: port.host.clone(), device, rail, by, text })
    };
    let pausing = |p: &Port| p.total(What::Pausing).map(|s| s / scene.source.seconds());
    let most = scene.ports.iter().filter_map(|p| Some((p, pausing(p)?))).max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((port, share)) = most.filter(|(_, share)| *share > PAUSING) {
        let rest: Vec<f64> = scene.ports.iter().filter(|p| p.name() != port.name()).filter_map(pausing).collect();
        if median(&rest).is_none_or(|usual| share > 3.0 * usual) {
            let text = format!(
                "kept its switch from sending for {:.1} % of the time: it did not take its data",
                share * 100.0
            );
            return of(port, StandsOut::Pausing, text);
        }
    }
    let failing = |p: &&Port| p.total(What::LinkErrors).is_some_and(|n| n >= 10.0);
    let worst = scene.ports.iter().filter(failing).max_by(|a, b| {
        let errors = |p: &Port| p.total(What::LinkErrors).unwrap_or(0.0);
        errors(a).total_cmp(&errors(b))
    });
    if let Some(port) = worst {
        let errors = port.total(What::LinkErrors).unwrap_or(0.0);
        let again: f64 = scene.ports.iter().filter_map(|p| p.total(What::Retransmits)).sum();
        let again = match again > 0.0 {
            true => format!(", and the job's ports were told of {again:.0} lost packets"),
            false => String::new(),
        };
        return of(port, StandsOut::LinkErrors, format!("took {errors:.0} link errors{again}"));
    }
    let told = |p: &Port| p.total(What::CnpSent).unwrap_or(0.0);
    let all: f64 = scene.ports.iter().map(told).sum();
    let most = scene.ports.iter().max_by(|a, b| told(a).total_cmp(&told(b)));
    if let Some(port) = most.filter(|p| scene.ports.len() > 2 && told(p) > 0.5 * all && told(p) > INCAST) {
        let text = format!(
            "sent {:.0} % of the job's congestion notifications: more was sent to it at once than it can take",
            told(port) / all * 100.0
        );
        return of(port, StandsOut::Incast, text);
    }
    let mut sent: BTreeMap<&str, f64> = BTreeMap::new();
    for port in &scene.ports {
        *sent.entry(&port.host).or_default() += port.total(What::Sent).unwrap_or(0.0);
    }
    let usual = median(&sent.values().copied().collect::<Vec<_>>())?;
    let (host, least) = sent.iter().min_by(|a, b| a.1.total_cmp(b.1))?;
    (sent.len() > 2 && usual > 0.0 && *least < BEHIND * usual).then(|| Straggler {
        host: (*host).to_owned(),
        device: None,
        rail: None,
        by: StandsOut::Behind,
        text: format!("sent {:.0} % of what the job's hosts usually did", least / usual * 100.0),
    })
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}
