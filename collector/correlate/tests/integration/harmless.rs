//! Certain findings that cost no job anything are observations and page nobody.

use crate::common::{RATE, USUAL, egress, fabric, host, moves, only, watch, watch_on, watched_by};
use fabriclens_correlate::{Fabric, Frame, Incident, IncidentKind, IncidentTracker, Severity, Signal, Thresholds};

const S: i64 = 1_000_000_000;

/// Kind and severity of each incident.
fn told(found: &[Incident]) -> Vec<(IncidentKind, Severity)> {
    found.iter().map(|incident| (incident.kind, incident.severity)).collect()
}

/// The fabric with `h2` and `h3` in no job.
fn spare() -> Fabric {
    let fabric = fabric();
    let jobs = fabric.jobs.iter().cloned().map(|mut job| {
        job.ports.retain(|port| ![2, 3].map(|h| host(&fabric, h)).contains(port));
        job
    });
    Fabric::new(fabric.topology.clone(), fabric.ports.clone(), jobs.collect())
}

/// Errors of a link between switches, as many each ten seconds.
fn errors(fabric: &Fabric, frame: &mut Frame, each_10_s: f64) {
    let now = if frame.time_ns / S % 10 == 0 { each_10_s } else { 0.0 };
    frame.set(Signal::WireErrors, fabric.ports.of_node(10)[0], now);
}

#[test]
fn a_frame_lost_now_and_then_is_an_observation() {
    let found = |each_10_s: f64| watch(80, 60, 40, move |fabric, frame| errors(fabric, frame, each_10_s));
    let [seldom, often] = [2.0, 30.0].map(|each_10_s| only(found(each_10_s)));
    assert_eq!((seldom.kind, seldom.severity), (IncidentKind::LossyLink, Severity::Info), "0.2 in a second");
    assert_eq!((often.kind, often.severity), (IncidentKind::LossyLink, Severity::Warning), "3 in a second");
}

#[test]
fn an_observation_pages_once_it_costs_something() {
    let found = only(watch(80, 80, 0, |fabric, frame| {
        errors(fabric, frame, if frame.time_ns < 120 * S { 2.0 } else { 30.0 });
    }));
    assert_eq!((found.kind, found.severity), (IncidentKind::LossyLink, Severity::Warning));
    assert!(found.detected_ns / S >= 120 && found.start_ns / S < 100, "{found:?}");
}

/// What comes back within the hour is the same observation, and explains nothing while it is away.
#[test]
fn a_recurring_observation_is_told_once() {
    let found = watch(80, 220, 0, |fabric, frame| {
        let second = frame.time_ns / S;
        if second % 100 < 30 {
            errors(fabric, frame, 2.0);
        }
    });
    assert_eq!(told(&found), [(IncidentKind::LossyLink, Severity::Info)]);
    let away = watch_on(
        &spare(),
        Thresholds::default(),
        |_, _| (),
        [80, 300, 0],
        |fabric, frame| {
            let second = frame.time_ns / S;
            match second {
                ..120 => many_to_one(fabric, frame),
                250.. => [1, 5, 7].iter().for_each(|h| frame.set(Signal::PauseRx, host(fabric, *h), 0.3)),
                _ => {}
            }
        },
    );
    let congestion = away.iter().find(|i| i.kind == IncidentKind::FabricCongestion && i.start_ns / S >= 240);
    assert!(congestion.is_some_and(|i| i.merged_into.is_none()), "{:?}", told(&away));
}

/// A restarted collector does not page what it had observed.
#[test]
fn a_resumed_observation_pages_nobody() {
    let before = watch(80, 40, 0, |fabric, frame| errors(fabric, frame, 2.0));
    assert_eq!(told(&before), [(IncidentKind::LossyLink, Severity::Info)]);
    let fabric = fabric();
    let mut anew = IncidentTracker::new(fabric.clone(), Thresholds::default());
    anew.resume(&before, 120 * S);
    for second in 120..150 {
        let mut frame = Frame::new(second * S);
        for port in 0..fabric.ports.list.len() {
            frame.set(Signal::Rate, port, RATE);
            frame.set(Signal::Up, port, 1.0);
            moves(&mut frame, port, USUAL);
        }
        errors(&fabric, &mut frame, 2.0);
        anew.tick(frame);
    }
    let [after] = &anew.open()[..] else { panic!("{:?}", anew.open()) };
    assert_eq!((&after.id, after.severity), (&before[0].id, Severity::Info));
}

/// The host stops carrying traffic at 60 s, and its link goes down at 80 s, for longer than samples are kept.
fn restart(fabric: &Fabric, h: usize, idle: bool) -> Vec<(IncidentKind, Severity)> {
    let found = watch_on(
        fabric,
        Thresholds::default(),
        |_, _| (),
        [60, 160, 0],
        move |fabric, frame| {
            for port in [host(fabric, h), egress(fabric, h)] {
                if frame.time_ns >= 80 * S {
                    moves(frame, port, f64::NAN);
                    frame.set(Signal::Up, port, 0.0);
                } else if idle {
                    moves(frame, port, 0.0);
                }
            }
        },
    );
    told(&found)
}

#[test]
fn a_host_out_of_use_may_restart() {
    let down = |severity| [(IncidentKind::LinkDown, severity)];
    assert_eq!(restart(&spare(), 2, true), down(Severity::Info));
    assert_eq!(restart(&spare(), 2, false), down(Severity::Warning), "it was in use: storage");
    assert_eq!(restart(&spare(), 4, true), down(Severity::Warning), "a job has it, and computes");
    let no_jobs = Fabric::new(fabric().topology, fabric().ports, Vec::new());
    assert_eq!(restart(&no_jobs, 2, true), down(Severity::Warning), "whether a job has it is not known");
}

/// Three hosts of job `odd` send to `h2` as fast as it can take.
fn many_to_one(fabric: &Fabric, frame: &mut Frame) {
    let full = egress(fabric, 2);
    for (signal, value) in [(Signal::Tx, 0.99 * RATE), (Signal::Queue, 3e6), (Signal::QueueMax, 5e6)] {
        frame.set(signal, full, value);
    }
    frame.set(Signal::Marks, full, 2e6);
    frame.set(Signal::Rx, host(fabric, 2), 0.99 * RATE);
    frame.set(Signal::EcnRx, host(fabric, 2), 2e6);
    for h in [1, 5, 7] {
        frame.set(Signal::PauseRx, host(fabric, h), 0.2);
        frame.set(Signal::PauseTx, egress(fabric, h), 0.2);
        frame.set(Signal::CnpRx, host(fabric, h), 2e4);
        frame.set(Signal::Tx, host(fabric, h), USUAL / 3.0);
    }
}

#[test]
fn a_checkpoint_to_storage_is_an_observation() {
    let found = |fabric: Fabric| watch_on(&fabric, Thresholds::default(), |_, _| (), [80, 40, 0], many_to_one);
    let found = |fabric| only(found(fabric).into_iter().filter(|incident| incident.merged_into.is_none()).collect());
    let [storage, member] = [spare(), fabric()].map(found);
    assert_eq!((storage.kind, storage.severity), (IncidentKind::Incast, Severity::Info));
    assert_eq!(storage.victim_jobs, [""; 0]);
    assert_eq!((member.kind, member.severity), (IncidentKind::Incast, Severity::Critical));
}

/// Incidents of a fault of 40 s, if one of the same kind and place lasted for so long at this time of three other days.
fn after_three_days(lasted_s: i64, fault: fn(&Fabric, &mut Frame)) -> Vec<Incident> {
    let fabric = fabric();
    let mut past = watch(80, 40, 0, fault);
    past.retain(|incident| incident.merged_into.is_none());
    let [known] = &past[..] else { panic!("{:?}", told(&past)) };
    let days_ago = |days: i64| {
        let start_ns = known.start_ns - days * 86_400 * S;
        Incident { start_ns, end_ns: Some(start_ns + lasted_s * S), ..known.clone() }
    };
    let mut tracker = IncidentTracker::new(fabric.clone(), Thresholds::default());
    tracker.learn_past(&[4, 2, 1].map(days_ago));
    let (mut found, _) = watched_by(tracker, 1, &fabric, |_, _| (), [80, 40, 0], fault);
    found.retain(|incident| incident.merged_into.is_none());
    found
}

#[test]
fn load_that_comes_back_by_the_clock_is_an_observation() {
    let nightly = only(after_three_days(30, many_to_one));
    assert_eq!((nightly.kind, nightly.severity), (IncidentKind::Incast, Severity::Info));
    assert!(nightly.explanation.contains("in 3 of the last 7 days"), "{}", nightly.explanation);
    let longer = only(after_three_days(5, many_to_one));
    assert_eq!((longer.kind, longer.severity), (IncidentKind::Incast, Severity::Critical), "it lasts longer than ever");
    assert!(!longer.explanation.contains("days"), "{}", longer.explanation);
}

#[test]
fn a_fault_of_a_device_pages_each_day() {
    let daily = only(after_three_days(30, |fabric, frame| errors(fabric, frame, 30.0)));
    assert_eq!(daily.kind, IncidentKind::LossyLink);
    assert_ne!(daily.severity, Severity::Info);
}
