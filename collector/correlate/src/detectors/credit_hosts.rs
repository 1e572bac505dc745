//! What hosts alone show of missing credits: a host that waits says only that somebody ahead is slow. The one host that
//! receives more than before, while its senders wait, is overloaded.

use crate::detectors::context::DetectorContext;
use crate::detectors::credit_bottleneck::{MORE, overloaded};
use crate::detectors::credit_receiver;
use crate::detectors::credit_tree::{Bottleneck, CreditTree, grown};
use crate::model::finding::Finding;
use crate::model::location::LocationId;
use crate::model::signal::Signal;

/// How much more one host's growth must be than that of any other host.
const ALONE: f64 = 2.0;

/// The overloaded host, or else a host that drains slowly.
pub(super) fn judge(ctx: &DetectorContext<'_>, tree: &CreditTree) -> Option<Finding> {
    overload(ctx, tree).or_else(|| credit_receiver::judge(ctx, tree))
}

fn overload(ctx: &DetectorContext<'_>, tree: &CreditTree) -> Option<Finding> {
    let node = |port: usize| ctx.fabric.ports.list[port].end.node;
    let receives = |host: usize| Some((host, grown(ctx, Signal::Rx, host, ctx.threshold(&MORE))?));
    let all: Vec<(usize, f64)> = ctx.host_ports().filter_map(receives).collect();
    let (host, most) = all.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let job = ctx.fabric.job_of(host);
    let same_job = |other: usize| job.is_some() && ctx.fabric.job_of(other) == job;
    let alone = all.iter().all(|(other, more)| node(*other) == node(host) || same_job(*other) || most >= ALONE * more);
    // The senders of an overloaded host wait for it. Those of a job are the job's other hosts.
    let waits = tree.waits.keys().any(|port| node(*port) != node(host) && (job.is_none() || same_job(*port)));
    let (_, share) = tree.worst().filter(|_| alone && waits)?;
    let end = Bottleneck { node: node(host), waiters: tree.waits.keys().copied().collect(), share };
    let found = overloaded(ctx, host, &end)?;
    // A job of which all hosts receive more runs faster than before: it overloads none of them, unless it is loud.
    let only = |(other, more): &(usize, f64)| node(*other) == node(host) || !same_job(*other) || most >= ALONE * more;
    (matches!(found.root, LocationId::Job(_)) || all.iter().all(only)).then_some(found)
}
