//! Jobs whose ranks wait in a collective for a rank that is dead, stopped or gone, by what their communication library tells.
//! Counters may be silent: nobody sends any more. A job that does not communicate for a while is not stuck: it evaluates, or
//! loads a checkpoint. It takes a rank that cannot go on, and others that run and wait for it.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::in_brackets;
use crate::detectors::port_trouble::{PortTrouble, port_trouble};
use crate::detectors::thresholds::{Threshold, thresholds};
use crate::model::finding::{Evidence, Finding};
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use fabriclens_collectives::{Communicator, JobCollectives, Straggler, StragglerReason};
use std::cmp::Reverse;
use std::collections::BTreeSet;

pub(super) const DETECTOR: Detector = Detector {
    name: "stuck_collective",
    warm_up_s: 5.0,
    baseline_s: 0.0,
    looks_back: true,
    per_fault_domain: false,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// answers in a row that name the rank for the same reason: a job that is being ended gives no second one
    ANSWERS = "stuck_collective.answers", 2.0, "answers";
    /// time in which no rank of a communicator launched an operation, if one is dead or failed; NCCL takes a process for dead after a minute
    DEAD = "stuck_collective.dead", 60.0, "seconds";
    /// the same if one aborted the communicator, as programs do that end or restart: schedulers give them 30 s, elastic restarts take a minute or two
    ABORTED = "stuck_collective.aborted", 180.0, "seconds";
    /// the same for all communicators of the job, if a rank does not answer or no longer has the communicator: its host may be busy, or a debugger stopped it
    SILENT = "stuck_collective.silent", 300.0, "seconds";
    /// the same if ranks are only behind, which one that writes a checkpoint is too: PyTorch gives up after 600 s
    BEHIND = "stuck_collective.behind", 900.0, "seconds";
}

/// Ranks that an explanation names.
const NAMED: usize = 4;
/// Time before the last operation in which counters are looked at, nanoseconds: what stopped the rank came before others noticed.
const BEFORE_NS: i64 = 60_000_000_000;

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let of = |(at, job): (usize, &crate::model::fabric::Job)| judge(ctx, at, ctx.fabric.collectives.get(&job.id)?);
    ctx.fabric.jobs.iter().enumerate().filter_map(of).collect()
}

/// A communicator in which ranks wait.
struct Stuck<'a> {
    communicator: &'a Communicator,
    reason: StragglerReason,
    /// Ranks that are named for this reason.
    ranks: Vec<&'a Straggler>,
    /// All ranks in that state.
    count: u32,
    /// Ranks that run and wait for them.
    waiting: u32,
    idle_s: f64,
    least: &'static Threshold,
}

impl<'a> Stuck<'a> {
    /// `quiet_s`: time in which no rank of any of the job's communicators launched an operation.
    fn of(ctx: &DetectorContext<'_>, communicator: &'a Communicator, quiet_s: f64) -> Option<Self> {
        let sure = |rank: &&Straggler| f64::from(rank.answers) >= ctx.threshold(&ANSWERS);
        let reason = communicator.stragglers.iter().filter(sure).map(|rank| rank.reason).min()?;
        let ranks: Vec<&Straggler> =
            communicator.stragglers.iter().filter(sure).filter(|rank| rank.reason == reason).collect();
        let is_behind = reason == StragglerReason::Behind;
        let count = if is_behind { communicator.behind } else { communicator.in_state(reason.label()) };
        let count = count.max(u32::try_from(ranks.len()).unwrap_or(u32::MAX));
        let running = communicator.in_state("running");
        let waiting = running.saturating_sub(if is_behind { count } else { 0 });
        let (idle_s, least) = match reason {
            StragglerReason::Dead | StragglerReason::Failed => (communicator.idle_s, &DEAD),
            StragglerReason::Aborted => (communicator.idle_s, &ABORTED),
            StragglerReason::Unresponsive | StragglerReason::WithoutCommunicator => (quiet_s, &SILENT),
            StragglerReason::Behind => (quiet_s, &BEHIND),
        };
        let is_stuck = waiting > 0 && idle_s >= ctx.threshold(least);
        is_stuck.then_some(Self { communicator, reason, ranks, count, waiting, idle_s, least })
    }
}

fn judge(ctx: &DetectorContext<'_>, job: usize, collectives: &JobCollectives) -> Option<Finding> {
    let all = &collectives.communicators;
    let quiet_s = all.iter().map(|one| one.idle_s).fold(f64::INFINITY, f64::min);
    let stuck: Vec<Stuck<'_>> = all.iter().filter_map(|one| Stuck::of(ctx, one, quiet_s)).collect();
    let worst = stuck.iter().min_by_key(|one| (one.reason, Reverse(one.waiting), &one.communicator.id))?;
    let alike = || stuck.iter().filter(|one| one.reason == worst.reason);
    let host = only_host(alike()).and_then(|host| ctx.fabric.topology.node(host));
    let root = host.map_or(LocationId::Job(job), LocationId::Host);
    let since_ns = worst.communicator.idle_since_ms.saturating_mul(1_000_000);
    let id = &ctx.fabric.jobs[job].id;
    let text = format!("{} {}", words(worst, id), counters(ctx, host, worst.count, since_ns));
    let told_ns = collectives.answered_ms.saturating_mul(1_000_000);
    let window_ns = [since_ns.min(told_ns), told_ns];
    let evidence = |metric: &str, value: f64, threshold: f64| Evidence {
        metric: metric.to_owned(),
        at: id.clone(),
        value,
        threshold,
        window_ns,
    };
    let [rests, series] = match (worst.communicator.is_mpi(), worst.reason) {
        (true, _) => ["fabric_collective_mpi_inside_seconds", "fabric_collective_mpi_entered_total"],
        (false, StragglerReason::Behind) => ["fabric_collective_idle_seconds", "fabric_collective_behind"],
        (false, _) => ["fabric_collective_idle_seconds", "fabric_collective_ranks"],
    };
    let idle = evidence(rests, worst.idle_s, ctx.threshold(worst.least));
    let found = Finding::new(IncidentKind::StuckCollective, root, certainty(worst.reason), idle, text)
        .with_evidence(evidence(series, worst.count.into(), 1.0))
        .with_victims(vec![job]);
    Some(found.began_at(Some(since_ns)))
}

/// Probability that the job will not go on by itself.
fn certainty(reason: StragglerReason) -> f64 {
    match reason {
        StragglerReason::Dead => 0.9,
        StragglerReason::Failed => 0.7,
        StragglerReason::Unresponsive => 0.65,
        StragglerReason::Aborted | StragglerReason::WithoutCommunicator => 0.6,
        // It pages nobody: a rank may write a checkpoint for that long.
        StragglerReason::Behind => 0.45,
    }
}

/// The host of all ranks that are waited for; `None` if there are several, or if one is unknown or not named.
fn only_host<'a>(mut stuck: impl Iterator<Item = &'a Stuck<'a>> + Clone) -> Option<&'a str> {
    if stuck.clone().any(|one| one.count as usize > one.ranks.len()) {
        return None;
    }
    let hosts: Option<BTreeSet<&str>> =
        stuck.by_ref().flat_map(|one| &one.ranks).map(|rank| rank.host.as_deref()).collect();
    let hosts = hosts?;
    hosts.first().copied().filter(|_| hosts.len() == 1)
}

/// Who waits for whom, and since when.
fn words(stuck: &Stuck<'_>, job: &str) -> String {
    let Stuck { communicator, reason, ranks, count, waiting, .. } = stuck;
    let is_one = *count == 1;
    let state = match (reason, is_one) {
        (StragglerReason::Dead, true) => "is dead".to_owned(),
        (StragglerReason::Dead, false) => "are dead".to_owned(),
        (StragglerReason::Unresponsive, true) if communicator.is_mpi() => {
            "is on a host whose agent is silent".to_owned()
        }
        (StragglerReason::Unresponsive, false) if communicator.is_mpi() => {
            "are on hosts whose agents are silent".to_owned()
        }
        (StragglerReason::Unresponsive, true) => "does not answer".to_owned(),
        (StragglerReason::Unresponsive, false) => "do not answer".to_owned(),
        (StragglerReason::WithoutCommunicator, true) => "no longer has the communicator".to_owned(),
        (StragglerReason::WithoutCommunicator, false) => "no longer have the communicator".to_owned(),
        (StragglerReason::Failed, true) => "reports an error".to_owned(),
        (StragglerReason::Failed, false) => "report errors".to_owned(),
        (StragglerReason::Aborted, true) => "has aborted the communicator".to_owned(),
        (StragglerReason::Aborted, false) => "have aborted the communicator".to_owned(),
        (StragglerReason::Behind, _) => {
            let operation = ranks.first().map_or("", |rank| &rank.operation);
            let has = if is_one { "has" } else { "have" };
            let did = if communicator.is_mpi() { "entered" } else { "launched" };
            let [are, they] = if is_one { ["is", "it"] } else { ["are", "they"] };
            let far = communicator.distance(operation).map(|far| format!("{are} {far} behind: {they} "));
            format!("{}{has} not {did} the {operation} that others {did}", far.unwrap_or_default())
        }
    };
    let who = match ranks.first() {
        Some(rank) if is_one => format!("Rank {} of job {job}{}", rank.rank, in_brackets(rank)),
        _ => {
            let named = ranks.iter().take(NAMED).map(|rank| format!("rank {}{}", rank.rank, in_brackets(rank)));
            format!("{count} ranks of job {job}, among them {},", named.collect::<Vec<_>>().join(", "))
        }
    };
    let (wait, them) = (if *waiting == 1 { "rank waits" } else { "ranks wait" }, if is_one { "it" } else { "them" });
    let minute = communicator.idle_since_ms.div_euclid(60_000);
    format!(
        "{who} {state}; {waiting} {wait} for {them} in communicator {} since {:02}:{:02} UTC.",
        communicator.id,
        minute.div_euclid(60).rem_euclid(24),
        minute.rem_euclid(60)
    )
}

/// What the counters of the host say to it.
fn counters(ctx: &DetectorContext<'_>, host: Option<usize>, count: u32, since_ns: i64) -> String {
    let whose = if count == 1 { "its host" } else { "their host" };
    let Some(host) = host else {
        return "The host of each is not known for certain, so no counters are compared.".to_owned();
    };
    match port_trouble(ctx.history, ctx.thresholds, ctx.fabric.ports.of_node(host), since_ns - BEFORE_NS) {
        PortTrouble::None => {
            format!("The counters of {whose}'s ports show nothing: look at the process, its GPU and {whose}.")
        }
        PortTrouble::Unknown => format!("There are no counters of {whose} since then."),
        PortTrouble::At(port, what) => {
            format!(
                "Port {} of {whose} {what} at that time: look at the network too.",
                ctx.fabric.ports.list[port].end.port
            )
        }
    }
}
