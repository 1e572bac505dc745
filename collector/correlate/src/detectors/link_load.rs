//! What each job sends over a link, by the paths of its queue pairs. Empty where queue pairs or paths are not known.

use crate::detectors::context::DetectorContext;
use crate::detectors::path_votes::share;
use crate::model::routes::path::Flow;
use crate::model::signal::Signal;
use std::collections::BTreeMap;

/// Jobs that are named one by one.
const NAMED: usize = 4;

/// Jobs whose queue pairs cross the link behind an egress port, with the bytes per second that they send over it, most first.
fn jobs_over(ctx: &DetectorContext<'_>, egress: usize) -> Vec<(usize, f64)> {
    let of_job = |job: usize| ctx.fabric.jobs[job].ports.iter().filter_map(|from| sent_over(ctx, *from, egress)).sum();
    let mut all: Vec<(usize, f64)> = ctx.jobs().map(|job| (job, of_job(job))).filter(|(_, sent)| *sent > 0.0).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// Bytes per second from a host port over the link behind an egress port. No counter tells the bytes of a queue pair, so those of the
/// port are spread evenly over its queue pairs. `None` if what it sends is not known.
fn sent_over(ctx: &DetectorContext<'_>, from: usize, egress: usize) -> Option<f64> {
    let (sent, span_ns) = (ctx.mean(Signal::Tx, from)?, ctx.window.time_range_ns());
    let mut flows: BTreeMap<Flow, u32> = BTreeMap::new();
    for pair in ctx.fabric.routes.queue_pairs(from, span_ns).filter(|pair| pair.close_ns.is_none()) {
        *flows.entry(pair.flow).or_default() += 1;
    }
    let all: u32 = flows.values().sum();
    let over =
        |(flow, pairs): (&Flow, &u32)| f64::from(*pairs) * share(&ctx.fabric.paths_of(*flow, span_ns[1]), egress);
    Some(sent * flows.iter().map(over).sum::<f64>() / f64::from(all.max(1)))
}

/// A sentence on the load that each job brings to the link behind an egress port; empty where that is not known.
pub(super) fn by_job(ctx: &DetectorContext<'_>, egress: usize) -> String {
    let jobs = jobs_over(ctx, egress);
    let (named, others) = jobs.split_at(jobs.len().min(NAMED));
    let mut parts: Vec<String> =
        named.iter().map(|(job, sent)| format!("job {} about {}", ctx.fabric.jobs[*job].id, rate(*sent))).collect();
    if !others.is_empty() {
        let sent: f64 = others.iter().map(|(_, sent)| sent).sum();
        parts.push(format!("{} other jobs {}", others.len(), rate(sent)));
    }
    if parts.is_empty() {
        return String::new();
    }
    format!(" By the paths of its queue pairs, its load comes from {}.", parts.join(", "))
}

fn rate(bytes_per_s: f64) -> String {
    if bytes_per_s < 1e8 { format!("{:.1} MB/s", bytes_per_s / 1e6) } else { format!("{:.1} GB/s", bytes_per_s / 1e9) }
}
