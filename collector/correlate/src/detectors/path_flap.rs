//! Links between switches that fall, seen by probes: all probes over such a link are lost while it is down, and pass between
//! its falls. Links of hosts are seen by the hosts themselves (`link_flap`).

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::name;
use crate::detectors::tcp_twins::only_rdma;
use crate::detectors::thresholds::thresholds;
use crate::model::finding::{Evidence, Finding};
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::routes::probes::{Probe, ProbeWindow};
use crate::model::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) const DETECTOR: Detector = Detector {
    name: "path_flap",
    warm_up_s: 120.0,
    baseline_s: 0.0,
    looks_back: true,
    per_fault_domain: false,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// falls of a link between switches in the window, each seen by probes, to count as flapping
    FALLS = "path_flap.falls", 3.0, "times in two minutes";
    /// consecutive probes over a link that must be lost to be a fall: corruption hits single ones
    RUN = "path_flap.run", 2.0, "probes";
    /// such falls from which single lost probes at other times are falls too, which few probes met
    SURE = "path_flap.sure", 2.0, "times in two minutes";
    /// lost probes in a row, with none answered since, from which the link is down
    DOWN = "path_flap.down", 6.0, "probes";
    /// probing hosts that must have lost probes over it: one alone may be at fault itself
    HOSTS = "path_flap.hosts", 3.0, "hosts";
    /// share of all lost probes near its falls that crossed it
    COMMON = "path_flap.common", 0.7, "share of lost probes";
}

/// Lost probes this close together are of one fall: switches elsewhere take seconds to learn of it, nanoseconds.
const ONE_FALL_NS: i64 = 5_000_000_000;

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    if ctx.fabric.routes.is_empty() || ctx.switches_report(Signal::Up) {
        return Vec::new();
    }
    let windows: Vec<&Arc<ProbeWindow>> = ctx.fabric.routes.probes.within(ctx.window.time_range_ns()).collect();
    let mut lost: Vec<&Probe> = windows.iter().flat_map(|window| &window.lost).collect();
    let mut found = Vec::new();
    // The link that explains most lost probes first, then what is left.
    while lost.len() as f64 >= ctx.threshold(&RUN) {
        let mut of_link: BTreeMap<usize, usize> = BTreeMap::new();
        lost.iter().flat_map(|probe| probe.links.iter()).for_each(|link| *of_link.entry(*link).or_default() += 1);
        let lost_share = |link: usize, lost: usize| lost as f64 / (lost + answered(&windows, link).count()) as f64;
        let score = |(link, lost): (&usize, &usize)| (*lost, lost_share(*link, *lost));
        let most = of_link.iter().max_by(|a, b| {
            let (a, b) = (score(*a), score(*b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        let Some(link) = most.map(|(link, _)| *link) else { break };
        if ctx.fabric.is_between_switches(link) {
            found.extend(judge(ctx, link, &windows, &lost));
        }
        lost.retain(|probe| !probe.links.contains(&link));
    }
    found
}

/// Instants of answered probes over a link, in windows with losses.
fn answered<'a>(windows: &'a [&Arc<ProbeWindow>], link: usize) -> impl Iterator<Item = i64> + 'a {
    windows.iter().flat_map(move |window| window.answered_ns.get(&link).into_iter().flatten().copied())
}

/// Lost probes over a link close together: first and last instant, and how many.
struct Fall {
    span_ns: [i64; 2],
    lost: usize,
    /// Longest sequence of lost probes without an answered one between.
    in_a_row: usize,
}

/// Falls of a link, and whether its newest probe was lost.
fn falls(ctx: &DetectorContext<'_>, link: usize, windows: &[&Arc<ProbeWindow>], lost: &[&Probe]) -> (Vec<Fall>, bool) {
    let of_link = lost.iter().filter(|probe| probe.links.contains(&link)).map(|probe| (probe.sent_ns, true));
    let mut all: Vec<(i64, bool)> = of_link.chain(answered(windows, link).map(|ns| (ns, false))).collect();
    // Windows without a loss have answers too, which end a fall.
    let calm = windows.iter().filter(|w| w.links.get(&link).is_some_and(|probes| probes.lost == 0));
    all.extend(calm.map(|window| (window.begin_ns, false)));
    all.sort_unstable();
    let mut runs: Vec<Fall> = Vec::new();
    let mut before = false;
    for (at_ns, is_lost) in &all {
        match runs.last_mut().filter(|_| before) {
            Some(run) if *is_lost => {
                (run.span_ns[1], run.lost, run.in_a_row) = (*at_ns, run.lost + 1, run.in_a_row + 1);
            }
            _ if *is_lost => runs.push(Fall { span_ns: [*at_ns; 2], lost: 1, in_a_row: 1 }),
            _ => {}
        }
        before = *is_lost;
    }
    let mut falls: Vec<Fall> = Vec::new();
    for run in runs {
        match falls.last_mut().filter(|last| run.span_ns[0] - last.span_ns[1] < ONE_FALL_NS) {
            Some(last) => {
                (last.span_ns[1], last.lost, last.in_a_row) =
                    (run.span_ns[1], last.lost + run.lost, last.in_a_row.max(run.in_a_row));
            }
            None => falls.push(run),
        }
    }
    let whole = |fall: &Fall| fall.in_a_row as f64 >= ctx.threshold(&RUN);
    if (falls.iter().filter(|fall| whole(fall)).count() as f64) < ctx.threshold(&SURE) {
        falls.retain(whole);
    }
    (falls, before)
}

fn judge(ctx: &DetectorContext<'_>, link: usize, windows: &[&Arc<ProbeWindow>], lost: &[&Probe]) -> Option<Finding> {
    let of_link = || lost.iter().filter(|probe| probe.links.contains(&link));
    let hosts: BTreeSet<usize> = of_link().map(|probe| ctx.fabric.ports.list[probe.ends[0]].end.node).collect();
    let (falls, is_down) = falls(ctx, link, windows, lost);
    let last = falls.last()?;
    let near = |probe: &&&Probe| {
        falls
            .iter()
            .any(|fall| (fall.span_ns[0] - ONE_FALL_NS..=fall.span_ns[1] + ONE_FALL_NS).contains(&probe.sent_ns))
    };
    let all = lost.iter().filter(near).count();
    let common = of_link().filter(near).count() as f64 / all.max(1) as f64;
    if (hosts.len() as f64) < ctx.threshold(&HOSTS) || common < ctx.threshold(&COMMON) {
        return None;
    }
    let down = is_down && last.in_a_row as f64 >= ctx.threshold(&DOWN);
    let times = falls.len() as f64;
    if !down && times < ctx.threshold(&FALLS) {
        return None;
    }
    let evidence = Evidence {
        metric: "lost_probes".to_owned(),
        at: name(ctx, link),
        value: of_link().count() as f64,
        threshold: ctx.threshold(if down { &DOWN } else { &RUN }),
        window_ns: ctx.window.time_range_ns(),
    };
    let only_rdma = only_rdma(ctx, link);
    let (whom, n) = (name(ctx, link), hosts.len());
    let root = LocationId::Link(ctx.fabric.ports.list[link].link?);
    if let Some(only) = only_rdma {
        let text = format!("probes of {n} hosts over the link at {whom} were lost {times:.0} times.{}", only.words());
        let found = Finding::new(IncidentKind::TransportErrors, root, 0.6, evidence, text);
        return Some(found.began_at(Some(falls[0].span_ns[0])));
    }
    Some(if down {
        let text = format!("all probes of {n} hosts over the link at {whom} are lost; they passed before: it is down.");
        Finding::new(IncidentKind::LinkDown, root, 0.9, evidence, text).began_at(Some(last.span_ns[0]))
    } else {
        let text = format!(
            "{times:.0} times in two minutes all probes of several hosts ({n} in total) over the link at {whom} were lost, and \
             passed again: it flaps."
        );
        Finding::new(IncidentKind::LinkFlap, root, 0.9, evidence, text).began_at(Some(falls[0].span_ns[0]))
    })
}
