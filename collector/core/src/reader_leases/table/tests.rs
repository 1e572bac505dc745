//! Takeover, exclusion, restarts and bounds of reader leases.

use super::*;
use fabriclens_reader_lease::ASK_EVERY;
use std::time::Duration;

const A: &str = "mgmt-01";
const B: &str = "mgmt-02";
const SUBNET: &[u64] = &[10, 11, 12];
/// The requirement: the next reader takes over within this time.
const TAKEOVER: Duration = Duration::from_secs(10);

/// A table and its time.
struct Bench {
    table: LeaseTable,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self { table: LeaseTable::default(), now: Instant::now() }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn ask_as(&mut self, host: &str, agent: u64, switches: &[u64], reading: bool) -> Result<Decision, Refused> {
        let request = AskRequest { host: host.to_owned(), agent, switches: switches.to_vec(), reading };
        self.table.ask(Sender::Bound, &request, self.now)
    }

    fn ask(&mut self, host: &str, reading: bool) -> Decision {
        self.ask_as(host, 1, SUBNET, reading).unwrap()
    }

    /// Makes a host the reader of [`SUBNET`].
    fn with_reader(host: &str) -> Self {
        let mut bench = Self::new();
        assert!(bench.ask(host, true).granted);
        bench
    }

    fn holders(&mut self) -> Vec<String> {
        let now = self.now;
        self.table.holders(now).map(|(subnet, host, count)| format!("{subnet} {host} {count}")).collect()
    }
}

#[test]
fn first_candidate_gets_the_lease_when_nobody_else_can_have_it() {
    let mut bench = Bench::new();
    let first = bench.ask(A, false);
    assert_eq!((first.granted, first.holder, first.others), (false, None, 0), "another host may be reading");
    bench.pass(LEASE.as_secs() - 1);
    assert!(!bench.ask(A, false).granted);
    bench.pass(1);
    let granted = bench.ask(A, false);
    assert_eq!((granted.granted, granted.holder.as_deref(), granted.moved), (true, Some(A), true));
    assert!(!bench.ask(A, true).moved, "renewed");
}

#[test]
fn next_candidate_takes_over_from_a_silent_reader() {
    let mut bench = Bench::with_reader(A);
    for _ in 0..10 {
        bench.pass(ASK_EVERY.as_secs());
        let (a, b) = (bench.ask(A, true), bench.ask(B, false));
        assert!(a.granted && !b.granted && b.holder.as_deref() == Some(A));
    }
    assert_eq!(bench.ask(A, true).others, 1, "the reader knows that another host waits");
    let silent = bench.now;
    loop {
        bench.pass(ASK_EVERY.as_secs());
        let since = bench.now.duration_since(silent);
        let granted = bench.ask(B, false).granted;
        assert_eq!(granted, since >= LEASE, "after {since:?}: not before the lease of the other has ended");
        assert!(since < TAKEOVER);
        if granted {
            break;
        }
    }
    let back = bench.ask(A, true);
    assert_eq!((back.granted, back.holder.as_deref()), (false, Some(B)), "who returns does not get it back");
    assert!(bench.ask(B, true).granted);
}

#[test]
fn at_most_one_candidate_has_the_lease() {
    // Agents that ask at other times, stop at times, and believe in turns that they read.
    let mut bench = Bench::new();
    let mut until: Vec<Option<Instant>> = vec![None; 4];
    let (mut state, mut moves) = (7_u64, 0);
    for _ in 0..20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = state >> 33;
        bench.now += Duration::from_millis(random % 1500);
        let at = (random / 7 % 4) as usize;
        let reading = until[at].is_some_and(|until| until > bench.now);
        let decision = bench.ask(&format!("host-{at}"), reading).granted;
        moves += u32::from(decision && !reading);
        until[at] = decision.then_some(bench.now + LEASE);
        let holders = until.iter().flatten().filter(|until| **until > bench.now).count();
        assert!(holders <= 1, "{until:?} at {:?}", bench.now);
    }
    assert!(moves > 100, "the lease moved {moves} times");
}

#[test]
fn a_new_collector_leaves_the_subnet_to_its_reader() {
    let mut bench = Bench::new();
    assert!(!bench.ask(B, false).granted, "the waiting host asks first");
    bench.pass(LEASE.as_secs() - 1);
    assert!(bench.ask(A, true).granted);
    bench.pass(2);
    assert_eq!(bench.ask(B, false).holder.as_deref(), Some(A));
}

#[test]
fn two_readers_become_one() {
    let mut bench = Bench::with_reader(A);
    let other = bench.ask(B, true);
    assert_eq!((other.granted, other.holder.as_deref()), (false, Some(A)));
    // Two subnets that were joined by a cable.
    let mut bench = Bench::with_reader(A);
    assert!(bench.ask_as(B, 1, &[20, 21], true).unwrap().granted, "another subnet");
    let joined = [10, 11, 12, 20, 21];
    assert!(bench.ask_as(A, 1, &joined, true).unwrap().granted, "the older lease is kept");
    assert!(!bench.ask_as(B, 1, &[20, 21], true).unwrap().granted);
    assert_eq!(bench.holders(), [format!("{} {A} 2", hex(10))]);
}

#[test]
fn subnet_is_known_by_any_switch_and_its_parts_are_two() {
    let mut bench = Bench::with_reader(A);
    assert!(!bench.ask_as(B, 1, &[12, 13], true).unwrap().granted, "one common switch");
    // The fabric breaks into two.
    assert!(bench.ask_as(A, 1, &[10, 11], true).unwrap().granted);
    assert!(bench.ask_as(B, 1, &[12, 13], true).unwrap().granted);
    assert_eq!(bench.holders(), [format!("{} {A} 1", hex(10)), format!("{} {B} 1", hex(12))]);
}

#[test]
fn agents_of_one_host_name_exclude_each_other() {
    let mut bench = Bench::with_reader(A);
    assert!(!bench.ask_as("MGMT-01", 2, SUBNET, true).unwrap().granted);
    assert!(bench.ask_as("MGMT-01", 1, SUBNET, true).unwrap().granted, "the same agent");
}

#[test]
fn candidates_are_bounded_and_forgotten() {
    let mut bench = Bench::new();
    for agent in 0..OF_HOST as u64 {
        bench.ask_as(A, agent, SUBNET, false).unwrap();
    }
    assert_eq!(bench.ask_as(A, 99, SUBNET, false), Err(Refused::Full), "one host takes few places");
    for n in OF_HOST..CANDIDATES {
        bench.ask_as(&format!("h{n}"), 1, &[n as u64], false).unwrap();
    }
    assert_eq!(bench.ask_as("more", 1, SUBNET, true), Err(Refused::Full));
    assert!(bench.ask_as(A, 1, SUBNET, true).unwrap().granted, "known ones go on");
    bench.pass(LEASE.as_secs());
    assert!(bench.holders().is_empty());
    assert!(bench.ask_as("more", 1, SUBNET, true).unwrap().granted, "silent ones are forgotten");
}

#[test]
fn requests_that_name_nothing_are_refused() {
    let mut bench = Bench::new();
    for host in ["", "a\nb", &"x".repeat(HOST_BYTES + 1)] {
        assert_eq!(bench.ask_as(host, 1, SUBNET, true), Err(Refused::Host));
    }
    for switches in [&[][..], &[0], &[1; SWITCHES + 1]] {
        assert_eq!(bench.ask_as(A, 1, switches, true), Err(Refused::Switches));
    }
}

#[test]
fn invented_hosts_leave_room_to_others() {
    let mut bench = Bench::new();
    let fill = |bench: &mut Bench, name: &str| {
        let ask = |n: u64| {
            let request = AskRequest { host: format!("{name}-{n}"), agent: n, switches: vec![n + 1], reading: true };
            bench.table.ask(Sender::Unbound(name), &request, bench.now)
        };
        (0..600).map(ask).filter(Result::is_ok).count()
    };
    let filled = ["a", "b", "c", "d"].map(|name| fill(&mut bench, name));
    assert_eq!(filled, [128, 128, 128, 0]);
    assert!(bench.ask_as(A, 1, &[1 << 40], true).unwrap().granted, "a quarter is kept for those bound to hosts");
}

#[test]
fn a_bound_candidate_takes_the_lease_of_one_that_could_be_any_host() {
    let mut bench = Bench::new();
    let invented = AskRequest { host: "evil".into(), agent: 1, switches: SUBNET.to_vec(), reading: true };
    let now = bench.now;
    assert!(bench.table.ask(Sender::Unbound("token"), &invented, now).unwrap().granted);
    let own = bench.ask(A, true);
    assert_eq!((own.granted, own.holder.as_deref(), own.moved), (true, Some(A), true));
    let lost = bench.table.ask(Sender::Unbound("token"), &invented, now).unwrap();
    assert_eq!((lost.granted, lost.holder.as_deref()), (false, Some(A)));
    assert!(bench.ask(A, true).granted);
}
