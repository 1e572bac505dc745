//! Ranks of MPI: each host's agent tells how many operations on all ranks its own have entered, and in which one they wait. Put
//! together they say which rank the others wait for.
//!
//! A rank is behind if, at several looks, it had not entered what another one had entered a minute before and still waits in, and
//! if it is outside of MPI: one that is inside may itself wait for the network. A process in a long phase of computing is behind
//! too, and nothing worse.

use crate::model::{Communicator, FRESH_MS, MPI_COMM_WORLD, STRAGGLER, Straggler, StragglerReason};
use fabriclens_model::{Series, is_stale};
use std::collections::{BTreeMap, BTreeSet, HashMap};

const ENTERED: &str = "fabric_collective_mpi_entered_total";
pub(crate) const INSIDE: &str = "fabric_collective_mpi_inside_seconds";
const SHARE: &str = "fabric_collective_mpi_share_ratio";
/// Metrics of the series that [`world`] needs.
pub(crate) const METRICS: [&str; 4] = [ENTERED, INSIDE, SHARE, STRAGGLER];
/// How far back samples are read: a rank whose host is silent for longer is forgotten, ms.
pub(crate) const LOOK_BACK_MS: i64 = 1_800_000;
/// Age up to which a sample tells how a rank is now: three periods of agents, ms.
const NOW_MS: i64 = 90_000;
/// Interval of looks, ms.
const LOOK_MS: i64 = 30_000;
/// How long before a look other ranks must have been further, ms: two periods of agents, in which each host reports at least once.
const BEFORE_MS: i64 = 60_000;
/// Looks in a row after which a rank is behind, and most looks that are counted.
const CONFIRMED: u32 = 2;
const LOOKS: u32 = 12;
/// Share of time in MPI up to which a rank is outside of it.
const OUTSIDE: f64 = 0.1;

/// A rank, as the agent of its host reported it last.
struct Rank<'a> {
    host: &'a str,
    pid: &'a str,
    size: Option<u32>,
    entered: &'a Series,
    reported_ms: i64,
    /// Operation in which it waits, and since when, ms.
    waits: Option<(&'a str, i64)>,
    is_outside: bool,
}

/// Newest sample, unless the series has ended.
fn newest(series: &Series) -> Option<(i64, f64)> {
    let (at_ms, value) = (*series.times.last()?, *series.values.last()?);
    (!is_stale(value) && value.is_finite()).then_some((at_ms, value))
}

/// The newest sample, if it tells how a rank is now.
fn fresh(series: &Series, at_ms: i64) -> Option<(i64, f64)> {
    newest(series).filter(|(reported_ms, _)| *reported_ms >= at_ms - NOW_MS)
}

/// Value at an instant: the newest sample that is not later.
fn value_at(series: &Series, at_ms: i64) -> Option<f64> {
    let end = series.times.partition_point(|time| *time <= at_ms);
    series.values.get(end.checked_sub(1)?).copied().filter(|value| value.is_finite())
}

fn named<'a>(series: &'a [Series], name: &'a str) -> impl Iterator<Item = &'a Series> {
    series.iter().filter(move |one| one.labels.get("__name__") == name)
}

/// The ranks of a job's MPI program, and the time up to which each of their hosts has reported, Unix ms. `None` if the ranks cannot be
/// compared: two programs run, or their sizes differ.
pub(crate) fn world(series: &[Series], at_ms: i64) -> Option<(Communicator, i64)> {
    let mut of_rank = HashMap::new();
    for one in series {
        if let Some(now) = fresh(one, at_ms) {
            let key = ["__name__", "rank", "host"].map(|label| one.labels.get(label));
            of_rank.entry(key).or_insert((one, now));
        }
    }
    let (mut ranks, mut silent) = (BTreeMap::new(), Vec::new());
    for entered in named(series, ENTERED) {
        let (Ok(number), Some((reported_ms, _))) = (entered.labels.get("rank").parse::<u32>(), newest(entered)) else {
            continue;
        };
        let [host, pid, size, rank] = ["host", "pid", "size", "rank"].map(|name| entered.labels.get(name));
        if reported_ms < at_ms - NOW_MS {
            silent.extend((reported_ms < at_ms - FRESH_MS).then_some((number, host, pid)));
            continue;
        }
        let waits = of_rank.get(&[INSIDE, rank, host]);
        let waits =
            waits.map(|(one, (at_ms, spent))| (one.labels.get("operation"), at_ms - (spent * 1e3).min(1e15) as i64));
        let is_outside = of_rank.get(&[SHARE, rank, host]).is_some_and(|(_, (_, share))| *share <= OUTSIDE);
        let one = Rank { host, pid, size: size.parse().ok(), entered, reported_ms, waits, is_outside };
        // Two programs of the job have a rank of this number: they run at once, or one has just followed the other.
        if ranks.insert(number, one).is_some() {
            return None;
        }
    }
    let sizes: BTreeSet<Option<u32>> = ranks.values().map(|rank| rank.size).collect();
    let size = sizes.first().copied().flatten().filter(|_| sizes.len() == 1)?;
    let reported_ms = ranks.values().map(|rank| rank.reported_ms).min()?;
    let idle_since_ms = ranks.values().map(last_entered).max()?.min(reported_ms);
    let hosts: BTreeSet<&str> = ranks.values().map(|rank| rank.host).collect();
    silent.retain(|(number, host, _)| !ranks.contains_key(number) && !hosts.contains(host) && *number < size);
    let mut stragglers: Vec<Straggler> = named(series, STRAGGLER)
        .filter(|one| one.labels.get("communicator") == MPI_COMM_WORLD)
        .filter_map(|one| dead(one, at_ms))
        .filter(|one| !ranks.contains_key(&one.rank) && one.rank < size)
        .collect();
    silent.retain(|(number, ..)| stragglers.iter().all(|dead| dead.rank != *number));
    let unresponsive = silent.into_iter().map(|(rank, host, pid)| {
        let answers = CONFIRMED;
        straggler(rank, host, pid, StragglerReason::Unresponsive, "", answers)
    });
    stragglers.extend(unresponsive);
    // Ranks outside of MPI may just see that another one is gone.
    if stragglers.is_empty() {
        stragglers = behind(&ranks, reported_ms);
    }
    let mut states: BTreeMap<String, u32> = BTreeMap::new();
    for one in &stragglers {
        let is_behind = one.reason == StragglerReason::Behind;
        *states.entry(if is_behind { "running" } else { one.reason.label() }.to_owned()).or_default() += 1;
    }
    let waiting = ranks.values().filter(|rank| rank.waits.is_some()).count();
    *states.entry("running".to_owned()).or_default() += u32::try_from(waiting).unwrap_or(u32::MAX);
    let behind = stragglers.iter().filter(|one| one.reason == StragglerReason::Behind).count();
    let lags = lag(&ranks, &stragglers).into_iter().collect();
    let mut found = Communicator {
        id: MPI_COMM_WORLD.to_owned(),
        size: Some(size),
        ranks: states,
        behind: u32::try_from(behind).unwrap_or(u32::MAX),
        lags,
        idle_s: (reported_ms - idle_since_ms) as f64 / 1e3,
        idle_since_ms,
        stragglers,
    };
    found.bound_stragglers();
    Some((found, reported_ms))
}

/// When a rank entered an operation last: known exactly where it waits in one, otherwise by the sample that shows it first.
fn last_entered(rank: &Rank<'_>) -> i64 {
    if let Some((_, since_ms)) = rank.waits {
        return since_ms;
    }
    let (times, values) = (&rank.entered.times, &rank.entered.values);
    let grown = (1..values.len()).rev().find(|at| values[*at] != values[at - 1]).unwrap_or(0);
    times.get(grown).copied().unwrap_or(rank.reported_ms)
}

/// Ranks outside of MPI that have not entered what others wait in.
fn behind(ranks: &BTreeMap<u32, Rank<'_>>, reported_ms: i64) -> Vec<Straggler> {
    let waiting = || ranks.values().filter_map(|rank| Some((rank, rank.waits?.0)));
    let lacks = |rank: &Rank<'_>, at_ms: i64| {
        let others = waiting().filter_map(|(other, _)| value_at(other.entered, at_ms - BEFORE_MS));
        let most = others.fold(f64::NEG_INFINITY, f64::max);
        value_at(rank.entered, at_ms).is_some_and(|own| own < most)
    };
    let Some((_, operation)) = waiting().min_by_key(|(rank, _)| rank.waits.map(|(_, since_ms)| since_ms)) else {
        return Vec::new();
    };
    let of = |(number, rank): (&u32, &Rank<'_>)| {
        let looks = (0..LOOKS).take_while(|back| lacks(rank, reported_ms - i64::from(*back) * LOOK_MS)).count();
        let looks = u32::try_from(looks).unwrap_or(LOOKS);
        let is_behind = rank.waits.is_none() && rank.is_outside && looks >= CONFIRMED;
        is_behind.then(|| straggler(*number, rank.host, rank.pid, StragglerReason::Behind, operation, looks - 1))
    };
    ranks.iter().filter_map(of).collect()
}

/// The operation in which ranks are behind, and how many operations the farthest of them has not entered that another one has.
fn lag(ranks: &BTreeMap<u32, Rank<'_>>, stragglers: &[Straggler]) -> Option<(String, u64)> {
    let entered = |rank: &Rank<'_>| newest(rank.entered).map(|(_, value)| value);
    let behind = || stragglers.iter().filter(|one| one.reason == StragglerReason::Behind);
    let fewest = behind().filter_map(|one| entered(ranks.get(&one.rank)?)).min_by(f64::total_cmp)?;
    let most = ranks.values().filter_map(entered).max_by(f64::total_cmp)?;
    let lag = (most - fewest) as u64;
    (lag > 0).then_some((behind().next()?.operation.clone(), lag))
}

/// A rank that ended without `MPI_Finalize`, as its agent tells.
fn dead(series: &Series, at_ms: i64) -> Option<Straggler> {
    fresh(series, at_ms)?;
    let [rank, host, pid] = ["rank", "host", "pid"].map(|name| series.labels.get(name));
    let reason = StragglerReason::by_label(series.labels.get("reason"))?;
    let answers = series.values.iter().rev().take_while(|value| value.is_finite()).count();
    Some(straggler(rank.parse().ok()?, host, pid, reason, "", u32::try_from(answers).unwrap_or(u32::MAX)))
}

fn straggler(rank: u32, host: &str, pid: &str, reason: StragglerReason, operation: &str, answers: u32) -> Straggler {
    let (rank_host, pid, operation) = (host.to_owned(), pid.to_owned(), operation.to_owned());
    Straggler { rank, rank_host, host: Some(host.to_owned()), pid, gpu: String::new(), reason, operation, answers }
}

#[cfg(test)]
#[path = "mpi_tests.rs"]
mod tests;
