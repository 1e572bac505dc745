//! Whether a link loses everything or only RDMA: TCP twins of the probes that were lost over it pass. A twin may take another
//! path than its probe, so it counts only by the chance that it crosses the link.

use crate::detectors::context::DetectorContext;
use crate::detectors::path_votes::share;
use crate::detectors::thresholds::thresholds;
use crate::model::routes::path::Flow;
use crate::model::routes::probes::{LinkProbes, ProbeWindow, Twins};
use std::collections::BTreeMap;
use std::sync::Arc;

thresholds! {
    /// expected losses of TCP probes, if the link lost everything, from which TCP probes that pass say that only RDMA is lost
    EXPECTED = "transport.tcp_expected", 5.0, "probes";
    /// share of these that may be lost all the same
    PASSES = "transport.tcp_lost", 0.2, "share of expected losses";
}

/// Time after which lost probes have TCP twins, nanoseconds: agents follow the plan for suspects within 15 s, and results are known
/// 15 s later.
const TWINS_COME_NS: i64 = 40_000_000_000;

/// TCP probes that passed although RDMA probes between the same ports were lost over a link.
pub(super) struct OnlyRdma {
    /// RDMA probes that were lost over the link.
    lost: u32,
    /// TCP probes that passed.
    passed: u32,
}

impl OnlyRdma {
    /// What it means and what to look at.
    pub fn words(&self) -> String {
        format!(
            " Only RDMA is lost: {} RDMA probes over it got no answer, while {} TCP probes between the same ports passed. \
             The cable carries other traffic, so look at what treats RDMA apart: its priority, PFC, buffers, filters, the NICs.",
            self.lost, self.passed
        )
    }
}

/// What TCP twins tell of a link.
struct Told {
    /// RDMA probes that were lost over it.
    lost: u32,
    /// TCP probes that would have been lost, if it lost everything.
    expected: f64,
    twins_lost: u32,
    passed: u32,
}

/// Whether the link behind an egress port loses RDMA only; `None` also where too few TCP probes tell.
pub(super) fn only_rdma(ctx: &DetectorContext<'_>, link: usize) -> Option<OnlyRdma> {
    let Told { lost, expected, twins_lost, passed } = told(ctx, link);
    let is_only = expected >= ctx.threshold(&EXPECTED) && f64::from(twins_lost) <= ctx.threshold(&PASSES) * expected;
    is_only.then_some(OnlyRdma { lost, passed })
}

/// Whether TCP probes may soon tell that a link, which loses probes since an instant (Unix nanoseconds), loses RDMA only.
pub(super) fn is_undecided(ctx: &DetectorContext<'_>, link: usize, since_ns: i64) -> bool {
    let probes = &ctx.fabric.routes.probes;
    let has_twins = probes.within(ctx.window.time_range_ns()).any(|window| !window.twins.is_empty());
    let waits = ctx.window.time_range_ns()[1] - since_ns < TWINS_COME_NS;
    if !has_twins || !waits {
        return false;
    }
    let Told { expected, twins_lost, .. } = told(ctx, link);
    expected < ctx.threshold(&EXPECTED) && twins_lost == 0
}

/// What TCP twins tell of the link behind an egress port: those since its first lost probe, because few are sent in one window.
fn told(ctx: &DetectorContext<'_>, link: usize) -> Told {
    let windows = ctx.fabric.routes.probes.within(ctx.window.time_range_ns());
    let lossy = |window: &&Arc<ProbeWindow>| window.links.get(&link).is_some_and(|probes| probes.lost > 0);
    let windows: Vec<&Arc<ProbeWindow>> = windows.skip_while(|window| !lossy(window)).collect();
    let mut all = LinkProbes::default();
    windows.iter().filter_map(|window| window.links.get(&link)).for_each(|probes| all.merge(probes));
    let chance = f64::from(all.lost) / f64::from((all.lost + all.answered).max(1));
    let mut told = Told { lost: all.lost, expected: 0.0, twins_lost: 0, passed: 0 };
    for (ends, lost_ns) in pairs(&windows, link) {
        let mut twins = Twins::default();
        windows.iter().filter_map(|window| window.twins.get(&ends)).for_each(|of| twins.merge(of));
        told.expected += f64::from(twins.answered + twins.lost) * chance * crosses(ctx, ends, link, lost_ns);
        told.twins_lost += twins.lost;
        told.passed += twins.answered;
    }
    told
}

/// Pairs of ports whose probes were lost over a link, with the instant of the newest loss, Unix nanoseconds.
fn pairs(windows: &[&Arc<ProbeWindow>], link: usize) -> BTreeMap<[usize; 2], i64> {
    let lost = windows.iter().flat_map(|window| &window.lost).filter(|probe| probe.links.contains(&link));
    lost.map(|probe| (probe.ends, probe.sent_ns)).collect()
}

/// Chance that a packet between two ports, whose source port is not known, or its answer crosses a link.
fn crosses(ctx: &DetectorContext<'_>, [from, to]: [usize; 2], link: usize, time_ns: i64) -> f64 {
    let there = Flow { from, to, source_port: None };
    let of = |flow: Flow| share(&ctx.fabric.paths_of(flow, time_ns), link);
    (of(there) + of(there.reverse())).min(1.0)
}
