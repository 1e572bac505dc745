//! The client against a stand-in of the service, and recorded answers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use fabriclens_agent_collectives::model::{RankState, Snapshot};
use fabriclens_agent_collectives::progress::{CommunicatorStatus, Progress, Reason};
use fabriclens_agent_collectives::ras::{Limits, RasError, ask, parse_json, parse_text};
use fabriclens_testing::ras::{Behavior, RasRank, RasServer, status_json};
use std::time::{Duration, Instant};

/// Period of questions.
const PERIOD: Duration = Duration::from_secs(30);

fn short() -> Limits {
    Limits { first: Duration::from_millis(400), whole: Duration::from_secs(10), ..Limits::default() }
}

fn ranks(launched: impl IntoIterator<Item = Option<u64>>) -> Vec<RasRank> {
    let rank = |(number, launched): (usize, Option<u64>)| RasRank {
        host: format!("10.0.0.{}", number / 8),
        pid: 1000 + number as u32,
        gpu: number as u32 % 8,
        launched,
        dead: false,
    };
    launched.into_iter().enumerate().map(rank).collect()
}

fn asked(server: &RasServer) -> Snapshot {
    ask(server.address(), &short()).unwrap()
}

fn states(snapshot: &Snapshot) -> Vec<RankState> {
    snapshot.communicators[0].ranks.iter().map(|rank| rank.state).collect()
}

#[test]
fn every_version_with_json_is_read() {
    let mut all = ranks([Some(40), None, None]);
    all[2].dead = true;
    for version in ["2.28.3", "2.28.9", "2.29.1", "2.30.4", "2.31.2", "2.32.3"] {
        let server = RasServer::start(Behavior::Json(status_json(version, 0xab, &all)));
        let found = asked(&server);
        assert_eq!(states(&found), [RankState::Running, RankState::Unresponsive, RankState::Dead], "{version}");
        let first = &found.communicators[0].ranks[0];
        assert_eq!(
            (found.version.as_str(), found.communicators[0].id.to_string()),
            (version, "00000000000000ab".into())
        );
        assert_eq!(
            (first.process.pid, first.process.gpu, &*first.counts),
            (Some(1000), Some(0), &[Some(1), Some(40)][..])
        );
        let sent = server.lines();
        assert_eq!(sent, ["CLIENT PROTOCOL 2", "TIMEOUT 5", "SET FORMAT json", "STATUS"], "nothing else is ever sent");
    }
}

#[test]
fn counts_that_stop_name_the_rank_after_several_polls() {
    let server = RasServer::start(Behavior::Silent);
    let mut progress = Progress::new(PERIOD);
    let begin = Instant::now();
    let mut poll = |number: u32, counts: &[Option<u64>]| -> CommunicatorStatus {
        server.set(Behavior::Json(status_json("2.30.4", 1, &ranks(counts.iter().copied()))));
        progress.observe(&asked(&server), begin + number * PERIOD).remove(0)
    };
    let mut all = vec![Some(100); 32];
    // One look: a difference is normal.
    all[21] = Some(99);
    assert_eq!((poll(0, &all).behind, poll(1, &[Some(200); 32]).behind), (0, 0));
    all = vec![Some(600); 32];
    all[21] = Some(200);
    assert_eq!(poll(2, &all).behind, 0, "it has reached what others had at the look before");
    assert_eq!(poll(3, &all).behind, 0, "one comparison is not enough");
    let status = poll(4, &all);
    assert_eq!((status.behind, status.size, status.idle), (1, 32, Duration::from_secs(60)));
    let straggler = &status.stragglers[0];
    let reason = Reason::Behind { operation: "AllReduce".into(), by: 400 };
    assert_eq!((straggler.rank, &*straggler.process.host, &straggler.reason), (21, "10.0.0.2", &reason));
    let counts = status.operations.iter().find(|operation| &*operation.name == "AllReduce").unwrap();
    assert_eq!((counts.highest, counts.lowest), (600, 200));
    // It catches up.
    let status = poll(5, &[Some(700); 32]);
    assert_eq!((status.behind, status.stragglers.len(), status.idle), (0, 0, Duration::ZERO));
}

#[test]
fn a_rank_that_is_late_by_less_than_an_interval_is_not_behind() {
    let (mut progress, begin) = (Progress::new(PERIOD), Instant::now());
    for number in 0..20 {
        let counts = (0..8).map(|rank| Some(100 * u64::from(number) + if rank == 3 { 0 } else { 90 }));
        let status = status_json("2.30.4", 1, &ranks(counts));
        let found = parse_json(status.as_bytes(), &short()).unwrap();
        let status = progress.observe(&found, begin + number * PERIOD).remove(0);
        assert_eq!((status.behind, status.stragglers.len()), (0, 0), "at {number}");
    }
}

#[test]
fn a_job_that_is_asked_more_often_names_no_rank_sooner() {
    let (mut progress, begin) = (Progress::new(PERIOD), Instant::now());
    let mut behind = |seconds: u64, late: u64| {
        let counts = (0..8).map(|rank| Some(if rank == 3 { late } else { 100 + seconds }));
        let found = parse_json(status_json("2.30.4", 1, &ranks(counts)).as_bytes(), &short()).unwrap();
        progress.observe(&found, begin + Duration::from_secs(seconds)).remove(0).behind
    };
    // It does not move from second 0 on.
    assert_eq!([0, 10, 20, 30, 40, 50].map(|seconds| behind(seconds, 100)), [0, 0, 0, 0, 0, 1]);
    assert_eq!(behind(60, 160), 0, "it has caught up");
}

#[test]
fn silent_and_dead_ranks_are_told_apart_and_keep_their_counts() {
    let mut progress = Progress::new(PERIOD);
    let mut all = ranks([Some(50), Some(50), Some(50)]);
    let mut at = Instant::now();
    let mut look = |all: &[RasRank]| {
        let found = parse_json(status_json("2.28.9", 1, all).as_bytes(), &short()).unwrap();
        at += PERIOD;
        progress.observe(&found, at).remove(0)
    };
    look(&all);
    (all[0].launched, all[1].launched, all[2].launched) = (Some(80), None, None);
    all[2].dead = true;
    let reasons = |status: &CommunicatorStatus| -> Vec<(u32, Reason)> {
        status.stragglers.iter().map(|straggler| (straggler.rank, straggler.reason.clone())).collect()
    };
    let status = look(&all);
    assert_eq!(reasons(&status), [(2, Reason::State(RankState::Dead))], "one silent look may be chance");
    let status = look(&all);
    let both = [(1, Reason::State(RankState::Unresponsive)), (2, Reason::State(RankState::Dead))];
    assert_eq!(reasons(&status), both);
    let counts = status.operations.iter().find(|operation| &*operation.name == "AllReduce").unwrap();
    assert_eq!((counts.lowest, counts.highest), (50, 80), "as they last answered, not zero");
}

#[test]
fn text_of_older_versions_is_asked_for_and_read() {
    let text = "NCCL version 2.26.2 compiled with CUDA 12.8\n\nJob summary\n===========\n\nCommunicators... (0.00s)\n=============\n\n\
        Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n\
        \x20   #  in group  per comm  per node  per comm  in group\n\
        \x20   0         1         4         8        32        32   RUNNING  MISMATCH\n\nErrors\n======\n\nWarnings\n========\n\n\
        #0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n\
        \x20 31 ranks have launched up to operation 6650\n\
        \x20 Rank 5 has launched up to operation 6250 -- GPU 1 (NVML 5) managed by process 77 on node 10.0.0.1\n";
    let server = RasServer::start(Behavior::Text(text.into()));
    let found = asked(&server);
    assert_eq!(server.lines().last().unwrap(), "VERBOSE STATUS");
    let communicator = &found.communicators[0];
    assert_eq!((communicator.size, &*communicator.operations[0], &*found.version), (32, "AllReduce", "2.26.2"));
    let named: Vec<_> = communicator.ranks.iter().filter(|rank| rank.number.is_some()).collect();
    assert_eq!((named.len(), named[0].number, named[0].counts[0]), (1, Some(5), Some(6250)));
    assert_eq!((named[0].process.gpu, named[0].process.pid, &*named[0].process.host), (Some(5), Some(77), "10.0.0.1"));
    let mut progress = Progress::new(PERIOD);
    let begin = Instant::now();
    let status = (0..3).map(|number| progress.observe(&found, begin + number * PERIOD).remove(0)).last().unwrap();
    assert_eq!((status.behind, status.operations[0].highest, status.operations[0].lowest), (1, 6650, 6250));
}

#[test]
fn text_tells_of_each_operation_each_error_and_processes_with_several_gpus() {
    let text = "NCCL version 2.27.7 compiled with CUDA 12.8\n\n\
        Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n\
        \x20   #  in group  per comm  per node  per comm  in group\n\
        \x20   0         1         2         2         4         4   RUNNING  MISMATCH,ERROR,INCOMPLETE\n\nErrors\n======\n\n\
        INCOMPLETE\n  Missing communicator data from 2 job processes\n  Process 8 on node 10.0.0.1 managing GPU 7\n\n\
        DEAD\n  1 job process is considered dead\n  Process 9 on node 10.0.0.1 managing GPUs 0,1 (NVML 4,5)\n\n\
        #0-0 (ab) INCOMPLETE\n  Missing communicator data from 2 ranks\n\
        \x20 Rank 2 -- GPU 7 managed by process 8 on node 10.0.0.1\n\
        \x20 Rank 3 -- GPU 1 (NVML 5) managed by process 9 on node 10.0.0.1\n\n\
        #0-0 (ab) ERROR\n  Asynchronous error on 1 rank\n\
        \x20 Rank 1 reported Remote process error -- GPU 1 managed by process 77 on node 10.0.0.0\n\nWarnings\n========\n\n\
        #0-0 (ab) MISMATCH\n  Communicator ranks have different Broadcast operation counts\n\
        \x20 Rank 0 has launched up to operation 7 -- GPU 0 managed by process 76 on node 10.0.0.0\n\
        \x20 Rank 1 has launched up to operation 6 -- GPU 1 managed by process 77 on node 10.0.0.0\n\n\
        \x20 Communicator ranks have different AllReduce operation counts\n\
        \x20 Rank 0 has launched up to operation 70 -- GPU 0 managed by process 76 on node 10.0.0.0\n\
        \x20 Rank 1 has not launched any operations -- GPU 1 managed by process 77 on node 10.0.0.0\n\n";
    let found = parse_text(text.as_bytes(), &short()).unwrap();
    let communicator = &found.communicators[0];
    assert_eq!(communicator.operations.iter().map(|name| &**name).collect::<Vec<_>>(), ["Broadcast", "AllReduce"]);
    let rank = |number: u32| communicator.ranks.iter().find(|rank| rank.number == Some(number)).unwrap();
    assert_eq!((&*rank(0).counts, &*rank(1).counts), (&[Some(7), Some(70)][..], &[Some(6), Some(0)][..]));
    assert_eq!((rank(1).state, rank(1).process.pid), (RankState::Failed, Some(77)));
    assert_eq!((rank(2).state, rank(3).state), (RankState::Unresponsive, RankState::Dead));
}

#[test]
fn slow_cut_silent_and_other_services_give_a_reason_and_no_snapshot() {
    let status = status_json("2.29.1", 1, &ranks([Some(4); 64]));
    let half = status.len() / 2;
    let cases = [
        (Behavior::Slow(status.clone(), Duration::from_secs(30)), "slow"),
        (Behavior::Cut(status.clone(), half), "cut"),
        (Behavior::Cut(status.clone(), 0), "cut"),
        (Behavior::Silent, "silent"),
        (Behavior::Other("HTTP/1.1 400 Bad Request".into()), "foreign_service"),
        (Behavior::Other("-ERR unknown command".into()), "foreign_service"),
        (Behavior::Json("[]".into()), "malformed"),
        (Behavior::Json("{}".into()), "malformed"),
        (Behavior::Json("BUSY: diagnostics are running\n".into()), "denied"),
        (Behavior::Text("ERROR: Unknown command verbose status\n".into()), "denied"),
    ];
    for (behavior, want) in cases {
        let server = RasServer::start(behavior.clone());
        let limits = Limits { whole: Duration::from_millis(600), ..short() };
        let begin = Instant::now();
        let error = ask(server.address(), &limits).unwrap_err();
        assert_eq!(error.label(), want, "{behavior:?}: {error}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{behavior:?} took {:?}", begin.elapsed());
        if want == "foreign_service" {
            assert_eq!(server.lines(), ["CLIENT PROTOCOL 2"], "another service gets one line");
        }
    }
    let gone = RasServer::start(Behavior::Silent).address();
    std::thread::sleep(Duration::from_millis(100));
    assert!(matches!(ask(gone, &short()), Err(RasError::Refused(_) | RasError::Foreign(_) | RasError::Cut)));
}

#[test]
fn ten_thousand_ranks_are_read_within_bounds() {
    let all = ranks((0..10_000).map(|rank| Some(if rank == 7777 { 5 } else { 900 })));
    let server = RasServer::start(Behavior::Json(status_json("2.31.2", 9, &all)));
    let found = asked(&server);
    assert_eq!((found.communicators[0].ranks.len(), found.communicators_omitted), (10_000, 0));
    let mut progress = Progress::new(PERIOD);
    let begin = Instant::now();
    let status = (0..3).map(|number| progress.observe(&found, begin + number * PERIOD).remove(0)).last().unwrap();
    assert_eq!((status.behind, status.stragglers[0].rank), (1, 7777));

    let few = Limits { ranks: 9_999, ..short() };
    let found = ask(server.address(), &few).unwrap();
    assert_eq!((found.communicators.len(), found.communicators_omitted, found.ranks_omitted), (0, 1, 10_000));
    let bytes = Limits { bytes: 100_000, ..short() };
    assert_eq!(ask(server.address(), &bytes).unwrap_err().label(), "too_large");
}

fn recorded(name: &str) -> String {
    let path = fabriclens_testing::recordings().join("collectives").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
#[ignore = "needs: recordings"]
fn recorded_answers_are_read() {
    for name in ["nccl-ras-2.28.9-invalid-json/status.json", "nccl-ras-docs/status-missing-rank.json"] {
        let found = parse_json(recorded(name).as_bytes(), &short()).unwrap();
        assert_eq!(states(&found), [RankState::Running, RankState::Unresponsive], "{name}");
        assert_eq!((found.communicators[0].size, found.communicators[0].operations.len()), (2, 5), "{name}");
    }
    let table = recorded("nccl-ras-docs/communicators-ok.txt");
    let ok = parse_text(format!("{table}\nErrors\n======\n\nWarnings\n========\n").as_bytes(), &short()).unwrap();
    assert_eq!((ok.communicators.len(), ok.unnamed), (0, 8));
    let found = parse_text(recorded("nccl-ras-docs/incomplete-stopped-process.txt").as_bytes(), &short()).unwrap();
    let rank = &found.communicators[0].ranks[0];
    assert_eq!((found.timeouts, rank.number, rank.state), (2, Some(21), RankState::Unresponsive));
    let table = recorded("nccl-ras-docs/communicators-mismatch.txt");
    let warnings = recorded("nccl-ras-docs/warnings-mismatch.txt");
    let found = parse_text(format!("{table}\n{warnings}").as_bytes(), &short()).unwrap();
    let communicator = &found.communicators[0];
    let named: Vec<u32> = communicator.ranks.iter().filter_map(|rank| rank.number).collect();
    assert_eq!((communicator.size, &*communicator.operations[0], named), (32, "all", vec![0, 2, 3, 4, 5, 7]));
    assert!(communicator.ranks.iter().filter(|r| r.number.is_some()).all(|r| r.counts[0] == Some(6649)));
}

mod foreign_bytes {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            _ = parse_json(&bytes[..], &short());
            _ = parse_text(&bytes[..], &short());
        }

        #[test]
        fn any_text_of_the_form_is_survived(
            lines in prop::collection::vec(
                "(Group Comms|  0 1 4 8 32 32 RUNNING OK|#0-0 \\(ab\\) (MISMATCH|INCOMPLETE|ERROR)|Warnings|Errors|DEAD|  Rank [0-9]{1,3} -- GPU 1|  [0-9]{1,9} ranks have launched up to operation [0-9]{1,20}|  Communicator ranks have different (AllReduce|collective) operation counts|)",
                0..30,
            ),
        ) {
            _ = parse_text(lines.join("\n").as_bytes(), &short());
        }

        #[test]
        fn a_part_of_a_status_is_never_taken_for_all_of_it(part in 0.0..0.999_f64) {
            let status = status_json("2.28.9", 1, &ranks([Some(4), None, Some(7)]));
            let end = ((status.trim_end().len() - 1) as f64 * part) as usize;
            prop_assert!(parse_json(&status.as_bytes()[..end], &short()).is_err());
        }
    }
}
