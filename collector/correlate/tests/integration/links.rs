//! Detectors for links: down, flapping, slow, with fewer lanes.

use crate::common::{RATE, fabric, host, link, only, port, rails, watch, watch_on};
use fabriclens_correlate::Location;
use fabriclens_correlate::{Fabric, Frame, IncidentKind, Ports, Signal, Thresholds, Topology};

/// Both ends of the cables at these ports are down and carry nothing.
fn down(fabric: &Fabric, frame: &mut Frame, ports: &[usize]) {
    for port in ports.iter().flat_map(|p| [Some(*p), fabric.ports.list[*p].peer]).flatten() {
        for signal in [Signal::Up, Signal::Tx, Signal::Rx, Signal::RxPackets] {
            frame.set(signal, port, 0.0);
        }
    }
}

#[test]
fn link_down_is_found() {
    let found = only(watch(60, 20, 30, |fabric, frame| down(fabric, frame, &[fabric.ports.of_node(8)[4]])));
    assert_eq!((found.kind, found.root), (IncidentKind::LinkDown, link("leaf0", "spine0")));
    assert_eq!((found.start_ns, found.detected_ns), (60_000_000_000, 61_000_000_000));
    assert!(found.end_ns.is_some());
}

#[test]
fn falls_between_samples_are_counted_by_the_device() {
    let fell = |times: f64| {
        watch(60, 20, 0, |fabric, frame| {
            let ends = [fabric.ports.of_node(8)[4], fabric.ports.of_node(10)[0]];
            ends.iter().for_each(|port| frame.set(Signal::Falls, *port, times / 20.0));
        })
    };
    let found = only(fell(3.0));
    assert_eq!((found.kind, found.root), (IncidentKind::LinkFlap, link("leaf0", "spine0")));
    assert_eq!(found.start_ns, 60_000_000_000, "the first of them");
    assert_eq!(fell(2.0).len(), 0);
}

#[test]
fn unused_port_is_no_incident() {
    let off = |fabric: &Fabric, frame: &mut Frame| down(fabric, frame, &[host(fabric, 2)]);
    assert_eq!(watch_on(&fabric(), Thresholds::default(), off, [60, 30, 0], |_, _| ()).len(), 0);
}

#[test]
fn dead_switch_is_one_incident() {
    let found = only(watch(60, 20, 0, |fabric, frame| {
        let spine = fabric.ports.of_node(10).to_vec();
        down(fabric, frame, &spine);
        // Its own counters are gone with it.
        for port in spine {
            frame.set(Signal::Up, port, f64::NAN);
        }
    }));
    assert_eq!((found.kind, found.root), (IncidentKind::LinkDown, Location::Switch { node: "spine0".into() }));
    let leaf = only(watch(60, 20, 0, |fabric, frame| down(fabric, frame, fabric.ports.of_node(8))));
    assert_eq!((leaf.kind, leaf.root), (IncidentKind::LinkDown, Location::Switch { node: "leaf0".into() }));
}

#[test]
fn link_still_down_splits_off() {
    let found = watch(60, 130, 30, |fabric, frame| {
        let spine = fabric.ports.of_node(10).to_vec();
        let second = frame.time_ns / 1_000_000_000;
        down(fabric, frame, if second < 100 { &spine } else { &spine[..1] });
    });
    let [whole, part] = &found[..] else { panic!("{found:?}") };
    assert_eq!((whole.kind, &whole.root), (IncidentKind::LinkDown, &Location::Switch { node: "spine0".into() }));
    assert_eq!((whole.start_ns, whole.end_ns), (60_000_000_000, Some(99_000_000_000)), "as long as it was the switch");
    assert_eq!((part.kind, &part.root), (IncidentKind::LinkDown, &link("leaf0", "spine0")));
    assert_eq!((part.start_ns, &part.split_from), (60_000_000_000, &Some(whole.id.clone())));
    assert_eq!((&whole.split_from, &whole.merged_into, &part.merged_into), (&None, &None, &None));
    assert!((130..=132).contains(&(part.detected_ns / 1_000_000_000)), "{}", part.detected_ns);
    assert_eq!(part.end_ns, Some(189_000_000_000));
    // A switch whose links come back one after the other is restarting, which is one incident.
    let slow = only(watch(60, 70, 30, |fabric, frame| {
        let spine = fabric.ports.of_node(10).to_vec();
        let back = (frame.time_ns / 1_000_000_000 - 100).max(0) as usize / 15;
        down(fabric, frame, &spine[..spine.len().saturating_sub(back)]);
    }));
    assert_eq!((slow.root, slow.split_from), (Location::Switch { node: "spine0".into() }, None));
}

#[test]
fn restarting_host_is_one_incident() {
    let found = only(watch_on(
        &rails(),
        Thresholds::default(),
        |_, _| (),
        [60, 20, 0],
        |fabric, frame| {
            down(fabric, frame, fabric.ports.of_node(1));
        },
    ));
    assert_eq!((found.kind, found.root), (IncidentKind::LinkDown, Location::Host { node: "h1".into() }));
}

#[test]
fn repeated_falls_are_a_flap() {
    let found = only(watch(60, 60, 0, |fabric, frame| {
        if frame.time_ns / 1_000_000_000 % 10 < 3 {
            down(fabric, frame, &[host(fabric, 4)]);
        }
    }));
    assert_eq!((found.kind, found.root), (IncidentKind::LinkFlap, link("h4", "leaf1")));
    // Down for less than a sample: only the device counts it.
    let counted = |times: f64, day: f64| {
        watch(60, 20, 0, move |fabric, frame| {
            frame.set(Signal::LinkDowns, host(fabric, 4), times);
            frame.set(Signal::LinkDownsDay, host(fabric, 4), day);
        })
    };
    assert_eq!(only(counted(3.0, 3.0)).kind, IncidentKind::LinkFlap);
    assert_eq!(only(counted(1.0, 5.0)).kind, IncidentKind::LinkFlap);
    assert_eq!((counted(2.0, 4.0).len(), counted(0.0, 9.0).len()), (0, 0), "seldom, or long ago");
}

#[test]
fn third_fall_is_a_flap() {
    // Down for 3 s every 40 s: each time the incident is over before the next.
    let found = watch(60, 100, 0, |fabric, frame| {
        if (frame.time_ns / 1_000_000_000 - 60) % 40 < 3 {
            down(fabric, frame, &[host(fabric, 4)]);
        }
    });
    let kinds: Vec<(IncidentKind, i64, i64)> =
        found.iter().map(|i| (i.kind, i.start_ns / 1_000_000_000, i.detected_ns / 1_000_000_000)).collect();
    assert_eq!(
        kinds,
        [(IncidentKind::LinkDown, 60, 61), (IncidentKind::LinkDown, 100, 101), (IncidentKind::LinkFlap, 60, 140)]
    );
}

#[test]
fn fallen_rate_needs_no_cable() {
    let bare = Fabric::new(Topology::new(fabric().topology.nodes, Vec::new()), Ports::default(), Vec::new());
    let mut bare = bare;
    let at = bare.measured_port("h3", "1").unwrap();
    let slow = |_: &Fabric, frame: &mut Frame| frame.set(Signal::Rate, at, RATE / 2.0);
    let found = watch_on(&bare, Thresholds::default(), |_, _| (), [60, 30, 0], slow);
    let found = only(found);
    assert_eq!((found.kind, found.root), (IncidentKind::DegradedLink, port("h3", "1")));
}

#[test]
fn lost_lanes_are_named() {
    let four = |fabric: &Fabric, frame: &mut Frame| {
        if frame.time_ns / 1_000_000_000 % 30 == 0 {
            (0..fabric.ports.list.len()).for_each(|port| frame.set(Signal::Width, port, 4.0));
        }
    };
    let silent = |fabric: &Fabric, frame: &mut Frame| {
        four(fabric, frame);
        (0..fabric.ports.list.len()).for_each(|port| frame.set(Signal::Rate, port, f64::NAN));
    };
    let lanes = |left: f64| move |fabric: &Fabric, frame: &mut Frame| frame.set(Signal::Width, host(fabric, 3), left);
    let times = [80, 20, 0];
    // The rate is unknown.
    let found = only(watch_on(&fabric(), Thresholds::default(), silent, times, lanes(1.0)));
    assert_eq!((found.kind, &found.root), (IncidentKind::DegradedLink, &link("h3", "leaf0")));
    let width = &found.evidence[0];
    assert_eq!((width.metric.as_str(), width.value, width.threshold), ("fabric_port_width", 1.0, 4.0));
    assert!(found.explanation.contains("4x became 1x"), "{}", found.explanation);
    // The rate falls too: one finding with both values.
    let found = only(watch_on(&fabric(), Thresholds::default(), four, times, |fabric, frame| {
        lanes(2.0)(fabric, frame);
        frame.set(Signal::Rate, host(fabric, 3), RATE / 2.0);
    }));
    let metrics: Vec<&str> = found.evidence.iter().map(|e| e.metric.as_str()).collect();
    assert_eq!(metrics, ["fabric_port_rate_bytes_per_second", "fabric_port_width"]);
    assert!(found.explanation.contains("50 % of its rate: 4x became 2x"), "{}", found.explanation);
    // Equal or more lanes are no incident; a port that is down reports any number.
    assert_eq!(watch_on(&fabric(), Thresholds::default(), four, times, lanes(4.0)).len(), 0);
    assert_eq!(watch_on(&fabric(), Thresholds::default(), four, times, lanes(12.0)).len(), 0);
    let off = only(watch_on(&fabric(), Thresholds::default(), silent, times, |fabric, frame| {
        lanes(1.0)(fabric, frame);
        down(fabric, frame, &[host(fabric, 3)]);
    }));
    assert_eq!(off.kind, IncidentKind::LinkDown);
    let mut lenient = Thresholds::default();
    lenient.set("degraded_link.width", 0.2).unwrap();
    assert_eq!(watch_on(&fabric(), lenient, silent, times, lanes(1.0)).len(), 0, "it is the user's number");
}

#[test]
fn link_down_without_the_newest_sample() {
    let found = watch(60, 20, 0, |fabric, frame| {
        let at = fabric.ports.of_node(8)[4];
        down(fabric, frame, &[at]);
        // Every other second has no sample of it.
        if frame.time_ns / 1_000_000_000 % 2 == 1 {
            for port in [at, fabric.ports.list[at].peer.unwrap()] {
                frame.set(Signal::Up, port, f64::NAN);
            }
        }
    });
    assert_eq!(only(found).kind, IncidentKind::LinkDown);
}

#[test]
fn limit_of_links_down_can_be_overridden() {
    let two = |limits: Thresholds| {
        watch_on(
            &fabric(),
            limits,
            |_, _| (),
            [60, 20, 0],
            |fabric, frame| down(fabric, frame, &[host(fabric, 1), host(fabric, 6)]),
        )
    };
    assert_eq!(two(Thresholds::default()).len(), 2);
    let mut one = Thresholds::default();
    one.set("link_down.many", 1.0).unwrap();
    let found = only(two(one));
    assert_eq!((found.kind, &found.root), (IncidentKind::LinkDown, &Location::Fabric));
    let many = found.evidence.last().unwrap();
    assert_eq!((many.value, many.threshold), (2.0, 1.0), "and it is printed");
}
