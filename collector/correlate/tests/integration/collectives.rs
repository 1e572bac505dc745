//! Verdicts from collectives: jobs whose ranks wait for a rank that is dead or stopped, while counters are silent.

use crate::common::{USUAL, fabric, host, moves};
use fabriclens_collectives::{Communicator, JobCollectives, Straggler, StragglerReason};
use fabriclens_correlate::{
    Fabric, Frame, Incident, IncidentKind, IncidentTracker, Location, Severity, Signal, Thresholds,
};
use std::collections::BTreeMap;

const S: i64 = 1_000_000_000;
/// When the last operation was launched, seconds.
const LAST: i64 = 120;

fn rank(reason: StragglerReason, host: Option<&str>) -> Straggler {
    Straggler {
        rank: 3,
        rank_host: "10.0.0.5".into(),
        host: host.map(str::to_owned),
        pid: "1234".into(),
        gpu: "5".into(),
        reason,
        operation: if reason == StragglerReason::Behind { "AllReduce".into() } else { String::new() },
        answers: 2,
    }
}

/// A communicator of `odd` that rests since [`LAST`], `idle_s` later.
fn communicator(idle_s: i64, stragglers: Vec<Straggler>) -> Communicator {
    let behind = stragglers.iter().filter(|rank| rank.reason == StragglerReason::Behind).count() as u32;
    let mut ranks = BTreeMap::from([("running".to_owned(), 4 - stragglers.len() as u32 + behind)]);
    for rank in stragglers.iter().filter(|rank| rank.reason != StragglerReason::Behind) {
        *ranks.entry(rank.reason.label().to_owned()).or_default() += 1;
    }
    Communicator {
        id: "00000000000000aa".into(),
        size: Some(4),
        ranks,
        behind,
        lags: if behind > 0 { BTreeMap::from([("AllReduce".to_owned(), 400)]) } else { BTreeMap::new() },
        idle_s: idle_s as f64,
        idle_since_ms: LAST * 1000,
        stragglers,
    }
}

fn odd(at_s: i64, communicators: Vec<Communicator>) -> BTreeMap<String, JobCollectives> {
    let one =
        JobCollectives { asked_by: "h1".into(), answered_ms: at_s * 1000, communicators, ..JobCollectives::default() };
    BTreeMap::from([("odd".to_owned(), one)])
}

/// A fleet whose job `odd` stands still from [`LAST`] on, with what is known of its collectives at each second; all incidents, and
/// those open at each second.
fn watch(
    fabric: &Fabric,
    seconds: i64,
    fault: impl Fn(&Fabric, i64, &mut Frame),
    known: impl Fn(i64) -> Option<BTreeMap<String, JobCollectives>>,
) -> Vec<Vec<Incident>> {
    watch_from(LAST, fabric, seconds, fault, known)
}

/// The same, if it stands still from another second on.
fn watch_from(
    rests_s: i64,
    fabric: &Fabric,
    seconds: i64,
    fault: impl Fn(&Fabric, i64, &mut Frame),
    known: impl Fn(i64) -> Option<BTreeMap<String, JobCollectives>>,
) -> Vec<Vec<Incident>> {
    let mut tracker = IncidentTracker::new(fabric.clone(), Thresholds::default());
    (0..seconds)
        .map(|second| {
            let mut frame = Frame::new(second * S);
            for h in 0..fabric.host_ports().count() {
                let rests = h % 2 == 1 && second >= rests_s;
                moves(&mut frame, host(fabric, h), if rests { 0.0 } else { USUAL });
                frame.set(Signal::Up, host(fabric, h), 1.0);
            }
            fault(fabric, second, &mut frame);
            tracker.set_collectives(known(second).unwrap_or_default());
            tracker.tick(frame);
            tracker.open()
        })
        .collect()
}

fn stuck(each: &[Vec<Incident>]) -> Vec<&Incident> {
    each.iter().flatten().filter(|incident| incident.kind == IncidentKind::StuckCollective).collect()
}

fn silent(_: &Fabric, _: i64, _: &mut Frame) {}

/// What is known at each second, if one rank is so from [`LAST`] on, told each 30 s.
fn told(
    reason: StragglerReason,
    host: Option<&'static str>,
) -> impl Fn(i64) -> Option<BTreeMap<String, JobCollectives>> {
    move |second| {
        let at_s = second / 30 * 30;
        (at_s > LAST).then(|| odd(at_s, vec![communicator(at_s - LAST, vec![rank(reason, host)])]))
    }
}

#[test]
fn dead_rank_is_named_with_its_host_while_counters_are_silent() {
    let each = watch(&fabric(), 300, silent, told(StragglerReason::Dead, Some("h5")));
    let all = stuck(&each);
    let first = all.first().unwrap();
    assert_eq!(first.root, Location::Host { node: "h5".into() });
    assert_eq!((first.start_ns, first.detected_ns / S, first.severity), (LAST * S, 180, Severity::Critical));
    assert_eq!((&*first.victim_jobs, first.culprit_jobs.len()), (&["odd".to_owned()][..], 0));
    assert_eq!(
        first.explanation,
        "Rank 3 of job odd (host h5, GPU 5, process 1234) is dead; 3 ranks wait for it in communicator 00000000000000aa \
         since 00:02 UTC. The counters of its host's ports show nothing: look at the process, its GPU and its host."
    );
    assert!(all.iter().all(|incident| incident.id == first.id), "one incident");
    assert!(each.iter().flatten().all(|incident| incident.kind == IncidentKind::StuckCollective), "and no other");
}

/// The same of a program that uses MPI.
fn told_of_mpi(reason: StragglerReason) -> impl Fn(i64) -> Option<BTreeMap<String, JobCollectives>> {
    move |second| {
        let mut all = told(reason, Some("h5"))(second)?;
        let one = &mut all.get_mut("odd")?.communicators[0];
        one.id = "MPI_COMM_WORLD".into();
        one.stragglers.iter_mut().for_each(|rank| rank.gpu = String::new());
        Some(all)
    }
}

#[test]
fn ranks_of_mpi_are_judged_as_those_of_nccl_in_their_own_words() {
    let says = |reason: StragglerReason, what: &str, seconds: i64| {
        let each = watch(&fabric(), seconds, silent, told_of_mpi(reason));
        let all = stuck(&each);
        let first = all.first().unwrap_or_else(|| panic!("{what}"));
        assert_eq!(first.root, Location::Host { node: "h5".into() });
        assert!(first.explanation.contains(what), "{}", first.explanation);
        assert_eq!(first.evidence[0].metric, "fabric_collective_mpi_inside_seconds");
    };
    says(
        StragglerReason::Dead,
        "(host h5, process 1234) is dead; 3 ranks wait for it in communicator MPI_COMM_WORLD",
        300,
    );
    says(StragglerReason::Unresponsive, "is on a host whose agent is silent; 3 ranks wait for it", 480);
    says(StragglerReason::Behind, "has not entered the AllReduce that others entered; 3 ranks wait for it", 1080);
    let each = watch(&fabric(), 900, silent, told_of_mpi(StragglerReason::Behind));
    assert!(stuck(&each).is_empty(), "a long phase of computing is no stuck job");
    let straggler = |one: &&Incident| one.kind == IncidentKind::ApplicationStraggler;
    let found = each.iter().flatten().find(straggler).unwrap();
    assert!(
        found.explanation.contains("of communicator MPI_COMM_WORLD stays behind in entering AllReduce"),
        "{found:?}"
    );
}

#[test]
fn rank_of_an_unknown_host_is_told_of_the_job() {
    let each = watch(&fabric(), 300, silent, told(StragglerReason::Dead, None));
    let first = *stuck(&each).first().unwrap();
    assert_eq!(first.root, Location::Job { job: "odd".into() });
    assert!(first.explanation.contains("(host 10.0.0.5, GPU 5, process 1234) is dead"), "{}", first.explanation);
    assert_eq!((first.victim_jobs.len(), first.culprit_jobs.len()), (1, 0), "the job is no culprit");
}

#[test]
fn what_is_not_a_rank_that_cannot_go_on_is_no_incident() {
    let none = |what: &str, known: &dyn Fn(i64) -> Option<BTreeMap<String, JobCollectives>>| {
        let each = watch(&fabric(), 600, silent, known);
        assert!(stuck(&each).is_empty(), "{what}");
    };
    none("it evaluates or loads a checkpoint", &|second| {
        (second > LAST).then(|| odd(second, vec![communicator(second - LAST, Vec::new())]))
    });
    none("one answer", &|second| {
        let once = Straggler { answers: 1, ..rank(StragglerReason::Dead, Some("h5")) };
        (second > LAST).then(|| odd(second, vec![communicator(second - LAST, vec![once])]))
    });
    none("others launch operations", &|second| {
        (second > LAST).then(|| odd(second, vec![communicator(20, vec![rank(StragglerReason::Dead, Some("h5"))])]))
    });
    none("the job goes on in another communicator", &|second| {
        let left = communicator(second - LAST, vec![rank(StragglerReason::WithoutCommunicator, Some("h5"))]);
        let other = Communicator { id: "bb".into(), idle_s: 3.0, ..communicator(3, Vec::new()) };
        (second > LAST).then(|| odd(second, vec![left, other]))
    });
    none("nobody waits", &|second| {
        let all = Communicator {
            ranks: BTreeMap::from([("dead".to_owned(), 4)]),
            ..communicator(second - LAST, vec![rank(StragglerReason::Dead, Some("h5"))])
        };
        (second > LAST).then(|| odd(second, vec![all]))
    });
    none("its user ends it", &|second| {
        let ended = (LAST + 1..LAST + 150).contains(&second);
        ended.then(|| odd(second, vec![communicator(second - LAST, vec![rank(StragglerReason::Aborted, Some("h5"))])]))
    });
    none("a checkpoint is written for eight minutes", &told(StragglerReason::Behind, Some("h5")));
}

#[test]
fn stopped_ranks_take_longer_and_ranks_that_are_only_behind_page_nobody() {
    let first = |reason: StragglerReason| {
        let each = watch(&fabric(), 1300, silent, told(reason, Some("h5")));
        stuck(&each)
            .first()
            .map(|incident| (incident.detected_ns / S - LAST, incident.severity, incident.explanation.clone()))
    };
    let (at, severity, text) = first(StragglerReason::Unresponsive).unwrap();
    assert_eq!((at, severity), (300, Severity::Critical));
    assert!(text.contains(" does not answer; 3 ranks wait for it"), "{text}");
    let (at, severity, text) = first(StragglerReason::Behind).unwrap();
    assert_eq!((at, severity), (900, Severity::Info));
    let far =
        " is 400 AllReduce operations behind: it has not launched the AllReduce that others launched; 3 ranks wait";
    assert!(text.contains(far), "{text}");
    assert_eq!(first(StragglerReason::Aborted).map(|found| found.0), Some(180));
}

#[test]
fn incident_ends_with_the_job_and_when_ranks_go_on() {
    let each = watch(&fabric(), 330, silent, |second| {
        told(StragglerReason::Dead, Some("h5"))(second).filter(|_| second < 270)
    });
    let open: Vec<usize> = (0..each.len()).filter(|second| !each[*second].is_empty()).collect();
    assert_eq!((open[0], open[open.len() - 1]), (180, 269 + 12), "twelve seconds after it was last found");
}

#[test]
fn link_that_is_down_at_the_host_explains_its_dead_rank_and_one_elsewhere_does_not() {
    let down = |h: usize| {
        move |fabric: &Fabric, second: i64, frame: &mut Frame| {
            if second >= LAST {
                frame.set(Signal::Up, host(fabric, h), 0.0);
            }
        }
    };
    let kinds = |h: usize, of: Option<&'static str>| {
        let each = watch(&fabric(), 300, down(h), told(StragglerReason::Dead, of));
        let mut kinds: Vec<IncidentKind> = each.last().unwrap().iter().map(|incident| incident.kind).collect();
        kinds.sort();
        kinds
    };
    use IncidentKind::{LinkDown, StuckCollective};
    assert_eq!(kinds(5, Some("h5")), [LinkDown]);
    assert_eq!(kinds(4, Some("h5")), [LinkDown, StuckCollective], "another host, another job");
    assert_eq!(kinds(7, None), [LinkDown], "the rank may be there");
    assert_eq!(kinds(6, None), [LinkDown, StuckCollective], "it is not there");
}

#[test]
fn fault_of_the_network_that_comes_later_takes_over_and_is_not_hidden() {
    let later = |fabric: &Fabric, second: i64, frame: &mut Frame| {
        if second >= 220 {
            frame.set(Signal::Up, host(fabric, 5), 0.0);
        }
    };
    let each = watch(&fabric(), 300, later, told(StragglerReason::Dead, Some("h5")));
    let kinds = |second: usize| each[second].iter().map(|incident| incident.kind).collect::<Vec<_>>();
    assert_eq!(kinds(210), [IncidentKind::StuckCollective]);
    assert_eq!(kinds(299), [IncidentKind::LinkDown]);
}

#[test]
fn jobs_without_any_counters_are_judged_and_incidents_go_on_after_a_restart() {
    let fabric = |ports: bool| {
        let mut all = fabric();
        if !ports {
            all = Fabric::new(
                fabriclens_correlate::Topology::default(),
                fabriclens_correlate::Ports::default(),
                Vec::new(),
            );
            let job = fabriclens_correlate::Job { id: "odd".into(), ports: Vec::new(), since_ns: 0 };
            all.set_jobs(vec![job], &Default::default());
        }
        all
    };
    for with_ports in [false, true] {
        let mut tracker = IncidentTracker::new(fabric(with_ports), Thresholds::default());
        let tick = |tracker: &mut IncidentTracker, second: i64| {
            tracker.set_collectives(told(StragglerReason::Dead, Some("h5"))(second).unwrap_or_default());
            tracker.tick(Frame::new(second * S))
        };
        (0..200).for_each(|second| _ = tick(&mut tracker, second));
        let open = tracker.open();
        assert_eq!(
            open.iter().map(|one| one.kind).collect::<Vec<_>>(),
            [IncidentKind::StuckCollective],
            "{with_ports}"
        );
        let place = if with_ports { Location::Host { node: "h5".into() } } else { Location::Job { job: "odd".into() } };
        assert_eq!((&open[0].root, open[0].victim_jobs.len()), (&place, 1));

        let mut again = IncidentTracker::new(fabric(with_ports), Thresholds::default());
        assert!(again.resume(&open, 200 * S).is_empty());
        let ended: usize = (200..260).map(|second| tick(&mut again, second).len()).sum();
        let ids: Vec<String> = again.open().into_iter().map(|one| one.id).collect();
        assert_eq!((ended, ids), (0, vec![open[0].id.clone()]), "the same incident");
    }
}

/// Jobs that lose while the adapter of `h2` pauses its switch and a port of `odd` has `more`, with what is known of `odd`'s ranks.
fn victims_of_pause(
    more: impl Fn(&Fabric, &mut Frame),
    known: impl Fn(i64) -> Option<BTreeMap<String, JobCollectives>>,
) -> Incident {
    let pause = |fabric: &Fabric, second: i64, frame: &mut Frame| {
        if second < LAST + 60 {
            return;
        }
        let port = host(fabric, 2);
        frame.set(Signal::PauseTx, port, 0.5);
        frame.set(Signal::PauseFrames, port, 200_000.0);
        frame.set(Signal::QueueMax, port, 3e5);
        moves(frame, port, USUAL / 4.0);
        more(fabric, frame);
    };
    // `odd` waits for its rank at the same time.
    let each = watch_from(LAST + 60, &fabric(), 300, pause, known);
    each.last().unwrap().iter().find(|incident| incident.kind == IncidentKind::SlowReceiver).unwrap().clone()
}

#[test]
fn job_that_its_own_rank_holds_back_is_no_victim_and_says_why() {
    let odd_of = |incident: &Incident| incident.victim_jobs.contains(&"odd".to_owned());
    let none = |_: &Fabric, _: &mut Frame| {};
    let without = victims_of_pause(none, |_| None);
    assert!(odd_of(&without), "{:?}", without.victim_jobs);
    let own = victims_of_pause(none, told(StragglerReason::Behind, Some("h5")));
    assert!(!odd_of(&own), "{:?}", own.victim_jobs);
    let why = own.considered.iter().find(|one| one.kind == IncidentKind::ApplicationStraggler).unwrap();
    assert_eq!(why.root, Location::Host { node: "h5".into() });
    let far = "stays behind in launching AllReduce, by 400 AllReduce operations, and the counters";
    assert!(why.explanation.contains(far), "{}", why.explanation);

    assert!(odd_of(&victims_of_pause(none, told(StragglerReason::Behind, None))), "its host may be the paused one");
    assert!(odd_of(&victims_of_pause(none, told(StragglerReason::Unresponsive, Some("h5")))), "not its program");
    let paused = |fabric: &Fabric, frame: &mut Frame| frame.set(Signal::PauseRx, host(fabric, 5), 0.2);
    assert!(odd_of(&victims_of_pause(paused, told(StragglerReason::Behind, Some("h5")))), "the network holds its host");
    let once = |second: i64| {
        let one = Straggler { answers: 1, ..rank(StragglerReason::Behind, Some("h5")) };
        Some(odd(second, vec![communicator(30, vec![one])]))
    };
    assert!(odd_of(&victims_of_pause(none, once)), "one answer");
}

#[test]
fn straggler_of_the_application_is_an_observation() {
    let each = watch(&fabric(), 300, silent, told(StragglerReason::Behind, Some("h5")));
    let kinds: Vec<_> = each.last().unwrap().iter().map(|one| (one.kind, one.severity, one.root.clone())).collect();
    assert_eq!(kinds, [(IncidentKind::ApplicationStraggler, Severity::Info, Location::Host { node: "h5".into() })]);
}
