//! Four ranks on two hosts, whose agents report every 30 s.

use super::*;
use crate::CollectivesReader;
use fabriclens_model::{Labels, Memory, stale};

const NOW: i64 = 100_000_000;

/// One rank: host, rank, samples of operations entered at 0, 30, 60 … s ago, time in an operation, share of time in MPI.
struct Reported<'a> {
    host: &'a str,
    rank: &'a str,
    entered: &'a [f64],
    inside_s: Option<f64>,
    share: f64,
}

fn series(name: &str, one: &Reported<'_>, more: &[(&str, &str)], values: &[f64]) -> Series {
    let own = [("__name__", name), ("host", one.host), ("job", "7"), ("rank", one.rank), ("scheduler", "slurm")];
    let ages = (0..values.len() as i64).rev();
    Series {
        labels: Labels::new(own.into_iter().chain(more.iter().copied())),
        times: ages.map(|age| NOW - 5_000 - age * LOOK_MS).collect(),
        values: values.iter().rev().copied().collect(),
    }
}

fn of(all: &[Reported<'_>]) -> Vec<Series> {
    let one = |one: &Reported<'_>| {
        let entered = series(ENTERED, one, &[("pid", "11"), ("size", "4")], one.entered);
        let share = series(SHARE, one, &[], &[one.share]);
        let inside =
            one.inside_s.map(|spent| series(INSIDE, one, &[("operation", "Allreduce"), ("size", "4")], &[spent]));
        [Some(entered), Some(share), inside].into_iter().flatten()
    };
    all.iter().flat_map(one).collect()
}

const STILL: [f64; 8] = [50.0; 8];
const LATE: [f64; 8] = [49.0; 8];

fn rank<'a>(host: &'a str, rank: &'a str, entered: &'a [f64], inside_s: Option<f64>) -> Reported<'a> {
    Reported { host, rank, entered, inside_s, share: if inside_s.is_some() { 1.0 } else { 0.0 } }
}

/// Ranks 0 to 2 wait since 200 s; rank 3 is as given.
fn three_wait(last: Reported<'_>) -> Vec<Series> {
    of(&[
        rank("a", "0", &STILL, Some(200.0)),
        rank("a", "1", &STILL, Some(200.0)),
        rank("b", "2", &STILL, Some(190.0)),
        last,
    ])
}

fn read(series: Vec<Series>) -> Option<Communicator> {
    let all = CollectivesReader { read: &Memory(series), at_ms: NOW }.jobs_with_stragglers().unwrap();
    all.into_iter().next().map(|mut job| job.communicators.remove(0))
}

#[test]
fn a_rank_outside_of_mpi_that_others_wait_for_is_behind() {
    let found = read(three_wait(rank("b", "3", &LATE, None))).unwrap();
    let [last] = &*found.stragglers else { panic!("{found:?}") };
    assert_eq!((last.rank, last.reason, &*last.operation), (3, StragglerReason::Behind, "Allreduce"));
    assert_eq!((last.host.as_deref(), &*last.pid, last.answers >= 2), (Some("b"), "11", true));
    assert_eq!((found.size, found.behind, found.in_state("running")), (Some(4), 1, 4));
    assert_eq!((found.idle_s, found.idle_since_ms), (190.0, NOW - 195_000));
    assert_eq!(found.distance("Allreduce").as_deref(), Some("1 operation"));
}

#[test]
fn a_rank_that_may_wait_itself_or_is_late_for_a_moment_is_not_behind() {
    let within = Reported { share: 0.6, ..rank("b", "3", &LATE, None) };
    assert_eq!(read(three_wait(within)), None, "it is in MPI: the network may hold it back");
    let just = [49.0, 50.0, 50.0, 50.0];
    let moment: Vec<Reported<'_>> =
        ["0", "1", "2"].map(|name| rank("a", name, &[50.0, 50.0, 49.0, 49.0], Some(40.0))).into();
    let late = [49.0; 4];
    let all = of(&moment.into_iter().chain([rank("b", "3", &late, None)]).collect::<Vec<_>>());
    assert_eq!(read(all), None, "one look");
    let computing: Vec<Reported<'_>> = ["0", "1", "2", "3"].map(|name| rank("a", name, &STILL, None)).into();
    assert_eq!(read(of(&computing)), None, "all compute, and nobody waits");
    assert_eq!(read(three_wait(rank("b", "3", &just, Some(200.0)))), None, "all wait: no rank is to blame");
    let mut ended = three_wait(rank("b", "3", &LATE, None));
    ended.iter_mut().filter(|one| one.labels.get("rank") == "3").for_each(|one| {
        one.times.push(NOW - 1);
        one.values.push(stale());
    });
    assert_eq!(read(ended), None, "it has ended: what its agent tells of that counts");
}

#[test]
fn ranks_that_died_or_whose_host_is_silent_are_told_apart() {
    let mut died = three_wait(rank("b", "3", &[], None));
    let labels = [("communicator", MPI_COMM_WORLD), ("pid", "12"), ("reason", "dead")];
    died.push(series(STRAGGLER, &rank("b", "3", &[], None), &labels, &[1.0, 1.0]));
    let found = read(died.clone()).unwrap();
    let [last] = &*found.stragglers else { panic!("{found:?}") };
    assert_eq!((last.rank, last.reason, last.answers), (3, StragglerReason::Dead, 2));
    assert_eq!((found.in_state("dead"), found.in_state("running")), (1, 3));
    died.extend(of(&[rank("b", "3", &STILL, Some(20.0))]));
    assert_eq!(read(died), None, "the rank runs again");
    let mut silent = three_wait(rank("c", "3", &LATE, None));
    silent.iter_mut().filter(|one| one.labels.get("host") == "c").for_each(|one| {
        one.times.iter_mut().for_each(|at_ms| *at_ms -= 240_000);
    });
    let found = read(silent.clone()).unwrap();
    assert_eq!(
        found.stragglers.iter().map(|one| (one.rank, one.reason)).collect::<Vec<_>>(),
        [(3, StragglerReason::Unresponsive)]
    );
    silent.iter_mut().filter(|one| one.labels.get("host") == "c").for_each(|one| {
        one.times.iter_mut().for_each(|at_ms| *at_ms += 120_000);
    });
    assert_eq!(read(silent), None, "it may have missed a report");
}

#[test]
fn programs_that_cannot_be_told_apart_are_not_judged() {
    let mut twice = three_wait(rank("b", "3", &LATE, None));
    twice.extend(of(&[rank("c", "3", &STILL, Some(200.0))]));
    assert_eq!(read(twice), None, "two ranks of one number");
    let mut sizes = three_wait(rank("b", "3", &LATE, None));
    for one in sizes.iter_mut().filter(|one| one.labels.get("rank") == "0") {
        let labels: Vec<(String, String)> = one.labels.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        one.labels = Labels::new(labels.iter().map(|(n, v)| (&**n, if n == "size" { "8" } else { &**v })));
    }
    assert_eq!(read(sizes), None, "programs of four and of eight ranks");
}
