//! Several incidents at a time, long-lived incidents, and a tracker that starts during an incident.

use crate::common::{RATE, USUAL, egress, fabric, host, moves, watch, watch_on};
use fabriclens_correlate::{
    Fabric, Frame, IncidentKind, IncidentTracker, Link, LinkEnd, Node, Ports, Role, Severity, Signal, Thresholds,
    Topology,
};
use fabriclens_correlate::{Incident, Location};

const S: i64 = 1_000_000_000;

/// A NIC pauses its switch half of the time, because its host drains the buffer too slowly.
fn held(fabric: &Fabric, frame: &mut Frame, h: usize) {
    frame.set(Signal::PauseTx, host(fabric, h), 0.5);
    frame.set(Signal::PauseFrames, host(fabric, h), 12_000.0);
    frame.set(Signal::QueueMax, host(fabric, h), 3e5);
    frame.set(Signal::PauseRx, egress(fabric, h), 0.5);
}

fn errors(fabric: &Fabric, frame: &mut Frame) {
    frame.set(Signal::WireErrors, fabric.ports.of_node(10)[0], 3.0);
}

/// Kind, node or link end, start, and whether it is over, by start.
fn told(mut found: Vec<Incident>) -> Vec<(IncidentKind, String, i64, bool)> {
    found.sort_by_key(|i| i.start_ns);
    let root = |i: &Incident| serde_json::to_value(&i.root).unwrap();
    let name = |i: &Incident| root(i)["node"].as_str().or(root(i)["a"].as_str()).unwrap_or("fabric").to_owned();
    found.iter().map(|i| (i.kind, name(i), i.start_ns / S, i.end_ns.is_some())).collect()
}

#[test]
fn two_locations_are_two_incidents() {
    let found = watch(80, 60, 40, |fabric, frame| {
        held(fabric, frame, 3);
        if frame.time_ns >= 100 * S {
            held(fabric, frame, 6);
        }
    });
    let expected = [
        (IncidentKind::SlowReceiver, "h3".to_owned(), 80, true),
        (IncidentKind::SlowReceiver, "h6".to_owned(), 100, true),
    ];
    assert_eq!(told(found), expected);
}

/// A port is paused and no counter shows why: that is seen, but pages nobody, hides nothing and is learned as usual.
#[test]
fn uncertain_findings_are_observations() {
    let found = watch(80, 60, 0, |fabric, frame| {
        [1, 5, 7].iter().for_each(|h| frame.set(Signal::PauseRx, host(fabric, *h), 0.3));
        if frame.time_ns >= 130 * S {
            held(fabric, frame, 3);
        }
    });
    let of = |kind| found.iter().find(|i| i.kind == kind).map(|i| (i.severity, i.detected_ns / S));
    assert!(matches!(of(IncidentKind::FabricCongestion), Some((Severity::Info, 80..85))), "{found:?}");
    assert!(matches!(of(IncidentKind::SlowReceiver), Some((Severity::Warning, 130..=132))), "{found:?}");
    let mut all = Thresholds::default();
    all.set("page.confidence", 0.3).unwrap();
    let paged = watch_on(
        &fabric(),
        all,
        |_, _| (),
        [80, 30, 0],
        |fabric, frame| {
            [1, 5, 7].iter().for_each(|h| frame.set(Signal::PauseRx, host(fabric, *h), 0.3));
        },
    );
    assert_eq!(paged.iter().map(|i| i.severity).collect::<Vec<_>>(), [Severity::Warning]);
}

#[test]
fn observed_faults_open_at_once() {
    let found = watch(80, 8, 0, |fabric, frame| {
        held(fabric, frame, 3);
        if frame.time_ns >= 82 * S {
            errors(fabric, frame);
        }
    });
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|i| i.detected_ns - i.start_ns <= 3 * S), "{found:?}");
}

#[test]
fn incidents_end_independently() {
    let found = watch(80, 100, 0, |fabric, frame| {
        errors(fabric, frame);
        if (110 * S..130 * S).contains(&frame.time_ns) {
            held(fabric, frame, 3);
        }
    });
    let expected = [
        (IncidentKind::LossyLink, "leaf0".to_owned(), 80, false),
        (IncidentKind::SlowReceiver, "h3".to_owned(), 110, true),
    ];
    assert_eq!(told(found), expected);
}

#[test]
fn long_lived_incident_hides_no_inferred_one() {
    let collision = 500 * S;
    let found = watch(60, 520, 0, |fabric, frame| {
        errors(fabric, frame);
        if frame.time_ns >= collision {
            let leaf = fabric.ports.of_node(9);
            frame.set(Signal::Tx, leaf[4], 0.1 * USUAL);
            frame.set(Signal::Tx, leaf[5], 1.9 * USUAL);
            for port in &fabric.jobs[1].ports {
                frame.set(Signal::Tx, *port, 0.7 * USUAL);
                frame.set(Signal::Rx, *port, 0.7 * USUAL);
            }
        }
    });
    let kinds: Vec<(IncidentKind, String)> = told(found).into_iter().map(|t| (t.0, t.1)).collect();
    assert_eq!(
        kinds,
        [(IncidentKind::LossyLink, "leaf0".to_owned()), (IncidentKind::EcmpCollision, "leaf1".to_owned())]
    );
}

#[test]
fn down_host_hides_inferred_ones_for_a_minute() {
    let found = watch(60, 200, 0, |fabric, frame| {
        [host(fabric, 4), egress(fabric, 4)].iter().for_each(|port| frame.set(Signal::Up, *port, 0.0));
        if frame.time_ns >= 170 * S {
            let leaf = fabric.ports.of_node(9);
            frame.set(Signal::Tx, leaf[4], 0.1 * USUAL);
            frame.set(Signal::Tx, leaf[5], 1.9 * USUAL);
            for port in &fabric.jobs[1].ports {
                moves(frame, *port, 0.7 * USUAL);
            }
        }
    });
    let kinds: Vec<IncidentKind> = told(found).into_iter().map(|t| t.0).collect();
    assert_eq!(kinds, [IncidentKind::LinkDown, IncidentKind::EcmpCollision]);
}

#[test]
fn long_lived_incident_hides_no_absolute_one() {
    let told = |since: i64| {
        let found = watch(60, 520, 0, |fabric, frame| {
            errors(fabric, frame);
            if frame.time_ns >= since * S {
                // A port is paused, and no counter shows by which.
                [1, 5, 7].iter().for_each(|h| frame.set(Signal::PauseRx, host(fabric, *h), 0.3));
            }
        });
        found.into_iter().map(|i| i.kind).collect::<Vec<_>>()
    };
    assert_eq!(told(500), [IncidentKind::LossyLink, IncidentKind::FabricCongestion]);
    assert_eq!(told(200), [IncidentKind::LossyLink, IncidentKind::FabricCongestion], "at last");
}

#[test]
fn chronic_fault_hides_no_storm() {
    let found = watch(60, 420, 0, |fabric, frame| {
        frame.set(Signal::WireErrors, host(fabric, 3), 3.0);
        if frame.time_ns >= 420 * S {
            held(fabric, frame, 3);
        }
    });
    let kinds: Vec<IncidentKind> = found.iter().map(|i| i.kind).collect();
    assert_eq!(kinds, [IncidentKind::LossyLink, IncidentKind::SlowReceiver]);
}

/// A hundred hosts with one port each, and one leaf.
fn wide() -> Fabric {
    let node = |name: String, role| Node { name, role };
    let mut nodes: Vec<Node> = (0..100).map(|h| node(format!("h{h}"), Role::Host)).collect();
    nodes.push(node("leaf".to_owned(), Role::Leaf));
    let end = |node: usize, port: usize| LinkEnd { node, port: port.to_string() };
    let topology = Topology::new(nodes, (0..100).map(|h| Link::new([end(h, 1), end(100, h)], Some(RATE))).collect());
    let ports = Ports::new(&topology);
    Fabric::new(topology, ports, Vec::new())
}

#[test]
fn many_links_down_are_one_incident() {
    let fabric = wide();
    let mut watch = IncidentTracker::new(fabric.clone(), Thresholds::default());
    for second in 0..110 {
        let mut frame = Frame::new(second * S);
        for port in 0..fabric.ports.list.len() {
            let down = second >= 60 && (0..40).any(|h| [host(&fabric, h), egress(&fabric, h)].contains(&port));
            frame.set(Signal::Up, port, f64::from(u8::from(!down)));
        }
        assert!(watch.tick(frame).is_empty());
        assert!(watch.open().len() <= 1, "{second}");
    }
    let open = watch.open();
    assert_eq!((open[0].kind, &open[0].root), (IncidentKind::LinkDown, &Location::Fabric));
    assert!(
        open[0].explanation.starts_with("40 hosts, switches or links went down together"),
        "{}",
        open[0].explanation
    );
}

#[test]
fn remaining_links_split_off() {
    let fabric = wide();
    let mut watch = IncidentTracker::new(fabric.clone(), Thresholds::default());
    let mut over = Vec::new();
    for second in 0..150 {
        let mut frame = Frame::new(second * S);
        let many = if second < 90 { 0..40 } else { 0..2 };
        for port in 0..fabric.ports.list.len() {
            let down = second >= 60 && many.clone().any(|h| [host(&fabric, h), egress(&fabric, h)].contains(&port));
            frame.set(Signal::Up, port, f64::from(u8::from(!down)));
        }
        over.extend(watch.tick(frame));
        assert!(!(60..=118).contains(&second) || watch.open().len() <= 1, "{second}");
    }
    let open = watch.open();
    assert_eq!((over.len(), over[0].end_ns, &over[0].merged_into), (1, Some(89 * S), &None), "{over:?}");
    assert_eq!(open.iter().map(|i| &i.split_from).collect::<Vec<_>>(), [&Some(over[0].id.clone()); 2]);
    assert_eq!(told(open).iter().map(|i| (i.1.as_str(), i.2)).collect::<Vec<_>>(), [("h0", 60), ("h1", 60)]);
}

#[test]
fn two_links_down_are_separated() {
    let found = watch(80, 60, 0, |fabric, frame| {
        let since = [(6, 80), (1, 83)];
        let now_ns = frame.time_ns;
        for (h, _) in since.iter().filter(|(_, since)| now_ns >= since * S) {
            [host(fabric, *h), egress(fabric, *h)].iter().for_each(|port| frame.set(Signal::Up, *port, 0.0));
        }
    });
    let links = [("h6", 80), ("h1", 83)].map(|(name, begin)| (IncidentKind::LinkDown, name.to_owned(), begin, false));
    assert_eq!(told(found), links);
}

#[test]
fn earlier_cause_splits_from_its_effect() {
    let found = watch(80, 60, 0, |fabric, frame| {
        let second = frame.time_ns / S;
        let spine = fabric.ports.of_node(10);
        let both = |p: &usize| [Some(*p), fabric.ports.list[*p].peer];
        let mut down: Vec<usize> = both(&host(fabric, 6)).into_iter().flatten().collect();
        if second >= 83 {
            down.extend(spine.iter().flat_map(both).flatten());
        }
        down.iter().for_each(|port| frame.set(Signal::Up, *port, 0.0));
    });
    // The incident was known before its verdict was.
    let links =
        [("h6", 80), ("spine0", 81)].map(|(name, begin)| (IncidentKind::LinkDown, name.to_owned(), begin, false));
    assert_eq!(told(found.clone()), links);
    let [whole, part] = [&found[0], &found[1]];
    assert_eq!((whole.detected_ns / S, &whole.split_from, &part.split_from), (81, &None, &Some(whole.id.clone())));
}

#[test]
fn missing_samples_do_not_end_incidents() {
    let fabric = fabric();
    let mut watch = IncidentTracker::new(fabric.clone(), Thresholds::default());
    let mut over = Vec::new();
    let mut tick = |second: i64, silent: bool, pauses: bool| {
        let mut frame = Frame::new(second * S);
        for port in (0..fabric.ports.list.len()).filter(|_| !silent) {
            frame.set(Signal::Rate, port, RATE);
            moves(&mut frame, port, USUAL);
            frame.set(Signal::PauseTx, port, 0.0);
        }
        if pauses && !silent {
            held(&fabric, &mut frame, 3);
        }
        over.extend(watch.tick(frame));
        over.len()
    };
    (0..100).for_each(|second| assert_eq!(tick(second, false, second >= 80), 0));
    // No samples for five minutes, then everything as before.
    (100..400).for_each(|second| assert_eq!(tick(second, true, false), 0, "{second}"));
    (400..410).for_each(|second| assert_eq!(tick(second, false, true), 0, "{second}"));
    (410..440).for_each(|second| _ = tick(second, false, false));
    assert_eq!(over.len(), 1, "its place tells that it is over");
    let before = over.clone();
    assert_eq!((before[0].start_ns, watch.open().len()), (80 * S, 0));
}

#[test]
fn limit_of_chronic_faults_leaves_room_for_a_storm() {
    let fabric = wide();
    let (mut watch, mut full) = (IncidentTracker::new(fabric.clone(), Thresholds::default()), false);
    for second in 0..60 {
        let mut frame = Frame::new(second * S);
        for port in 0..fabric.ports.list.len() {
            frame.set(Signal::Rate, port, RATE);
            frame.set(Signal::WireErrors, port, 3.0);
            frame.set(Signal::PauseTx, port, 0.0);
        }
        if second >= 40 {
            held(&fabric, &mut frame, 99);
        }
        watch.tick(frame);
        full |= watch.is_at_limit();
    }
    let kinds: Vec<IncidentKind> = watch.open().iter().map(|i| i.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == IncidentKind::LossyLink).count(), 64);
    assert!(kinds.contains(&IncidentKind::SlowReceiver), "{kinds:?}");
    assert!(full);
}

#[test]
fn removed_link_leaves_incident_at_its_port() {
    let fabric = fabric();
    let mut watch = IncidentTracker::new(fabric.clone(), Thresholds::default());
    let tick = |watch: &mut IncidentTracker, second: i64| {
        let mut frame = Frame::new(second * S);
        for port in 0..fabric.ports.list.len() {
            let down = second >= 80 && [host(&fabric, 3), egress(&fabric, 3)].contains(&port);
            frame.set(Signal::Up, port, f64::from(u8::from(!down)));
        }
        watch.tick(frame)
    };
    (0..90).for_each(|second| assert!(tick(&mut watch, second).is_empty()));
    let before = watch.open();
    assert_eq!((before.len(), before[0].kind), (1, IncidentKind::LinkDown));
    // The topology no longer has that cable.
    let mut topology = fabric.topology.clone();
    let [a, b] = [host(&fabric, 3), egress(&fabric, 3)].map(|port| fabric.ports.list[port].end.clone());
    topology.links.retain(|link| !(link.ends.contains(&a) || link.ends.contains(&b)));
    watch.rewire(&topology);
    let over: Vec<Incident> = (90..150).flat_map(|second| tick(&mut watch, second)).collect();
    assert!(over.is_empty(), "{over:?}");
    // The switch's port is no longer known as its other end.
    let after = watch.open();
    let nodes: Vec<_> = after.iter().map(|i| serde_json::to_value(&i.root).unwrap()["node"].take()).collect();
    assert_eq!((&after[0].id, nodes), (&before[0].id, vec!["h3".into(), "leaf0".into()]));
}

#[test]
fn lossy_link_does_not_freeze_the_baseline() {
    let found = watch(60, 80, 0, |fabric, frame| match frame.time_ns / S {
        ..80 => errors(fabric, frame),
        80..100 => {}
        // One host gets all the marks: its receivers get more than they can take.
        _ => {
            let full = egress(fabric, 5);
            for (signal, value) in [(Signal::Tx, 0.99 * RATE), (Signal::Queue, 3e6), (Signal::Marks, 2e6)] {
                frame.set(signal, full, value);
            }
            for h in [1, 3, 7] {
                frame.set(Signal::PauseRx, host(fabric, h), 0.2);
                frame.set(Signal::PauseTx, egress(fabric, h), 0.2);
            }
        }
    });
    let incast = found.iter().find(|i| i.kind == IncidentKind::Incast).map(|i| i.detected_ns / S);
    assert!(incast.is_some_and(|at| at < 115), "it was told what is usual: {incast:?}");
}

#[test]
fn coarse_incident_ends_with_its_cause() {
    let found = watch(80, 70, 0, |fabric, frame| {
        // A port is paused, and only 30 s later a NIC's own counter shows the cause.
        for h in [1, 5, 7] {
            frame.set(Signal::PauseRx, host(fabric, h), 0.3);
        }
        if frame.time_ns >= 110 * S {
            held(fabric, frame, 3);
        }
    });
    let felt = found.iter().find(|i| i.kind == IncidentKind::FabricCongestion).unwrap();
    let cause = found.iter().find(|i| i.kind == IncidentKind::SlowReceiver).unwrap();
    assert_eq!((&felt.merged_into, &cause.merged_into), (&Some(cause.id.clone()), &None));
    let found = told(found);
    assert_eq!((found.len(), found[0].0, found[0].3), (2, IncidentKind::FabricCongestion, true), "{found:?}");
    assert_eq!(found[1], (IncidentKind::SlowReceiver, "h3".to_owned(), 110, false));
}

#[test]
fn low_jobs_stay_no_victims_after_restart() {
    // Half of its traffic stopped for a reason of its own, ten seconds before.
    let low = |fabric: &Fabric, frame: &mut Frame| {
        for port in &fabric.jobs[1].ports {
            moves(frame, *port, USUAL / 2.0);
        }
    };
    let trouble = |fabric: &Fabric, frame: &mut Frame| {
        low(fabric, frame);
        if frame.time_ns >= 90 * S {
            held(fabric, frame, 3);
        }
    };
    let before = watch(80, 30, 0, trouble);
    assert_eq!(before[0].victim_jobs, [""; 0]);
    assert!((before[0].low_before["odd"] - 0.5).abs() < 0.1, "{:?}", before[0].low_before);
    let after = |told: &[Incident]| {
        let fabric = fabric();
        let mut anew = IncidentTracker::new(fabric.clone(), Thresholds::default());
        let tell = |second: i64| {
            let mut frame = Frame::new(second * S);
            for port in 0..fabric.ports.list.len() {
                frame.set(Signal::Rate, port, RATE);
                moves(&mut frame, port, USUAL);
            }
            if second >= 80 {
                trouble(&fabric, &mut frame);
            }
            frame
        };
        (10..70).for_each(|second| anew.add_baseline_frame(tell(second)));
        anew.resume(told, 110 * S);
        (110..140).for_each(|second| assert!(anew.tick(tell(second)).is_empty()));
        anew.open()[0].victim_jobs.clone()
    };
    assert_eq!(after(&before), [""; 0]);
    let unknown = Incident { low_before: Default::default(), ..before[0].clone() };
    assert_eq!(after(&[unknown]), ["odd"], "else it would be one");
}

#[test]
fn restart_resumes_open_incidents() {
    let before = watch(80, 20, 0, |fabric, frame| held(fabric, frame, 3));
    let fabric = fabric();
    let mut anew = IncidentTracker::new(fabric.clone(), Thresholds::default());
    let mut lost = before[0].clone();
    lost.root = Location::Switch { node: "gone".into() };
    assert_eq!(anew.resume(&before, 100 * S).len(), 0);
    assert_eq!(anew.resume(std::slice::from_ref(&lost), 100 * S).len(), 1, "its switch is no part of the fabric");
    let mut over = Vec::new();
    for second in 100..140 {
        let mut frame = Frame::new(second * S);
        for port in 0..fabric.ports.list.len() {
            frame.set(Signal::Rate, port, RATE);
            frame.set(Signal::PauseTx, port, 0.0);
        }
        if second < 110 {
            held(&fabric, &mut frame, 3);
        }
        over.extend(anew.tick(frame));
        assert!(anew.open().len() + over.len() == 1, "one incident at {second}");
    }
    assert_eq!((&over[0].id, over[0].kind, over[0].start_ns), (&before[0].id, IncidentKind::SlowReceiver, 80 * S));
}

#[test]
fn fabric_wide_incident_keeps_its_location() {
    let found = watch(80, 14, 0, |fabric, frame| {
        let at = frame.time_ns / S - 80;
        // Six links lose a few frames once each; then a NIC of another host pauses its switch, with higher confidence.
        for h in 0..6 {
            let lost = if at == i64::from(h % 3) { 4.0 } else { 0.0 };
            frame.set(Signal::WireErrors, host(fabric, h as usize), lost);
        }
        if at >= 3 {
            held(fabric, frame, 7);
        }
    });
    let mut places: Vec<String> = told(found).into_iter().map(|one| one.1).collect();
    places.sort();
    assert_eq!(places, ["h0", "h1", "h2", "h3", "h4", "h5", "h7"]);
}

#[test]
fn late_samples_backdate_the_start() {
    let began = |[since, until]: [i64; 2]| {
        let fabric = fabric();
        let mut watch = IncidentTracker::new(fabric.clone(), Thresholds::default());
        for second in 0..130 {
            let mut frame = Frame::new(second * S);
            for port in 0..fabric.ports.list.len() {
                frame.set(Signal::Rate, port, RATE);
                moves(&mut frame, port, USUAL);
                // One host and its switch port have no samples for half a minute.
                let silent = (70..100).contains(&second) && [host(&fabric, 3), egress(&fabric, 3)].contains(&port);
                frame.set(Signal::PauseTx, port, if silent { f64::NAN } else { 0.0 });
            }
            if second >= 100 {
                held(&fabric, &mut frame, 3);
            }
            watch.tick(frame);
            if second == 110 {
                (since..until).for_each(|past| held(&fabric, watch.frame(past * S).unwrap(), 3));
            }
        }
        told(watch.open())
    };
    let of = |begin: i64| vec![(IncidentKind::SlowReceiver, "h3".to_owned(), begin, false)];
    assert_eq!((began([75, 75]), began([75, 100])), (of(100), of(75)));
    assert_eq!((began([99, 100]), began([90, 91])), (of(99), of(100)), "one sample alone is a hiccup");
}
