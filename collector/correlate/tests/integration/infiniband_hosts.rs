//! Missing credits seen from hosts alone.

use crate::common::{USUAL, fabric, host, moves, only, port, watch_on};
use crate::infiniband::{hosts_only, infiniband, waits, watch, without_waits};
use fabriclens_correlate::{Fabric, Frame, Incident, IncidentKind, Job, Signal, Thresholds};
use std::collections::HashSet;

fn slow_h6(i: &Incident) -> bool {
    i.kind == IncidentKind::SlowReceiver && i.root == port("h6", "1")
}

#[test]
fn the_member_that_does_not_wait_for_itself_is_the_slow_receiver() {
    let waits_of = |hosts: &'static [usize], receives: f64, unread: fn(&Fabric, &mut Frame)| {
        watch(0.0, move |fabric, frame| {
            hosts.iter().for_each(|h| waits(frame, host(fabric, *h), 0.3));
            frame.set(Signal::Rx, host(fabric, 6), receives * USUAL);
            unread(fabric, frame);
        })
    };
    let wait_at = |hosts, receives| waits_of(hosts, receives, hosts_only);
    for unread in [hosts_only, without_waits] {
        let found = only(waits_of(&[0, 2, 4], 0.6, unread));
        assert!(slow_h6(&found) && found.confidence >= 0.5, "{found:?}");
    }
    let with = |hosts| wait_at(hosts, 0.6).into_iter().all(|i| !slow_h6(&i) || i.confidence < 0.5);
    assert!(with(&[0, 2, 4, 7]), "h7 does not send to h6: a link of their leaf is slow");
    assert!(with(&[0, 2]), "two may be the ends of a slow link");
    assert!(with(&[0, 2, 4, 6]), "h6 waits too");
    assert!(!wait_at(&[0, 2, 4], 1.4).iter().any(slow_h6), "it receives more than before");
}

#[test]
fn members_of_one_leaf_may_wait_for_their_uplink() {
    let mut fabric = fabric();
    let ports = [0, 1, 2, 6].map(|h| host(&fabric, h)).to_vec();
    fabric.set_jobs(vec![Job { id: "near".into(), ports, since_ns: i64::MIN }], &HashSet::new());
    let found = watch_on(&fabric, Thresholds::default(), infiniband(0.0), [70, 60, 0], |fabric, frame| {
        [0, 1, 2].iter().for_each(|h| waits(frame, host(fabric, *h), 0.3));
        hosts_only(fabric, frame);
    });
    assert!(!found.iter().any(slow_h6), "{found:?}");
}

#[test]
fn the_receiver_of_a_waiting_host_with_a_constant_rate_is_slow() {
    let drained = |sent: f64, rate: f64, also: Option<usize>, unread: fn(&Fabric, &mut Frame)| {
        watch(0.0, move |fabric, frame| {
            waits(frame, host(fabric, 0), 0.4);
            also.iter().for_each(|h| waits(frame, host(fabric, *h), 0.4));
            frame.set(Signal::Tx, host(fabric, 0), sent * USUAL);
            frame.set(Signal::Rx, host(fabric, 6), rate * USUAL);
            unread(fabric, frame);
        })
    };
    let drains = |sent, rate, also| drained(sent, rate, also, hosts_only);
    for unread in [hosts_only, without_waits] {
        let found = drained(0.4, 0.4, None, unread);
        assert!(found.iter().any(|i| slow_h6(i) && i.confidence >= 0.5), "{found:?}");
    }
    assert!(drains(0.4, 0.4, Some(2)).iter().all(|i| i.confidence < 0.5), "two that wait share a link");
    let doubted = drains(0.4, 0.4, Some(7));
    assert!(doubted.iter().all(|i| i.confidence < 0.5), "hosts at both ends of its leaf's links wait");
    assert!(!drains(0.9, 0.9, None).iter().any(slow_h6), "it receives as fast as before");
    assert!(!drains(0.8, 0.4, None).iter().any(slow_h6), "h0 sends to another host");
}

#[test]
fn a_job_that_runs_faster_overloads_none_of_its_hosts() {
    let even = |fabric: &Fabric, frame: &mut Frame, times: f64| {
        [0, 2, 4, 6].iter().for_each(|h| moves(frame, host(fabric, *h), times * USUAL));
        frame.set(Signal::Rx, host(fabric, 6), 1.4 * USUAL);
        waits(frame, host(fabric, 0), 0.3);
        hosts_only(fabric, frame);
    };
    let incast = |i: &Incident| i.kind == IncidentKind::Incast;
    assert!(watch(0.0, move |fabric, frame| even(fabric, frame, 1.0)).iter().any(incast), "h6 alone receives more");
    assert!(!watch(0.0, move |fabric, frame| even(fabric, frame, 1.35)).iter().any(incast), "all receive more");
    let freed = watch(0.6, move |fabric, frame| {
        even(fabric, frame, 1.0);
        [0, 2].iter().for_each(|h| waits(frame, host(fabric, *h), 0.0));
        waits(frame, host(fabric, 4), 0.3);
    });
    assert!(!freed.iter().any(incast), "its hosts waited before, and wait less now");
    let others = watch(0.0, move |fabric, frame| {
        even(fabric, frame, 1.0);
        waits(frame, host(fabric, 0), 0.0);
        waits(frame, host(fabric, 1), 0.3);
    });
    assert!(!others.iter().any(incast), "none of its senders waits");
}

#[test]
fn near_senders_of_a_slow_receiver_need_not_wait() {
    let mut fabric = fabric();
    let ports = [0, 1, 2, 5, 6].map(|h| host(&fabric, h)).to_vec();
    fabric.set_jobs(vec![Job { id: "mixed".into(), ports, since_ns: i64::MIN }], &HashSet::new());
    let wait_at = |hosts: &'static [usize]| {
        watch_on(&fabric, Thresholds::default(), infiniband(0.0), [70, 60, 0], move |fabric, frame| {
            hosts.iter().for_each(|h| waits(frame, host(fabric, *h), 0.4));
            frame.set(Signal::Rx, host(fabric, 6), 0.4 * USUAL);
            hosts_only(fabric, frame);
        })
    };
    let found = wait_at(&[0, 1, 2]);
    assert!(found.iter().any(|i| slow_h6(i) && i.confidence >= 0.5), "{found:?}");
    let doubted = wait_at(&[0, 1, 2, 7]);
    assert!(doubted.iter().all(|i| !slow_h6(i) || i.confidence < 0.5), "h7 does not send to h6: {doubted:?}");
}
