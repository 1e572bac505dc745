//! Hosts that are short of CPU, by probes: they answer late, while the network and the other hosts do not. It accuses no link, and is an
//! observation only: RDMA itself needs no CPU of the responder.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::percent;
use crate::detectors::hold_signal::hold_signal;
use crate::detectors::thresholds::thresholds;
use crate::model::finding::{Evidence, Finding};
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::routes::probes::{LATE_TURN_NS, ProbeWindow, Turns};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const DETECTOR: Detector = Detector {
    name: "busy_host",
    warm_up_s: 30.0,
    baseline_s: 0.0,
    looks_back: true,
    per_fault_domain: false,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// answers of a host to probes that take 3 ms or longer, from which its CPUs are busy
    LATE = "busy_host.late", 0.5, "share of answers";
    /// answers of a host that this needs
    ANSWERS = "busy_host.answers", 10.0, "probes";
    /// hosts that answer late at the same time, above which the reason is not with single hosts
    COMMON = "busy_host.common", 0.25, "share of hosts";
}

/// Newest windows that are judged, 15 s of probes: in a longer span, those from before it began are most.
const NEWEST: usize = 3;
/// Confidence: that the host answers late is certain, that it costs a job anything is not.
const SURE: f64 = 0.4;

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let windows = ctx.fabric.routes.probes.newest_within(ctx.window.time_range_ns(), NEWEST);
    let mut hosts: BTreeMap<usize, Turns> = BTreeMap::new();
    windows.iter().for_each(|window| by_host(ctx, window, &mut hosts));
    hosts.retain(|_, turns| f64::from(turns.answered) >= ctx.threshold(&ANSWERS));
    let all = hosts.len() as f64;
    hosts.retain(|_, turns| is_late(ctx, turns));
    if hosts.len() as f64 > ctx.threshold(&COMMON) * all {
        return Vec::new();
    }
    hosts.retain(|host, _| !is_held(ctx, *host));
    hosts.into_iter().map(|(host, turns)| finding(ctx, host, &turns, &windows)).collect()
}

/// Adds the answers of a window to those of each host node.
fn by_host(ctx: &DetectorContext<'_>, window: &ProbeWindow, hosts: &mut BTreeMap<usize, Turns>) {
    for (port, turns) in &window.turns {
        hosts.entry(ctx.fabric.ports.list[*port].end.node).or_default().merge(turns);
    }
}

fn is_late(ctx: &DetectorContext<'_>, turns: &Turns) -> bool {
    turns.answered > 0 && f64::from(turns.late) >= ctx.threshold(&LATE) * f64::from(turns.answered)
}

/// Whether a port of the host is kept from sending: answers then wait in its NIC for the network.
fn is_held(ctx: &DetectorContext<'_>, host: usize) -> bool {
    ctx.fabric.ports.of_node(host).iter().any(|port| {
        let held = hold_signal(ctx.window, *port).and_then(|(signal, most)| Some((ctx.mean(signal, *port)?, most)));
        held.is_some_and(|(held, most)| held >= ctx.threshold(most))
    })
}

fn finding(ctx: &DetectorContext<'_>, host: usize, turns: &Turns, windows: &[&Arc<ProbeWindow>]) -> Finding {
    let whom = ctx.fabric.topology.nodes[host].name.clone();
    let was_late = |window: &&&Arc<ProbeWindow>| {
        let mut hosts = BTreeMap::new();
        by_host(ctx, window, &mut hosts);
        hosts.get(&host).is_some_and(|turns| is_late(ctx, turns))
    };
    // If the first window shows it, it may have begun before.
    let first = windows.iter().position(|window| was_late(&window)).filter(|at| *at > 0);
    let (share, mean_ns) = (f64::from(turns.late) / f64::from(turns.answered), turns.mean_ns());
    let text = format!(
        "{whom} answers probes late: {} of its answers took it {:.0} ms or longer ({:.1} ms on average), while other hosts answer in \
         time. A process that finds a free CPU needs no such time: its CPUs are busy. The network is not the reason.",
        percent(share),
        LATE_TURN_NS / 1e6,
        mean_ns / 1e6
    );
    let evidence = Evidence {
        metric: "probe_late_answers".to_owned(),
        at: whom,
        value: share,
        threshold: ctx.threshold(&LATE),
        window_ns: ctx.window.time_range_ns(),
    };
    let found = Finding::new(IncidentKind::BusyHost, LocationId::Host(host), SURE, evidence, text);
    found.began_at(first.map(|at| windows[at].begin_ns))
}
