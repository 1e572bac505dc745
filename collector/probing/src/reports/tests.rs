use super::*;
use bytes::Bytes;
use fabriclens_probe_plan::{Hop, ReportedPair};
use std::time::Duration;

const NOW: i64 = 1_000_000_000_000;
const S: i64 = 1_000_000_000;

fn table() -> PlanTable {
    let mut table = PlanTable::default();
    let pairs: [([&str; 3], &[u16], Option<u16>); 2] =
        [(["p", "h2", "p"], &[50_000, 50_001], None), (["p", "h3", "p"], &[50_000], Some(49_200))];
    table.add("H1", Bytes::new(), pairs.into_iter());
    table
}

fn pair(host: &str) -> ReportedPair {
    ReportedPair { from: "p".into(), host: host.into(), port: "p".into() }
}

fn path(pair: u32, source_port: u32, at_ns: i64) -> TracedPath {
    let hops = vec![Hop { addresses: vec![vec![10, 0, 0, 1]] }];
    TracedPath { pair, source_port, traced_ns: at_ns as u64, hops, complete: true }
}

fn probe(pair: u32, source_port: u32, at_ns: i64) -> ProbeResult {
    let transport = Carrier::Rdma.into();
    ProbeResult { pair, source_port, sent_ns: at_ns as u64, rtt_ns: Some(5000), transport, ..ProbeResult::default() }
}

fn taken(paths: Vec<TracedPath>, probes: Vec<ProbeResult>) -> Taken {
    let pairs = vec![pair("h2"), pair("h3"), pair("h4")];
    let request = ReportRequest { host: "h1".into(), pairs, paths, probes, ..ReportRequest::default() };
    request.check().unwrap();
    let (present, last) = (table(), PlanTable::default());
    check(
        &Arc::new(Reporter { host: "h1".into(), unbound: None }),
        &request,
        [&present, &last],
        &mut Budgets::default(),
        Instant::now(),
        NOW,
    )
}

#[test]
fn planned_pairs_and_recent_times_are_taken() {
    let taken =
        taken(vec![path(0, 50_001, NOW - S)], vec![probe(0, 50_000, NOW + 2 * S), probe(1, 50_000, NOW - 59 * S)]);
    assert_eq!(taken.reply, ReportReply::default());
    assert_eq!((taken.traces.len(), taken.probes.len(), taken.counts["rdma"]), (1, 2, 2));
    let RouteUpdate::Probe { flow, answer_port, .. } = &taken.probes[1].1 else { panic!("a probe") };
    assert_eq!((flow.to.node.as_str(), flow.source_port, *answer_port), ("h3", Some(50_000), Some(49_200)));
}

#[test]
fn everything_else_is_refused_with_words() {
    let why = |paths, probes| {
        let taken = taken(paths, probes);
        assert_eq!((taken.traces.len(), taken.probes.len(), taken.reply.refused), (0, 0, 1));
        (taken.refused.into_keys().next().unwrap(), taken.reply.why)
    };
    let (reason, text) = why(vec![path(2, 50_000, NOW)], vec![]);
    assert!(reason == "pair" && text.contains("does not name the pair p to h4 p"), "{text}");
    assert_eq!(why(vec![path(0, 50_002, NOW)], vec![]).0, "source_port", "of another plan, or made up");
    assert_eq!(why(vec![], vec![probe(2, 50_000, NOW)]).0, "pair");
    assert_eq!(why(vec![], vec![probe(1, 50_001, NOW)]).0, "source_port");
    let (reason, text) = why(vec![], vec![probe(0, 50_000, NOW + 6 * S)]);
    assert!(reason == "future" && text.contains("6 s in the future; set the host's clock"), "{text}");
    assert_eq!(why(vec![], vec![probe(0, 50_000, NOW - 61 * S)]).0, "old");
    assert_eq!(why(vec![], vec![ProbeResult { rtt_ns: Some(u64::MAX), ..probe(0, 50_000, NOW) }]).0, "time");
    assert_eq!(why(vec![], vec![ProbeResult { sent_ns: u64::MAX, ..probe(0, 50_000, NOW) }]).0, "future");
    assert_eq!(why(vec![], vec![ProbeResult { transport: 9, ..probe(0, 50_000, NOW) }]).0, "transport");
}

#[test]
fn a_busy_prober_says_nothing_and_twins_need_no_source_port() {
    let busy = ProbeResult { own_ns: BUSY_NS + 1, rtt_ns: None, ..probe(0, 50_000, NOW) };
    let twin = ProbeResult { transport: Carrier::Tcp.into(), ..probe(0, 0, NOW) };
    let taken = taken(vec![], vec![busy, twin]);
    assert_eq!((taken.reply.refused, taken.counts["busy"], taken.counts["tcp"], taken.probes.len()), (0, 1, 1, 1));
}

#[test]
fn one_host_cannot_fill_the_feed() {
    let (mut budgets, now) = (Budgets::default(), Instant::now());
    let mut allowance = |at: Instant| {
        let mut left = budgets.take("H1", RESULTS, at);
        (0..RESULTS).filter(|_| left.one()).count()
    };
    assert_eq!([allowance(now), allowance(now), allowance(now)], [RESULTS, RESULTS, 0]);
    assert_eq!(allowance(now + Duration::from_secs(2)), 5000);
}
