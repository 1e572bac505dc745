//! Who was held back and who held others back, over time and by port.

use super::Scene;
use super::ports::{Over, Port, What, figure, sum};
use crate::model::{CongestedPort, Congestion, Grade, Line, Method, Plot, Unit};
use fabriclens_promql::QueryError;
use std::collections::BTreeSet;

/// Ports that are listed.
const LISTED: usize = 20;
/// Shares of time below are not worth a line.
const WORTH: f64 = 0.001;

pub(super) fn congestion(scene: &Scene<'_>) -> Result<Congestion, QueryError> {
    let ports = &scene.ports;
    let shares = |title: &str, what, rollup: [&str; 2], direction| plot_shares(scene, title, what, rollup, direction);
    let pause = ["fabric_job_pause_share_ratio", "fabric_job_pause_share_max_ratio"];
    let wait = ["fabric_job_xmit_wait_share_ratio", "fabric_job_xmit_wait_share_max_ratio"];
    let mut suffered = vec![
        shares("Could not send: paused by the switch", What::Paused, pause, "direction=\"receive\"")?,
        shares("Could not send: no credits (XmitWait)", What::Wait, wait, "")?,
        counts(scene, "Told to slow down (CNPs handled)", What::CnpReceived, "receive")?,
    ];
    let mut caused = vec![
        shares("Kept the switch from sending: pause sent", What::Pausing, pause, "direction=\"transmit\"")?,
        counts(scene, "Told senders to slow down (CNPs sent)", What::CnpSent, "transmit")?,
    ];
    suffered.retain(|p| !p.lines.is_empty());
    caused.retain(|p| !p.lines.is_empty());
    Ok(Congestion {
        paused: scene.share(ports, What::Paused, Over::Mean),
        pausing: scene.share(ports, What::Pausing, Over::Mean),
        xmit_wait: figure(Unit::Ratio, Over::Mean, ports.iter().map(|p| (p.grade, wait_share(scene, p)))),
        cnp_received: sum(Unit::Count, ports, What::CnpReceived),
        cnp_sent: sum(Unit::Count, ports, What::CnpSent),
        ecn_marked: sum(Unit::Count, ports, What::Marked),
        suffered,
        caused,
        ports: worst(scene),
    })
}

pub(super) fn wait_share(scene: &Scene<'_>, port: &Port) -> Option<f64> {
    Some((port.total(What::Wait)? / (port.rate? * scene.source.seconds())).min(1.0))
}

/// Share of a step in which a port was held back so.
pub(super) fn held(scene: &Scene<'_>, port: &Port, what: What, n: usize) -> Option<f64> {
    let seconds = match what {
        What::Wait => port.step(what, n)? / port.rate?,
        _ => port.step(what, n)?,
    };
    Some((seconds / scene.steps[n]).clamp(0.0, 1.0))
}

/// Mean and worst over ports, over time.
fn plot_shares(scene: &Scene<'_>, title: &str, what: What, rollups: [&str; 2], more: &str) -> Result<Plot, QueryError> {
    let mut lines = Vec::new();
    let names = ["mean over ports", "worst port"];
    if scene.source.method == Method::Checkpoints {
        for (metric, name) in rollups.iter().zip(names) {
            let question = format!("max by (attribution) ({})", scene.rollup(metric, more));
            lines.extend(scene.rollup_lines(&question, |_| name.to_owned())?);
        }
    }
    if lines.is_empty() {
        for grade in grades(&scene.ports) {
            for (over, name) in [Over::Mean, Over::Most].into_iter().zip(names) {
                let at = |n: usize| {
                    let ports = scene.ports.iter().filter(|p| p.grade == grade);
                    figure(Unit::Ratio, over, ports.map(|p| (grade, held(scene, p, what, n)))).part(grade)
                };
                let points: Vec<Option<f64>> = (0..scene.steps.len()).map(at).collect();
                if points.iter().any(Option::is_some) {
                    lines.push(Line { name: name.to_owned(), grade, points });
                }
            }
        }
        return Ok(plot(scene, title, Unit::Ratio, scene.step_seconds(), lines));
    }
    Ok(plot(scene, title, Unit::Ratio, scene.source.step_ms as f64 / 1000.0, lines))
}

/// All ports together, a second, over time.
fn counts(scene: &Scene<'_>, title: &str, what: What, direction: &str) -> Result<Plot, QueryError> {
    if scene.source.method == Method::Checkpoints {
        let selector = scene.rollup("fabric_job_cnp_packets_total", &format!("direction=\"{direction}\""));
        let width = scene.source.step_ms.max(60_000);
        let question = format!("sum by (attribution) (rate({selector}[{width}ms]))");
        let lines = scene.rollup_lines(&question, |_| "all ports".to_owned())?;
        if !lines.is_empty() {
            return Ok(plot(scene, title, Unit::CountPerSecond, scene.source.step_ms as f64 / 1000.0, lines));
        }
    }
    let line = |grade: Grade| {
        let ports = || scene.ports.iter().filter(|p| p.grade == grade);
        let at = |n: usize| ports().filter_map(|p| p.step(what, n)).reduce(|a, b| a + b).map(|v| v / scene.steps[n]);
        Line { name: "all ports".to_owned(), grade, points: (0..scene.steps.len()).map(at).collect() }
    };
    let lines = grades(&scene.ports).into_iter().map(line).filter(|l| l.points.iter().any(Option::is_some));
    Ok(plot(scene, title, Unit::CountPerSecond, scene.step_seconds(), lines.collect()))
}

fn plot(scene: &Scene<'_>, title: &str, unit: Unit, step_seconds: f64, lines: Vec<Line>) -> Plot {
    Plot { title: title.to_owned(), unit, start_ns: scene.source.start_ms * 1_000_000, step_seconds, lines }
}

pub(super) fn grades(ports: &[Port]) -> BTreeSet<Grade> {
    ports.iter().map(|p| p.grade).collect()
}

/// Ports that were held back or held others back, the worst first.
fn worst(scene: &Scene<'_>) -> Vec<CongestedPort> {
    let share = |p: &Port, what| p.total(what).map(|s| (s / scene.source.seconds()).min(1.0));
    let mut ports: Vec<(f64, CongestedPort)> = Vec::new();
    for p in &scene.ports {
        let (paused, pausing) = (share(p, What::Paused), share(p, What::Pausing));
        let most = paused.unwrap_or(0.0).max(pausing.unwrap_or(0.0)).max(wait_share(scene, p).unwrap_or(0.0));
        if most >= WORTH {
            let (host, device, cnp_sent) = (p.host.clone(), p.device.clone(), p.total(What::CnpSent));
            // Who holds others back comes before those who are held back as much.
            let rank = most + pausing.unwrap_or(0.0);
            ports.push((rank, CongestedPort { host, device, paused, pausing, cnp_sent, grade: p.grade }));
        }
    }
    ports.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| (&a.1.host, &a.1.device).cmp(&(&b.1.host, &b.1.device))));
    ports.into_iter().take(LISTED).map(|p| p.1).collect()
}
