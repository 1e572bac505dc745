//! What hosts alone show of missing credits: a host that waits says only that somebody ahead is slow. The one host that
//! receives more than before, while others wait, is overloaded.

use crate::detectors::context::DetectorContext;
use crate::detectors::credit_bottleneck::{MORE, overloaded};
use crate::detectors::credit_tree::{Bottleneck, CreditTree, grown};
use crate::model::finding::Finding;
use crate::model::signal::Signal;

/// How much more one host's growth must be than that of any other host.
const ALONE: f64 = 2.0;

/// The overloaded host.
pub(super) fn judge(ctx: &DetectorContext<'_>, tree: &CreditTree) -> Option<Finding> {
    let node = |port: usize| ctx.fabric.ports.list[port].end.node;
    let receives = |host: usize| Some((host, grown(ctx, Signal::Rx, host, ctx.threshold(&MORE))?));
    let all: Vec<(usize, f64)> = ctx.host_ports().filter_map(receives).collect();
    let (host, most) = all.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let same_job = |other: usize| ctx.fabric.job_of(other).is_some_and(|job| ctx.fabric.job_of(host) == Some(job));
    let alone = all.iter().all(|(other, more)| node(*other) == node(host) || same_job(*other) || most >= ALONE * more);
    let (_, share) = tree.worst()?;
    let end = Bottleneck { node: node(host), waiters: tree.waits.keys().copied().collect(), share };
    alone.then(|| overloaded(ctx, host, &end))
}
