//! Whether a link loses everything or only RDMA: TCP twins of the probes that were lost over it pass. A twin may take another
//! path than its probe, so it counts only by the chance that it crosses the link.

use crate::detectors::context::DetectorContext;
use crate::detectors::path_votes::share;
use crate::detectors::thresholds::thresholds;
use crate::model::routes::path::Flow;
use crate::model::routes::probes::ProbeWindow;
use std::collections::HashSet;

thresholds! {
    /// expected losses of TCP probes, if the link lost everything, from which TCP probes that pass say that only RDMA is lost
    EXPECTED = "transport.tcp_expected", 5.0, "probes";
    /// share of these that may be lost all the same
    PASSES = "transport.tcp_lost", 0.2, "share of expected losses";
}

/// TCP probes that passed although RDMA probes between the same ports were lost over a link in the same windows.
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

/// Whether TCP probes accompany those over a link, so few yet that they do not tell whether it loses RDMA only.
pub(super) fn is_undecided(ctx: &DetectorContext<'_>, link: usize) -> bool {
    let Told { expected, twins_lost, .. } = told(ctx, link);
    expected > 0.0 && expected < ctx.threshold(&EXPECTED) && twins_lost == 0
}

fn told(ctx: &DetectorContext<'_>, link: usize) -> Told {
    let windows = ctx.fabric.routes.probes.within(ctx.window.time_range_ns());
    let mut told = Told { lost: 0, expected: 0.0, twins_lost: 0, passed: 0 };
    for window in windows {
        let Some(of_link) = window.links.get(&link).filter(|probes| probes.lost > 0) else { continue };
        let chance = f64::from(of_link.lost) / f64::from(of_link.lost + of_link.answered);
        told.lost += of_link.lost;
        for ends in pairs(window, link) {
            let Some(twins) = window.twins.get(&ends) else { continue };
            let all = f64::from(twins.answered + twins.lost);
            told.expected += all * chance * crosses(ctx, ends, link, window.begin_ns);
            told.twins_lost += twins.lost;
            told.passed += twins.answered;
        }
    }
    told
}

/// Pairs of ports whose probes were lost over a link.
fn pairs(window: &ProbeWindow, link: usize) -> HashSet<[usize; 2]> {
    window.lost.iter().filter(|probe| probe.links.contains(&link)).map(|probe| probe.ends).collect()
}

/// Chance that a packet between two ports, whose source port is not known, or its answer crosses a link.
fn crosses(ctx: &DetectorContext<'_>, [from, to]: [usize; 2], link: usize, time_ns: i64) -> f64 {
    let there = Flow { from, to, source_port: None };
    let of = |flow: Flow| share(&ctx.fabric.paths_of(flow, time_ns), link);
    (of(there) + of(there.reverse())).min(1.0)
}
