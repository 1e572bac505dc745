//! Falls of a link between switches: lost probes over it that are close together.

use crate::model::routes::probes::{Probe, ProbeWindow};
use std::sync::Arc;

/// Lost probes this close together are of one fall: switches elsewhere take seconds to learn of it, nanoseconds.
const ONE_FALL_NS: i64 = 5_000_000_000;

/// Lost probes over a link close together.
pub(super) struct Fall {
    /// First and last instant, Unix nanoseconds.
    pub span_ns: [i64; 2],
    /// Longest sequence of lost probes without an answered one between.
    in_a_row: usize,
}

impl Fall {
    /// Whether an instant, Unix nanoseconds, belongs to it.
    pub fn is_near(&self, at_ns: i64) -> bool {
        (self.span_ns[0] - ONE_FALL_NS..=self.span_ns[1] + ONE_FALL_NS).contains(&at_ns)
    }
}

/// What lost probes over a link tell of its falls.
pub(super) struct Falls {
    pub list: Vec<Fall>,
    /// Its newest probes that were lost, with none answered since.
    pub unanswered: usize,
    /// Its lost probes in sequences that are falls, and all of them.
    pub in_a_row: [usize; 2],
}

impl Falls {
    /// Falls of a link, given by the egress ports that are asked: one direction, or both. A sequence of `least` lost probes is a fall;
    /// from `sure` such falls on, shorter ones at other times count too.
    pub fn of(link: &[usize], windows: &[&Arc<ProbeWindow>], lost: &[&Probe], [least, sure]: [f64; 2]) -> Self {
        let (runs, is_lost) = sequences(link, windows, lost);
        let unanswered = runs.last().filter(|_| is_lost).map_or(0, |run| run.in_a_row);
        let all: usize = runs.iter().map(|run| run.in_a_row).sum();
        let in_rows: usize = runs.iter().map(|run| run.in_a_row).filter(|lost| *lost as f64 >= least).sum();
        let mut list: Vec<Fall> = Vec::new();
        for run in runs {
            match list.last_mut().filter(|last| run.span_ns[0] - last.span_ns[1] < ONE_FALL_NS) {
                Some(last) => {
                    (last.span_ns[1], last.in_a_row) = (run.span_ns[1], last.in_a_row.max(run.in_a_row));
                }
                None => list.push(run),
            }
        }
        let whole = |fall: &Fall| fall.in_a_row as f64 >= least;
        if (list.iter().filter(|fall| whole(fall)).count() as f64) < sure {
            list.retain(whole);
        }
        Self { list, unanswered, in_a_row: [in_rows, all] }
    }
}

/// Sequences of lost probes over a link without an answered one between, and whether its newest probe was lost.
fn sequences(link: &[usize], windows: &[&Arc<ProbeWindow>], lost: &[&Probe]) -> (Vec<Fall>, bool) {
    let of_link = lost.iter().filter(|probe| crosses(probe, link)).map(|probe| (probe.sent_ns, true));
    let mut all: Vec<(i64, bool)> = of_link.chain(answered(windows, link).map(|ns| (ns, false))).collect();
    // Windows without a loss have answers too, which end a fall.
    let calm = windows.iter().filter(|window| {
        let mut of = link.iter().filter_map(|egress| window.links.get(egress)).peekable();
        of.peek().is_some() && of.all(|probes| probes.lost == 0)
    });
    all.extend(calm.map(|window| (window.begin_ns, false)));
    all.sort_unstable();
    let mut runs: Vec<Fall> = Vec::new();
    let mut before = false;
    for (at_ns, is_lost) in all {
        match runs.last_mut().filter(|_| before) {
            Some(run) if is_lost => {
                (run.span_ns[1], run.in_a_row) = (at_ns, run.in_a_row + 1);
            }
            _ if is_lost => runs.push(Fall { span_ns: [at_ns; 2], in_a_row: 1 }),
            _ => {}
        }
        before = is_lost;
    }
    (runs, before)
}

/// Whether a probe crosses a link, given by egress ports.
pub(super) fn crosses(probe: &Probe, link: &[usize]) -> bool {
    link.iter().any(|egress| probe.links.contains(egress))
}

/// Instants of answered probes over a link, in windows with losses.
pub(super) fn answered<'a>(windows: &'a [&Arc<ProbeWindow>], link: &'a [usize]) -> impl Iterator<Item = i64> + 'a {
    let of = move |window: &'a Arc<ProbeWindow>| link.iter().filter_map(|egress| window.answered_ns.get(egress));
    windows.iter().flat_map(move |window| of(window).flatten().copied())
}

/// Probes over a link per second.
pub(super) fn per_second(windows: &[&Arc<ProbeWindow>], link: &[usize]) -> f64 {
    let of_link = windows.iter().flat_map(|window| link.iter().filter_map(|egress| window.links.get(egress)));
    let probes: u32 = of_link.map(|probes| probes.answered + probes.lost).sum();
    let seconds: f64 = windows.iter().map(|window| window.seconds()).sum();
    f64::from(probes) / seconds.max(1.0)
}
