use super::*;
use crate::refusal::Refusal::{Forged, Impossible, Late, OtherRun, Repeated};

const MS: Duration = Duration::from_millis(1);

fn peer(queue_pair: u32) -> Peer {
    Peer { address: Some([10, 77, 0, 2].into()), lid: 0, queue_pair }
}

fn target() -> Arc<Target> {
    Arc::new(Target { host: "gpu-02".into(), ..Target::default() })
}

fn arrived(probe: &Message) -> Message {
    Message { kind: Kind::Arrived, ..*probe }
}

fn times(probe: &Message, t3: u64, t4: u64) -> Message {
    Message { kind: Kind::Times, hardware_time: true, t3, t4, ..*probe }
}

/// One probe that was posted at 10 ms and sent at 500 ns of the NIC's clock.
fn one() -> (Flights, Message) {
    let mut flights = Flights::new(7, true);
    let probe = flights.begin(target(), peer(17), 10 * MS, 1_000).unwrap();
    assert_eq!(flights.sent(probe.sequence, 500, Some(50_000), 10 * MS), Ok(None));
    (flights, probe)
}

fn outcome(end: Option<End>) -> Outcome {
    match end {
        Some(End::Outcome(outcome)) => outcome,
        other => panic!("{other:?}"),
    }
}

#[test]
fn delays_of_both_hosts_are_not_the_networks() {
    // 3 us on the network, 40 us at the responder, and the own host handles the answers 2 ms after the probe was posted.
    let want = Answer { rtt_ns: 3_000, turn_ns: 40_000, hardware_time: true };
    for acks_swapped in [false, true] {
        let (mut flights, probe) = one();
        let mut acks = [(arrived(&probe), 43_500), (times(&probe, 900_000, 940_000), 44_000)];
        if acks_swapped {
            acks.reverse();
        }
        let first = flights.answered(&acks[0].0, &peer(17), acks[0].1, 11 * MS);
        assert_eq!(first, Ok(None));
        let found = outcome(flights.answered(&acks[1].0, &peer(17), acks[1].1, 12 * MS).unwrap());
        assert_eq!((found.answer, found.own_ns), (Some(want), 2_000_000 - 43_000));
        assert_eq!((found.target, found.source_port, found.sent_ns), (target(), Some(50_000), 1_000));
    }
}

#[test]
fn the_own_send_may_be_known_last() {
    let mut flights = Flights::new(7, true);
    let probe = flights.begin(target(), peer(17), 10 * MS, 1_000).unwrap();
    assert_eq!(flights.answered(&arrived(&probe), &peer(17), 5_000, 11 * MS), Ok(None));
    assert_eq!(flights.answered(&times(&probe, 1, 2), &peer(17), 6_000, 11 * MS), Ok(None));
    let found = outcome(flights.sent(probe.sequence, 1_000, None, 11 * MS).unwrap());
    assert_eq!(found.answer.map(|answer| answer.rtt_ns), Some(3_999));
}

#[test]
fn answers_that_cannot_be_are_refused() {
    let (mut flights, probe) = one();
    let now = 11 * MS;
    let mut refused = |message: Message, from: Peer| flights.answered(&message, &from, 4_000, now).unwrap_err();
    assert_eq!(refused(arrived(&probe), peer(18)), Forged, "another queue pair");
    assert_eq!(refused(Message { t1: probe.t1 + 1, ..arrived(&probe) }, peer(17)), Forged);
    assert_eq!(refused(Message { sequence: probe.sequence + 1, ..arrived(&probe) }, peer(17)), Forged, "never sent");
    assert_eq!(refused(Message { sequence: probe.sequence ^ 1 << 40, ..arrived(&probe) }, peer(17)), OtherRun);
    assert_eq!(flights.answered(&arrived(&probe), &peer(17), 4_000, now), Ok(None));
    let again = flights.answered(&arrived(&probe), &peer(17), 4_000, now);
    assert_eq!(again, Err(Repeated));
    assert!(flights.answered(&times(&probe, 10, 20), &peer(17), 4_000, now).unwrap().is_some(), "still measured");
    assert_eq!(flights.answered(&times(&probe, 10, 20), &peer(17), 4_000, now), Err(Repeated));
}

#[test]
fn impossible_times_give_no_outcome() {
    let cases = [
        ("the responder took longer than the round trip", 4_000, 0, 10_000),
        ("the responder's clock went back", 4_000, 10, 5),
        ("the own NIC's clock went back", 400, 0, 0),
        ("the NIC says 10 s, the host 1 ms", 10_000_000_000, 0, 0),
    ];
    for (what, t5, t3, t4) in cases {
        let (mut flights, probe) = one();
        assert_eq!(flights.answered(&arrived(&probe), &peer(17), t5, 11 * MS), Ok(None), "{what}");
        assert_eq!(flights.answered(&times(&probe, t3, t4), &peer(17), t5, 11 * MS), Err(Impossible), "{what}");
        let mut ends = Vec::new();
        flights.expire(3000 * MS, |end| ends.push(end));
        assert_eq!(ends, [], "{what}: nor is it lost");
    }
}

#[test]
fn a_probe_without_answer_is_lost_once_and_its_late_answer_refused() {
    let (mut flights, probe) = one();
    let mut ends = Vec::new();
    flights.expire(10 * MS + TIMEOUT - MS, |end| ends.push(end));
    assert_eq!((ends.len(), flights.next_end()), (0, Some(10 * MS + TIMEOUT)));
    for _ in 0..2 {
        flights.expire(10 * MS + TIMEOUT, |end| ends.push(end));
    }
    let lost = outcome(ends.first().cloned());
    assert_eq!((ends.len(), lost.answer, flights.next_end()), (1, None, None));
    let late = |flights: &mut Flights, at| flights.answered(&arrived(&probe), &peer(17), 4_000, at);
    assert_eq!(late(&mut flights, 2100 * MS), Err(Late));
    flights.expire(10 * MS + REMEMBERED, |_| panic!("ended before"));
    assert_eq!(late(&mut flights, 6000 * MS), Err(Late), "forgotten");
}

#[test]
fn nothing_is_lost_where_the_own_host_or_port_is_at_fault() {
    let expired = |flights: &mut Flights| {
        let mut ends = Vec::new();
        flights.expire(3000 * MS, |end| ends.push(end));
        ends
    };
    let (mut flights, _) = one();
    flights.stalled(STALL);
    assert_eq!(expired(&mut flights), [End::Discard(Discard::Stalled)]);
    let (mut flights, probe) = one();
    flights.answered(&arrived(&probe), &peer(17), 4_000, 11 * MS).unwrap();
    assert_eq!(expired(&mut flights), [End::Discard(Discard::HalfAnswered)]);
    let mut flights = Flights::new(7, true);
    flights.begin(target(), peer(17), MS, 1).unwrap();
    assert_eq!(expired(&mut flights), [End::Discard(Discard::Unsent)]);
}

#[test]
fn counters_go_on_over_their_wrap_and_memory_is_bounded() {
    let mut flights = Flights::new(1, true);
    flights.first = u32::MAX - 1;
    let probes: Vec<_> = (0..4).map(|_| flights.begin(target(), peer(17), MS, 1).unwrap()).collect();
    assert_eq!(probes[2].sequence, 1 << 32, "the counter wrapped");
    for probe in &probes {
        assert_eq!(flights.answered(&arrived(probe), &peer(17), 4_000, 2 * MS), Ok(None));
    }
    flights.take_back();
    assert_eq!(flights.answered(&arrived(&probes[3]), &peer(17), 4_000, 2 * MS), Err(Forged), "taken back");
    let begun = (0..20_000).filter(|_| flights.begin(target(), peer(17), MS, 1).is_some()).count();
    assert_eq!(begun, MOST - 3);
    flights.expire(6000 * MS, |_| ());
    assert!(flights.begin(target(), peer(17), 6000 * MS, 1).is_some() && flights.entries.len() == 1);
}

#[test]
fn times_of_hosts_are_blurred_by_their_delays() {
    let rtt = |own_hardware, hardware_time, t4| {
        let mut flights = Flights::new(7, own_hardware);
        let probe = flights.begin(target(), peer(17), 10 * MS, 1_000).unwrap();
        flights.sent(probe.sequence, 500, None, 10 * MS).unwrap();
        flights.answered(&arrived(&probe), &peer(17), 1_000_500, 11 * MS).unwrap();
        let times = Message { hardware_time, ..times(&probe, 5_000, t4) };
        flights.answered(&times, &peer(17), 0, 12 * MS).map(|end| outcome(end).answer.unwrap().rtt_ns)
    };
    // The responder says 1.2 ms of the 1 ms that the answer took.
    assert_eq!(rtt(true, true, 1_205_000), Err(Impossible));
    assert_eq!([rtt(true, false, 1_205_000), rtt(false, true, 1_205_000)], [Ok(0), Ok(0)], "no time that can be told");
    assert_eq!(rtt(false, false, 405_000), Ok(600_000), "not changed");
    assert_eq!(rtt(false, false, 4_000), Err(Impossible), "its clock went back");
}
