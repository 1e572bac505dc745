//! Fault domains: an incident in one does not affect the other.

use crate::common::{USUAL, egress, fabric, host, moves, only, watch_on};
use fabriclens_correlate::Incident;
use fabriclens_correlate::{Fabric, Frame, IncidentKind, Job, Role, Signal, Thresholds};

const S: i64 = 1_000_000_000;

/// Job `left` has the hosts of one leaf, `right` those of the other except some, which move data too.
fn parted(stray: usize) -> Fabric {
    let fabric = fabric();
    let mut jobs = fabric.jobs.clone();
    for (job, (id, hosts)) in jobs.iter_mut().zip([("left", 0..4), ("right", 4..8 - stray)]) {
        id.clone_into(&mut job.id);
        job.ports = hosts.map(|h| host(&fabric, h)).collect();
    }
    Fabric::new(fabric.topology, fabric.ports, jobs)
}

fn watch(fabric: &Fabric, times: [usize; 3], fault: impl Fn(&Fabric, &mut Frame)) -> Vec<Incident> {
    watch_on(fabric, Thresholds::default(), |_, _| (), times, fault)
}

/// A NIC of `left` is a slow receiver.
fn held(fabric: &Fabric, frame: &mut Frame) {
    frame.set(Signal::PauseTx, host(fabric, 1), 0.5);
    frame.set(Signal::PauseFrames, host(fabric, 1), 12_000.0);
    frame.set(Signal::QueueMax, host(fabric, 1), 3e5);
    frame.set(Signal::PauseRx, egress(fabric, 1), 0.5);
}

/// A job moves six tenths of its former throughput.
fn loses(fabric: &Fabric, frame: &mut Frame, job: usize) {
    fabric.jobs[job].ports.iter().for_each(|port| moves(frame, *port, 0.6 * USUAL));
}

/// And more of its packets are marked.
fn is_marked(fabric: &Fabric, frame: &mut Frame, job: usize) {
    loses(fabric, frame, job);
    fabric.jobs[job].ports.iter().for_each(|port| frame.set(Signal::EcnRx, *port, 400.0));
}

/// Flows of a leaf share one of its two uplinks.
fn share_a_link(fabric: &Fabric, frame: &mut Frame, leaf: usize) {
    let up = &fabric.ports.of_node(leaf)[4..];
    frame.set(Signal::Tx, up[0], 0.1 * USUAL);
    frame.set(Signal::Tx, up[1], 1.9 * USUAL);
}

/// Kind, victims and second of detection, in that order.
fn told(mut found: Vec<Incident>) -> Vec<(IncidentKind, Vec<String>, i64)> {
    found.sort_by_key(|i| i.detected_ns);
    found.into_iter().map(|i| (i.kind, i.victim_jobs, i.detected_ns / S)).collect()
}

#[test]
fn jobs_of_other_domains_are_no_victims() {
    let found = watch(&parted(0), [80, 40, 0], |fabric, frame| {
        held(fabric, frame);
        (0..2).for_each(|job| loses(fabric, frame, job));
    });
    assert_eq!(only(found).victim_jobs, ["left"]);
}

/// One job has hosts at both leaves, another at the second alone.
#[test]
fn jobs_out_of_reach_are_no_victims() {
    let mut fabric = fabric();
    let jobs = [("wide", &[0, 1, 4, 5][..]), ("right", &[6, 7]), ("left", &[2, 3])].map(|(id, hosts)| Job {
        id: id.to_owned(),
        ports: hosts.iter().map(|h| host(&fabric, *h)).collect(),
        since_ns: i64::MIN,
    });
    fabric = Fabric::new(fabric.topology, fabric.ports, jobs.to_vec());
    let all_lose = |at: fn(&Fabric) -> usize| {
        let found = watch(&fabric, [80, 40, 0], |fabric, frame| {
            frame.set(Signal::WireErrors, at(fabric), 3.0);
            (0..3).for_each(|job| loses(fabric, frame, job));
        });
        let mut victims = only(found).victim_jobs;
        victims.sort();
        victims
    };
    assert_eq!(all_lose(|fabric| egress(fabric, 0)), ["left", "wide"]);
    assert_eq!(all_lose(|fabric| egress(fabric, 6)), ["right", "wide"]);
    let from_spine = |fabric: &Fabric| fabric.ports.of_node(10)[0];
    assert_eq!(all_lose(from_spine), ["left", "wide"], "its link to the first leaf");
}

#[test]
fn pause_joins_domains() {
    let found = watch(&parted(0), [80, 40, 0], |fabric, frame| {
        held(fabric, frame);
        (0..2).for_each(|job| loses(fabric, frame, job));
        // One leaf pauses the spines, and these pause the other leaf.
        for port in fabric.switch_ports().filter(|port| fabric.peer_node(*port).is_some_and(|n| n >= 8)) {
            let node = &fabric.topology.nodes[fabric.ports.list[port].end.node];
            let towards_left = node.role == Role::Spine && fabric.peer_node(port) == Some(8);
            if towards_left || node.name == "leaf1" {
                frame.set(Signal::PauseRx, port, 0.4);
                frame.set(Signal::PauseTx, fabric.ports.list[port].peer.unwrap(), 0.4);
            }
        }
    });
    assert_eq!(only(found).victim_jobs, ["left", "right"]);
}

#[test]
fn unknown_traffic_joins_domains() {
    let found = watch(&parted(1), [100, 80, 0], |fabric, frame| (0..2).for_each(|job| is_marked(fabric, frame, job)));
    assert_eq!(only(found).victim_jobs, ["left", "right"], "where its data goes nobody can tell");

    let rests = |fabric: &Fabric, frame: &mut Frame| moves(frame, host(fabric, 7), 0.001 * USUAL);
    let marked = |fabric: &Fabric, frame: &mut Frame| (0..2).for_each(|job| is_marked(fabric, frame, job));
    assert_eq!(
        watch_on(&parted(1), Thresholds::default(), rests, [100, 80, 0], marked).len(),
        2,
        "it moves next to nothing"
    );
}

#[test]
fn inferred_incidents_are_per_domain() {
    let found = watch(&parted(0), [100, 80, 0], |fabric, frame| {
        is_marked(fabric, frame, 0);
        if frame.time_ns >= 104 * S {
            is_marked(fabric, frame, 1);
        }
    });
    let found = told(found);
    let told: Vec<(IncidentKind, &[String])> = found.iter().map(|i| (i.0, &i.1[..])).collect();
    let congested = |job: &'static str| (IncidentKind::FabricCongestion, [job.to_owned()]);
    let [left, right] = ["left", "right"].map(congested);
    assert_eq!(told, [(left.0, &left.1[..]), (right.0, &right.1[..])]);
}

#[test]
fn closed_incident_affects_its_domain_only() {
    let found = watch(&parted(0), [100, 140, 0], |fabric, frame| {
        if frame.time_ns < 120 * S {
            held(fabric, frame);
        }
        // Half a minute after the other is over.
        if frame.time_ns >= 165 * S {
            is_marked(fabric, frame, 1);
        }
    });
    let told = told(found);
    let [(_, _, first), (kind, victims, second)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((*kind, &victims[..]), (IncidentKind::FabricCongestion, &["right".to_owned()][..]));
    assert!(*first < 105 && (165..200).contains(second), "{told:?}");
}

#[test]
fn loss_elsewhere_is_no_collision() {
    let jobs = |fabric: &Fabric| {
        let of = |(id, hosts): (&str, std::ops::Range<usize>)| Job {
            id: id.to_owned(),
            ports: hosts.map(|h| host(fabric, h)).collect(),
            since_ns: i64::MIN,
        };
        [("left", 0..3), ("wide", 3..5), ("right", 5..8)].map(of).to_vec()
    };
    let fabric = fabric();
    let jobs = jobs(&fabric);
    let fabric = Fabric::new(fabric.topology, fabric.ports, jobs);
    let collisions = |lose: &[usize]| {
        let found = watch(&fabric, [100, 60, 0], |fabric, frame| {
            share_a_link(fabric, frame, 8);
            lose.iter().for_each(|job| loses(fabric, frame, *job));
        });
        found.into_iter().filter(|i| i.kind == IncidentKind::EcmpCollision).map(|i| i.victim_jobs).collect::<Vec<_>>()
    };
    assert_eq!(collisions(&[2]), Vec::<Vec<String>>::new(), "its flows never pass there");
    assert_eq!(collisions(&[0, 2]), [["left"]]);
}

#[test]
fn two_collisions_are_two_incidents() {
    let found = watch(&parted(0), [100, 80, 0], |fabric, frame| {
        (0..2).for_each(|n| {
            share_a_link(fabric, frame, 8 + n);
            loses(fabric, frame, n);
        });
    });
    let mut told: Vec<_> = told(found).into_iter().map(|i| (i.0, i.1)).collect();
    told.sort();
    assert_eq!(told, ["left", "right"].map(|job| (IncidentKind::EcmpCollision, vec![job.to_owned()])));
}

#[test]
fn baseline_goes_on_in_healthy_domains() {
    let found = watch(&parted(0), [80, 200, 0], |fabric, frame| {
        held(fabric, frame);
        // A job doubles its throughput before it loses four tenths of that.
        let times = if frame.time_ns < 220 * S { 2.0 } else { 1.2 };
        for port in &fabric.jobs[1].ports {
            moves(frame, *port, times * USUAL);
            frame.set(Signal::EcnRx, *port, if times < 2.0 { 400.0 } else { 100.0 });
        }
    });
    let told = told(found);
    let [(..), (kind, victims, second)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((*kind, &victims[..]), (IncidentKind::FabricCongestion, &["right".to_owned()][..]));
    assert!((220..250).contains(second), "{told:?}");
}
