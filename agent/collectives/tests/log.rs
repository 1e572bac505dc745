//! Log lines of NCCL and RCCL: written after the formats of their sources, and recorded ones.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use fabriclens_agent_collectives::log::{Event, EventKind, PATTERNS, Reader};
use std::collections::BTreeMap;

fn events(text: &str) -> Vec<Event> {
    let mut reader = Reader::default();
    let mut all: Vec<Event> = text.lines().filter_map(|line| reader.line(line)).collect();
    all.extend(reader.finish());
    all
}

#[test]
fn slow_work_requests_have_their_queue_pairs_in_every_form() {
    let begin = "gpu-07:11:12 [0] NCCL WARN NET/IB: WQE slow: peer=10.1.2.3<12345> | local: qpn=4711 dev=mlx5_3 port=1 lid=0 \
                 localGid=::ffff:10.0.0.1 | remote: qpn=815 port=1 lid=0 remoteGid=::ffff:10.0.0.2 | thr=1000ns delta=250000ns mean=900ns \
                 stddev=12ns";
    let plain = format!("{begin} max=250000ns count=77 | t_post=1 t_poll=2");
    let percentiles =
        format!("{begin} p50=800ns p90=900ns p99=1100ns p99.9=9000ns max=250000ns count=77 | t_post=1 t_poll=2");
    let cast = percentiles.replace("NET/IB:", "NET/IB-CAST:");
    for (line, p99) in [(plain, None), (percentiles, Some(1100)), (cast, Some(1100))] {
        let event = events(&line).remove(0);
        assert_eq!(event.kind, EventKind::SlowWorkRequest);
        let queue_pairs =
            (event.number("local_qp"), event.number("remote_qp"), event.number("delta_ns"), event.number("p99_ns"));
        assert_eq!(queue_pairs, (Some(4711), Some(815), Some(250_000), p99), "{line}");
        assert_eq!(
            (event.field("device"), event.field("port"), event.field("peer")),
            (Some("mlx5_3"), Some("1"), Some("10.1.2.3"))
        );
        assert_eq!(event.origin.map(|origin| (origin.host, origin.pid)), Some(("gpu-07".into(), 11)));
    }
}

#[test]
fn a_failed_work_request_is_joined_from_two_lines_of_its_thread() {
    let first = |thread: u32, qp: u32| {
        format!("h:1:{thread} [0] p2p.cc:783 NCCL WARN NET/IB: Got CQE with error (devIndex=0, qp_num={qp})\n")
    };
    let second = |thread: u32| {
        format!(
            "h:1:{thread} [0] p2p.cc:648 NCCL WARN NET/IB: Got completion from peer 10.0.0.9<5> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=X(1) hca mlx5_1\n"
        )
    };
    // Two threads write at once; a third one never writes its second line.
    let text = [first(7, 70), first(8, 80), first(9, 90), second(8), second(7)].concat();
    let all = events(&text);
    let queue_pairs: Vec<_> = all.iter().map(|e| (e.number("local_qp"), e.field("status"))).collect();
    let status = Some("IBV_WC_RETRY_EXC_ERR");
    assert_eq!(queue_pairs, [(Some(80), status), (Some(70), status), (Some(90), None)]);
    assert_eq!((all[0].field("peer"), all[0].field("device")), (Some("10.0.0.9"), Some("mlx5_1")));
    let mut reader = Reader::default();
    assert_eq!(reader.line(first(9, 90).trim()), None);
    let later = (0..300).filter_map(|_| reader.line("something else")).count();
    assert_eq!(later, 1, "told without its second line");
}

#[test]
fn transports_time_outs_and_aborts_are_read() {
    let text = "h:1:2 [0] NCCL INFO Channel 03/0 : 1[1] -> 2[0] [send] via NET/IB/0/GDRDMA\n\
        [rank3]:[E] [PG 0] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=912, OpType=ALLREDUCE, NumelIn=1) ran for 600123 milliseconds before timing out.\n\
        h:1:2 [0] NCCL INFO comm 0x55 rank 6 nranks 8 cudaDev 6 busId 1 - Abort COMPLETE\n\
        h:1:2 [0] NCCL INFO Using network Socket\nstep 17 loss 2.3\n";
    let all = events(text);
    let kinds: Vec<EventKind> = all.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Channel, EventKind::Timeout, EventKind::Abort, EventKind::Network]);
    assert_eq!(
        (all[0].field("channel"), all[0].field("to"), all[0].field("transport")),
        (Some("03"), Some("2"), Some("NET/IB/0/GDRDMA"))
    );
    assert_eq!(
        (all[1].field("rank"), all[1].field("operation"), all[1].number("milliseconds")),
        (Some("3"), Some("ALLREDUCE"), Some(600_123))
    );
    assert_eq!((all[2].field("rank"), all[3].field("network")), (Some("6"), Some("Socket")));
}

#[test]
fn lines_of_older_and_newer_versions_are_read() {
    let text = "h:1:2 [5] transport/net_ib.cc:1895 NCCL WARN NET/IB : Got completion from peer 10.0.0.9<5> with error 12, opcode 1, len 0, vendor err 129\n\
        h:1:2 [5] transport/net_ib.cc:2453 NCCL WARN NET/IB: Got completion from peer 10.0.0.9<5> with status=4 opcode=32614 len=32614 vendor err 81 (Send) localGid ::1 remoteGids::2 hca mlx5_1\n\
        [rank2]:[E1218 20:27:21.4 ProcessGroupNCCL.cpp:629] [PG ID 0 PG GUID 0(default_pg) Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, Timeout(ms)=600000) ran for 600081 milliseconds before timing out.\n\
        h:1:2 [1] NCCL INFO Using network NCCL RDMA Plugin v6\n";
    let all = events(text);
    let failed = |at: usize| (all[at].kind, all[at].field("peer"), all[at].field("status"), all[at].field("device"));
    let kind = EventKind::FailedWorkRequest;
    assert_eq!(failed(0), (kind, Some("10.0.0.9"), Some("12"), None));
    assert_eq!(failed(1), (kind, Some("10.0.0.9"), Some("4"), Some("mlx5_1")));
    assert_eq!((all[2].field("rank"), all[2].field("operation")), (Some("2"), Some("BROADCAST")));
    assert_eq!(all[3].field("network"), Some("NCCL RDMA Plugin v6"), "names of plugins have blanks");
}

#[test]
fn every_kind_has_a_row_and_every_row_a_text() {
    let mut rows: BTreeMap<EventKind, usize> = BTreeMap::new();
    for pattern in PATTERNS {
        *rows.entry(pattern.kind).or_default() += 1;
        assert!(pattern.has.iter().all(|text| text.len() > 2), "{:?}", pattern.kind);
    }
    assert_eq!(rows.len(), 10);
}

#[test]
#[ignore = "needs: recordings"]
fn recorded_logs_are_read() {
    let read = |name: &str| {
        let path = fabriclens_testing::recordings().join("collectives").join(name);
        events(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    };
    let errors = read("nccl-2.30.4-roce-2x2-a100/errors.log");
    let pairs: Vec<_> = errors.iter().map(|e| (e.number("local_qp"), e.field("peer"), e.field("device"))).collect();
    let third = (Some(21536), Some("10.153.235.11"), Some("mlx5_0"));
    assert_eq!((pairs.len(), pairs[0].0, pairs[2]), (3, Some(26257), third));
    assert!(errors.iter().all(|event| event.field("status") == Some("IBV_WC_RETRY_EXC_ERR")));
    let init = read("nccl-2.30.4-roce-2x2-a100/init.log");
    let of = |events: &[Event], kind| events.iter().filter(|event| event.kind == kind).cloned().collect::<Vec<_>>();
    assert_eq!(of(&init, EventKind::Network)[0].field("network"), Some("IB"));
    assert_eq!(of(&init, EventKind::RasPortTaken).len(), 3);
    let devices = "[0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]";
    assert_eq!(of(&init, EventKind::Devices)[0].field("devices"), Some(devices));
    let rccl = read("rccl-banner/mi-7-eth.log");
    assert_eq!((of(&rccl, EventKind::NoDevice).len(), of(&rccl, EventKind::SocketInterfaces).len()), (2, 1));
    let formats = read("nccl-wqe-slow/format.txt");
    assert_eq!(of(&formats, EventKind::SlowWorkRequest).len(), 3);
}

mod foreign_bytes {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(NET/IB: WQE slow: |qpn=|local: |Got CQE with error|NCCL INFO Channel | -> | via |h:1:2 |\\PC|\n){0,60}") {
            events(&text);
        }
    }
}

#[test]
fn a_log_is_followed_by_whole_lines() {
    use fabriclens_agent_collectives::Budget;
    use fabriclens_agent_collectives::log::FollowedLog;
    use std::io::Write as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("slurm-7.out");
    let mut writer = std::fs::File::create(&path).unwrap();
    let mut log = FollowedLog::new(&path);
    let mut read = || {
        let mut all = Vec::new();
        log.read(&mut Budget::default(), &mut all).unwrap();
        all.len()
    };
    writer.write_all(b"step 1\nh:1:2 [0] NCCL INFO Using network IB\nh:1:2 [0] NCCL INFO Using net").unwrap();
    assert_eq!((read(), read()), (1, 0));
    writer.write_all(b"work Socket\nh:1:7 NCCL WARN NET/IB: Got CQE with error (qp_num=70)\n").unwrap();
    assert_eq!(read(), 1);
    writer.write_all(b"h:1:7 NCCL WARN NET/IB: Got completion from peer 10.0.0.9<5> with status=X(1)\n").unwrap();
    assert_eq!(read(), 1, "the two lines may come in two looks");
}
