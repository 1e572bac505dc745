//! Links between switches that fall, seen by probes: all probes over such a link are lost while it is down, and pass between
//! its falls. Links of hosts are seen by the hosts themselves (`link_flap`).

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::name;
use crate::detectors::hosts_alone::judges;
use crate::detectors::probe_falls::{Falls, answered, crosses, per_second};
use crate::detectors::tcp_twins::{is_undecided, only_rdma};
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
    /// the same where probes are dense: a link is down for longer than that
    LASTS = "path_flap.lasts", 0.5, "seconds of probes";
    /// such falls from which single lost probes at other times are falls too, which few probes met
    SURE = "path_flap.sure", 2.0, "times in two minutes";
    /// lost probes in a row, with none answered since, from which the link is down
    DOWN = "path_flap.down", 6.0, "probes";
    /// probing hosts that must have lost probes over it: one alone may be at fault itself
    HOSTS = "path_flap.hosts", 3.0, "hosts";
    /// lost probes over it that must be in such a sequence; corruption loses single ones (`probe_loss`)
    IN_A_ROW = "path_flap.in_a_row", 0.3, "share of lost probes";
    /// share of all lost probes near its falls that crossed it
    COMMON = "path_flap.common", 0.7, "share of lost probes";
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    if !judges(ctx, Signal::Up, &[]) {
        return Vec::new();
    }
    let windows: Vec<&Arc<ProbeWindow>> = ctx.fabric.routes.probes.within(ctx.window.time_range_ns()).collect();
    let mut lost: Vec<&Probe> = windows.iter().flat_map(|window| &window.lost).collect();
    let mut found = Vec::new();
    // The link that explains most lost probes first, then what is left.
    while lost.len() as f64 >= ctx.threshold(&RUN) {
        let mut of_link: BTreeMap<[usize; 2], usize> = BTreeMap::new();
        lost.iter().flat_map(|probe| links(ctx, probe)).for_each(|link| *of_link.entry(link).or_default() += 1);
        let lost_share = |link: &[usize], lost: usize| lost as f64 / (lost + answered(&windows, link).count()) as f64;
        let score = |(link, lost): (&[usize; 2], &usize)| (*lost, lost_share(link, *lost));
        let most = of_link.iter().max_by(|a, b| {
            let (a, b) = (score(*a), score(*b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        let Some((link, _)) = most else { break };
        if ctx.fabric.is_between_switches(link[0]) {
            // One fiber of two may be broken.
            let directions = [&link[..], &link[..1], &link[1..]];
            found.extend(directions.into_iter().find_map(|link| judge(ctx, link, &windows, &lost)));
        }
        lost.retain(|probe| !crosses(probe, link));
    }
    found
}

/// Links that a probe crosses, each once, by the egress ports at both ends.
fn links(ctx: &DetectorContext<'_>, probe: &Probe) -> BTreeSet<[usize; 2]> {
    let ends = |egress: usize| {
        let peer = ctx.fabric.ports.list[egress].peer.unwrap_or(egress);
        [egress.min(peer), egress.max(peer)]
    };
    probe.links.iter().map(|egress| ends(*egress)).collect()
}

/// Lost probes in a row that are a fall of a link: those of a while, where more probes cross it than at the usual rate.
fn least(ctx: &DetectorContext<'_>, link: &[usize], windows: &[&Arc<ProbeWindow>]) -> f64 {
    ctx.threshold(&RUN).max(ctx.threshold(&LASTS) * per_second(windows, link))
}

/// Falls of a link, given by egress ports.
fn falls_of(ctx: &DetectorContext<'_>, link: &[usize], windows: &[&Arc<ProbeWindow>], lost: &[&Probe]) -> Falls {
    Falls::of(link, windows, lost, [least(ctx, link, windows), ctx.threshold(&SURE)])
}

/// Whether the losses of a link, given by its egress ports, are falls.
pub(super) fn is_falling(
    ctx: &DetectorContext<'_>,
    egress: &[usize],
    windows: &[&Arc<ProbeWindow>],
    lost: &[&Probe],
) -> bool {
    let each = egress.iter().map(|egress| falls_of(ctx, &[*egress], windows, lost).in_a_row);
    let [in_rows, all] = each.fold([0; 2], |sum, each| [sum[0] + each[0], sum[1] + each[1]]);
    in_rows as f64 >= ctx.threshold(&IN_A_ROW) * all as f64
}

fn judge(ctx: &DetectorContext<'_>, link: &[usize], windows: &[&Arc<ProbeWindow>], lost: &[&Probe]) -> Option<Finding> {
    let of_link = || lost.iter().filter(|probe| crosses(probe, link));
    let hosts: BTreeSet<usize> = of_link().map(|probe| ctx.fabric.ports.list[probe.ends[0]].end.node).collect();
    let Falls { list: falls, unanswered, in_a_row: [in_rows, lost_in_all] } = falls_of(ctx, link, windows, lost);
    let last = falls.last()?;
    let near = |probe: &&&Probe| falls.iter().any(|fall| fall.is_near(probe.sent_ns));
    let all = lost.iter().filter(near).count();
    let common = of_link().filter(near).count() as f64 / all.max(1) as f64;
    if (hosts.len() as f64) < ctx.threshold(&HOSTS)
        || common < ctx.threshold(&COMMON)
        || (in_rows as f64) < ctx.threshold(&IN_A_ROW) * lost_in_all as f64
    {
        return None;
    }
    let down = unanswered as f64 >= ctx.threshold(&DOWN).max(2.0 * least(ctx, link, windows));
    let times = falls.len() as f64;
    if !down && times < ctx.threshold(&FALLS) {
        return None;
    }
    // A link that is down loses TCP probes too, as the next of them tell.
    if link.iter().any(|egress| is_undecided(ctx, *egress, last.span_ns[0])) {
        return None;
    }
    let evidence = Evidence {
        metric: "lost_probes".to_owned(),
        at: name(ctx, link[0]),
        value: of_link().count() as f64,
        threshold: ctx.threshold(if down { &DOWN } else { &RUN }),
        window_ns: ctx.window.time_range_ns(),
    };
    let only_rdma = link.iter().find_map(|egress| only_rdma(ctx, *egress));
    let (whom, n) = (name(ctx, link[0]), hosts.len());
    let root = LocationId::Link(ctx.fabric.ports.list[link[0]].link?);
    if let Some(only) = only_rdma {
        let often = if times == 1.0 { String::new() } else { format!(" {times:.0} times") };
        let text = format!("all probes of {n} hosts over the link at {whom} were lost{often}.{}", only.words());
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
