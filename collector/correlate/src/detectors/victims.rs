//! Victims: jobs that lose throughput beyond their noise. A job that merely runs at the time is no victim, nor is one
//! without a host that the incident can reach.

use crate::detectors::context::{DetectorContext, JobSlowdown, SlowdownCache};
use crate::detectors::thresholds::{Thresholds, thresholds};
use crate::model::fabric::Fabric;
use crate::model::finding::Finding;
use crate::model::location::LocationId;
use crate::model::topology::Role;
use std::collections::{BTreeMap, BTreeSet};

thresholds! {
    /// what a job must have lost to be a victim
    LOSS = "victims.loss", 0.1, "share of usual bytes";
    /// noise up to which a job is steady: any loss counts
    STEADY = "victims.steady", 0.05, "share of usual bytes";
    /// how many times its noise the loss of another job must exceed
    CHANCES = "victims.chances", 2.0, "chances";
}

/// Frames after a job went on that say how fast it is.
const MOVES: usize = 4;

/// Leaves that an incident can reach.
pub struct Reach {
    /// `None`: all leaves.
    leaves: Option<BTreeSet<usize>>,
}

impl Reach {
    /// Leaves of a finding's location, of its culprits and of the ports that it holds back.
    pub fn of(fabric: &Fabric, found: &Finding, held: &[usize]) -> Self {
        if found.root == LocationId::Fabric {
            return Self { leaves: None };
        }
        let jobs = found.culprits.iter().flat_map(|job| fabric.jobs[*job].ports.iter().copied());
        let place = found.ports(fabric).into_iter().chain(found.receivers.iter().copied());
        let leaf = |node: Option<usize>| node.filter(|node| fabric.topology.nodes[*node].role == Role::Leaf);
        let near = |port: usize| leaf(Some(fabric.ports.list[port].end.node)).or_else(|| leaf(fabric.peer_node(port)));
        let leaves: Option<BTreeSet<usize>> = place.chain(jobs).chain(held.iter().copied()).map(near).collect();
        Self { leaves: leaves.filter(|leaves| !leaves.is_empty()) }
    }

    /// Whether a job has a host at these leaves, or a host whose leaf is unknown.
    fn has(&self, fabric: &Fabric, job: usize) -> bool {
        let here =
            |leaves: &BTreeSet<usize>, port: usize| fabric.peer_node(port).is_none_or(|leaf| leaves.contains(&leaf));
        self.leaves.as_ref().is_none_or(|leaves| fabric.jobs[job].ports.iter().any(|port| here(leaves, *port)))
    }
}

/// Jobs within reach that lose throughput, without the culprits. `before` has the throughput, relative to the baseline,
/// of jobs that were low already before; they must lose more than that.
pub fn victims(
    ctx: &DetectorContext<'_>,
    reach: &Reach,
    culprits: &[usize],
    before: &BTreeMap<usize, f64>,
) -> Vec<usize> {
    let lost = |job: &usize| {
        let part = before.get(job).copied().unwrap_or(1.0);
        // A job that hardly moved anything had nothing to lose until it went on.
        let slowdown = if part <= ctx.threshold(&LOSS) { since_it_moves(ctx, *job) } else { ctx.slowdown(*job) };
        let part = if part <= ctx.threshold(&LOSS) { 1.0 } else { part };
        let slowdown = slowdown.map(|f| JobSlowdown { ratio: f.ratio / part, noise: f.noise / part, ..f });
        !culprits.contains(job) && slowdown.is_some_and(|slowdown| suffers(ctx.thresholds, slowdown))
    };
    ctx.jobs().filter(lost).filter(|job| reach.has(ctx.fabric, *job)).collect()
}

/// Slowdown of a job in the frames of the window after the first in which it moves more than a share that it may lose; `None` if
/// those are too few to tell.
fn since_it_moves(ctx: &DetectorContext<'_>, job: usize) -> Option<JobSlowdown> {
    let least = ctx.threshold(&LOSS) * ctx.baseline.job(ctx.fabric, job)?.mean();
    let first = ctx.window.job_frames(ctx.fabric, job).find(|(_, load)| *load > least)?.0.time_ns;
    let after = ctx.window.frames().iter().filter(|frame| frame.time_ns > first).count();
    let window = (after >= MOVES).then(|| ctx.window.last(after))?;
    ctx.with_window(&window, &SlowdownCache::new()).slowdown(job)
}

/// Throughput, relative to the baseline, of jobs that already lose: they send less, and jobs that
/// rest between their exchanges also send slower.
pub fn low(ctx: &DetectorContext<'_>) -> BTreeMap<usize, f64> {
    let loss = ctx.threshold(&LOSS);
    let slowed = |slowdown: &JobSlowdown| slowdown.slowed_more_than(loss) || !slowdown.rests;
    let low = ctx.slowdowns().filter(|(_, slowdown)| suffers(ctx.thresholds, *slowdown) && slowed(slowdown));
    low.map(|(job, slowdown)| (job, slowdown.ratio)).collect()
}

fn suffers(limits: &Thresholds, slowdown: JobSlowdown) -> bool {
    let least = 1.0 - limits.get(&LOSS);
    let doubt = if slowdown.noise > limits.get(&STEADY) { limits.get(&CHANCES) * slowdown.noise } else { 0.0 };
    // When a job sends is up to the application, how fast is up to the network.
    let slower = |(ratio, doubt): (f64, f64)| ratio + limits.get(&CHANCES) * doubt < least;
    slowdown.ratio + doubt < least || slowdown.ratio < least && slowdown.sending.is_some_and(slower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_must_exceed_noise() {
        let slowdown =
            |ratio, noise| JobSlowdown { ratio, noise, peak: 1.0, highest: 1.0, sending: None, rests: false };
        let mut limits = Thresholds::default();
        assert!(suffers(&limits, slowdown(0.88, 0.04)), "a steady job");
        assert!(!suffers(&limits, slowdown(0.92, 0.04)), "it lost less than a tenth");
        assert!(!suffers(&limits, slowdown(0.78, 0.09)), "its traffic differs as much by chance");
        assert!(suffers(&limits, slowdown(0.6, 0.09)));
        let reads = |ratio, sending| JobSlowdown { sending: Some(sending), ..slowdown(ratio, 0.15) };
        assert!(suffers(&limits, reads(0.7, (0.64, 0.07))), "it reads at random, but more slowly");
        assert!(!suffers(&limits, reads(0.7, (0.8, 0.07))), "it reads less often");
        assert!(!suffers(&limits, reads(0.95, (0.64, 0.07))), "it reads more slowly, but more often");
        limits.set("victims.loss", 0.2).unwrap();
        assert!(!suffers(&limits, slowdown(0.88, 0.04)), "it is the user's number");
    }
}
