//! What is sent, and what is told of paths.

use crate::fabric::{Bench, RATE, ROCE, TARGET, by, ip, switch, target};
use fabriclens_agent_tracer::Paths;
use fabriclens_agent_tracer::distance::PORT;
use fabriclens_agent_tracer::transport::{IcmpError, IcmpKind};
use std::net::IpAddr;
use std::time::Duration;

const SHORT: Duration = Duration::from_secs(20);

fn each(path: &[IpAddr]) -> (Vec<Vec<IpAddr>>, bool) {
    (path.iter().map(|address| vec![*address]).collect(), true)
}

#[test]
fn each_source_port_has_its_path_and_nothing_arrives() {
    let ports: Vec<u16> = (50_000..50_016).collect();
    let paths: Vec<(u16, &str)> = ports.iter().map(|p| (*p, if p % 3 == 0 { "spine2" } else { "spine1" })).collect();
    let mut bench = Bench::new(&paths, &ports);
    assert_eq!(bench.run(SHORT).len(), 16, "each path is told once");
    for (port, spine) in paths {
        assert_eq!(bench.path(port), each(&by(spine)), "{port}");
    }
    bench.check_that_none_arrived();
    let sent = bench.fabric.borrow().sent.clone();
    assert!(sent.iter().all(|sent| sent.flow.traffic_class == 104 && sent.flow.local.ip() == ip("10.0.1.1")));
    assert!(
        sent.iter().all(|sent| sent.data[..2] == [0xFF, 0x0F]),
        "an adapter that gets it drops it by its first bytes"
    );
    let (traces, searches) = (bench.fabric.borrow().to(ROCE, 0).len(), bench.fabric.borrow().to(PORT, 0).len());
    assert_eq!(searches, 4, "one search for the target");
    assert!(
        (9 + 15 * 6..16 * 9).contains(&traces),
        "three answers of each switch, of the first only until it is known: {traces}"
    );
    assert_eq!(bench.tracer.paths(), Paths { known: 16, ..Paths::default() });
}

#[test]
fn a_port_sends_no_more_than_its_budget() {
    let ports: Vec<u16> = (50_000..50_064).collect();
    let mut bench = Bench::new(&[], &ports);
    for second in 1..=8 {
        bench.run(Duration::from_secs(1));
        let sent = bench.fabric.borrow().sent.len();
        assert!(sent <= (second * RATE + RATE / 10) as usize, "{sent} after {second} s");
    }
    assert!(bench.fabric.borrow().sent.len() > 7 * RATE as usize, "the budget is used");
}

#[test]
fn paths_are_looked_at_again_with_few_datagrams_and_told_each_few_minutes() {
    let mut bench = Bench::new(&[], &[50_000]);
    bench.run(SHORT);
    let before = bench.fabric.borrow().sent.len();
    assert!(bench.run(Duration::from_secs(120)).is_empty(), "nothing new");
    assert_eq!(
        bench.fabric.borrow().to(ROCE, before).len(),
        2 * 2,
        "two looks with one answer of each switch but the first"
    );
    assert_eq!(bench.run(Duration::from_secs(60)).len(), 1, "told again");
}

#[test]
fn a_path_that_moved_is_found_and_its_neighbors_are_traced_at_once() {
    let mut bench = Bench::new(&[], &[50_000]);
    bench.run(SHORT);
    bench.tracer.set_targets(vec![target(&[50_000, 50_001])], bench.now);
    bench.run(SHORT);
    bench.fabric.borrow_mut().paths.insert(0, by("spine2"));
    // The first is looked at after a minute. The second, 20 seconds before its turn, is traced then too.
    bench.run(Duration::from_secs(25));
    assert_eq!((bench.path(50_000), bench.path(50_001)), (each(&by("spine2")), each(&by("spine2"))));
    bench.check_that_none_arrived();
    // A longer way is searched for again, so that the last leaf is met.
    let long = [&by("spine1")[..2], &[ip("10.9.5.1"), ip("10.9.6.1")], &by("spine1")[2..]].concat();
    bench.fabric.borrow_mut().paths.insert(0, long.clone());
    bench.run(Duration::from_secs(120));
    assert_eq!(bench.path(50_000), each(&long));
}

#[test]
fn a_switch_that_does_not_answer_is_an_empty_hop() {
    let mut bench = Bench::new(&[], &[50_000]);
    bench.fabric.borrow_mut().silent.insert(switch("spine1"));
    bench.run(Duration::from_secs(60));
    let hops = vec![vec![switch("leaf1")], vec![], vec![switch("leaf2")]];
    assert_eq!(bench.path(50_000), (hops, true));
    assert_eq!(bench.tracer.paths(), Paths { partial: 1, ..Paths::default() });
    bench.check_that_none_arrived();
    // It answers again.
    bench.fabric.borrow_mut().silent.clear();
    bench.run(Duration::from_secs(90));
    assert_eq!(bench.path(50_000), each(&by("spine1")));
}

#[test]
fn switches_that_limit_their_answers_are_asked_less_often() {
    let ports: Vec<u16> = (50_000..50_032).collect();
    let mut bench = Bench::new(&[], &ports);
    bench.fabric.borrow_mut().answers_per_second = Some(1);
    bench.run(Duration::from_secs(300));
    let paths = bench.tracer.paths();
    assert!(paths.known >= 30, "{paths:?}");
    let before = bench.tracer.stats();
    bench.run(Duration::from_secs(300));
    let (after, paths) = (bench.tracer.stats(), bench.tracer.paths());
    let (sent, silent) = (after.sent - before.sent, after.silent - before.silent);
    assert!(paths.known == 32 && sent < 900 && silent * 4 < sent, "{silent} of {sent} without an answer, {paths:?}");
    bench.check_that_none_arrived();
}

#[test]
fn a_fabric_that_answers_nothing_is_left_in_peace() {
    let mut bench = Bench::new(&[], &[50_000, 50_001]);
    let all = by("spine1").into_iter().chain([ip(TARGET)]);
    bench.fabric.borrow_mut().silent.extend(all);
    bench.run(Duration::from_secs(3600));
    let fabric = bench.fabric.borrow();
    assert!(fabric.to(ROCE, 0).is_empty(), "the target may be anywhere");
    // 6 datagrams a search, after 0, 1, 2, 4, 8 and 16 minutes, and each 16 minutes from then on.
    assert!(fabric.sent.len() <= 7 * 6, "{} in an hour", fabric.sent.len());
    drop(fabric);
    assert_eq!(bench.path(50_000), (vec![], false));
    assert_eq!(bench.tracer.paths(), Paths { unknown: 2, ..Paths::default() });
}

#[test]
fn a_target_that_does_not_answer_is_traced_up_to_the_last_switch() {
    let mut bench = Bench::new(&[], &[50_000]);
    bench.fabric.borrow_mut().silent.insert(ip(TARGET));
    bench.run(Duration::from_secs(60));
    assert_eq!(bench.path(50_000), (each(&by("spine1")).0, false), "there may be more switches");
    bench.check_that_none_arrived();
}

#[test]
fn a_target_that_limits_its_answers_is_not_taken_to_be_farther() {
    let mut bench = Bench::new(&[], &[50_000]);
    bench.fabric.borrow_mut().limited = 3;
    bench.run(Duration::from_secs(60));
    assert_eq!(bench.path(50_000), each(&by("spine1")));
    bench.check_that_none_arrived();
}

#[test]
fn a_target_on_the_same_network_has_no_switch() {
    let mut bench = Bench::new(&[], &[50_000]);
    bench.fabric.borrow_mut().paths.insert(0, vec![]);
    bench.run(SHORT);
    assert_eq!(bench.path(50_000), (vec![], true));
    assert!(bench.fabric.borrow().to(ROCE, 0).is_empty());
}

#[test]
fn answers_that_are_forged_or_of_others_are_ignored() {
    let mut bench = Bench::new(&[], &[50_000]);
    let forged = |kind, quoted: &[u8]| IcmpError { kind, from: ip("10.6.6.6"), quoted: quoted.to_vec() };
    bench.fabric.borrow_mut().forged = vec![
        forged(IcmpKind::TimeExceeded, &[0; 20]),
        forged(IcmpKind::PortUnreachable, b"\xFF\x0F\0\0\0\0\0\0\0\0\0\0 of other"),
        forged(IcmpKind::Other, b""),
    ];
    bench.run(SHORT);
    assert_eq!(bench.path(50_000), each(&by("spine1")));
    let stats = bench.tracer.stats();
    assert_eq!(stats.ignored, 3 * stats.sent);
}

#[test]
fn late_answers_are_ignored_also_if_they_quote_nothing() {
    for quoted in [0, 64] {
        let mut bench = Bench::new(&[], &[50_000]);
        {
            let mut fabric = bench.fabric.borrow_mut();
            // The search has quick answers, so that traces are begun.
            (fabric.quoted, fabric.delay) = (quoted, Duration::from_millis(700));
        }
        bench.run(Duration::from_secs(60));
        assert_eq!(bench.path(50_000), each(&by("spine1")), "slow, and in time");
        let answers = bench.tracer.stats().answers;
        bench.fabric.borrow_mut().delay = Duration::from_millis(1500);
        bench.run(Duration::from_secs(300));
        assert_eq!(
            bench.tracer.stats().answers,
            answers,
            "an answer after its time is none, with {quoted} bytes quoted"
        );
        assert!(bench.tracer.stats().ignored >= 10);
        let hops = vec![vec![switch("leaf1")], vec![], vec![]];
        assert_eq!(bench.path(50_000), (hops, true), "the first is known for ten minutes, the others no longer");
    }
}

#[test]
fn routers_that_quote_only_the_ports_are_known_too() {
    let mut bench = Bench::new(&[], &[50_000]);
    bench.fabric.borrow_mut().quoted = 0;
    bench.run(SHORT);
    assert_eq!(bench.path(50_000), each(&by("spine1")));
}

#[test]
fn a_source_port_that_is_taken_is_named_and_the_others_are_traced() {
    let mut bench = Bench::new(&[], &[50_000, 50_001]);
    bench.fabric.borrow_mut().taken.insert(50_000);
    bench.run(SHORT);
    assert_eq!((bench.path(50_000), bench.path(50_001)), ((vec![], false), each(&by("spine1"))));
    let problems = bench.tracer.problems();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("rxe0/1: source port 50000: another socket of this host has it"), "{problems:?}");
    bench.fabric.borrow_mut().taken.clear();
    bench.run(Duration::from_secs(120));
    assert_eq!((bench.path(50_000), bench.tracer.problems()), (each(&by("spine1")), vec![]));
}

#[test]
fn without_a_plan_nothing_is_sent_and_a_plan_that_stays_is_not_begun_anew() {
    let mut bench = Bench::new(&[], &[50_000]);
    bench.run(SHORT);
    bench.tracer.set_targets(vec![target(&[50_000, 50_001])], bench.now);
    let before = bench.fabric.borrow().sent.len();
    bench.run(SHORT);
    assert_eq!(bench.fabric.borrow().to(ROCE, before).len(), 6, "the new source port alone");
    bench.tracer.set_targets(vec![], bench.now);
    let before = bench.fabric.borrow().sent.len();
    bench.run(Duration::from_secs(600));
    assert_eq!(bench.fabric.borrow().sent.len(), before);
}

#[test]
fn a_plan_of_a_hundred_thousand_paths_is_cut_and_counted() {
    let mut bench = Bench::new(&[], &[]);
    let many = (0..2000).map(|n: u32| {
        let address = IpAddr::from((u32::from_be_bytes([10, 1, 0, 0]) + n).to_be_bytes());
        fabriclens_agent_tracer::TraceTarget { address, ..target(&(50_000..50_050).collect::<Vec<_>>()) }
    });
    bench.tracer.set_targets(many.collect(), bench.now);
    assert_eq!(bench.tracer.paths(), Paths { unknown: 8192, left_out: 100_000 - 8192, ..Paths::default() });
    bench.run(Duration::from_secs(2));
    assert!(bench.fabric.borrow().sent.len() <= 2 * RATE as usize + 5);
}
