//! Tests that need private fields of the cache.

use crate::detectors;
use crate::detectors::context::{DetectorContext, SlowdownCache};
use crate::detectors::thresholds::Thresholds;
use crate::model::fabric::Fabric;
use crate::model::frame::Frame;
use crate::model::kind::IncidentKind;
use crate::model::ports::Ports;
use crate::model::signal::Signal;
use crate::model::topology::Topology;
use crate::tracker::evaluation::EvaluationCache;
use crate::tracker::incident_tracker::IncidentTracker;

/// A frame in which the first `paused` of some ports pause their switch.
fn frame(second: i64, ports: &[usize], paused: usize) -> Frame {
    let mut frame = Frame::new(second * 1_000_000_000);
    for port in ports {
        let pauses = *port < paused;
        let told = [
            (Signal::Tx, 4e9),
            (Signal::Rx, 4e9),
            (Signal::Rate, 12.5e9),
            (Signal::Up, 1.0),
            (Signal::PauseTx, if pauses { 0.5 } else { 0.0 }),
            (Signal::PauseFrames, if pauses { 12_000.0 } else { 0.0 }),
            (Signal::QueueMax, if pauses { 3e5 } else { 0.0 }),
        ];
        told.iter().for_each(|(signal, value)| frame.set(*signal, *port, *value));
    }
    frame
}

/// A tracker of so many hosts, and their ports.
fn hosts(count: usize) -> (IncidentTracker, Vec<usize>) {
    let mut watch =
        IncidentTracker::new(Fabric::new(Topology::default(), Ports::default(), Vec::new()), Thresholds::default());
    let ports = (0..count).filter_map(|h| watch.measured_port(&format!("h{h}"), "mlx5_0/1")).collect();
    (watch, ports)
}

/// Twelve hosts of which `paused` pause their switch at last, and the cache of the last tick.
fn look(paused: usize) -> (IncidentTracker, EvaluationCache) {
    let (mut watch, ports) = hosts(12);
    let mut cache = watch.new_cache();
    for second in 0..96 {
        watch.push(frame(second, &ports, if second >= 80 { paused } else { 0 }));
        cache = watch.new_cache();
        watch.evaluate_with(&cache);
    }
    (watch, cache)
}

#[test]
fn long_lived_incidents_are_evaluated_less_often() {
    let (mut watch, ports) = hosts(4);
    let seconds = |ns: i64| ns / 1_000_000_000;
    let (mut evaluated, mut ended) = (Vec::new(), Vec::new());
    for second in 0..500 {
        let ended_now = watch.tick(frame(second, &ports, if (80..450).contains(&second) { 2 } else { 0 }));
        ended.extend(ended_now.into_iter().map(|incident| (second, incident.end_ns.map(seconds))));
        if (420..450).contains(&second) {
            evaluated.push(watch.open.iter().filter(|one| seconds(one.evaluated_ns) == second).count());
        }
    }
    assert_eq!((evaluated.iter().sum::<usize>(), evaluated.iter().max()), (12, Some(&1)), "{evaluated:?}");
    assert_eq!(ended.len(), 2, "{ended:?}");
    for (told, end) in ended {
        assert!((462..=470).contains(&told) && end.is_some_and(|end| (445..=452).contains(&end)), "{told} {end:?}");
    }
}

#[test]
fn incidents_share_cached_windows() {
    let ((one, of_one), (many, of_many)) = (look(1), look(8));
    assert_eq!((one.open.len(), many.open.len()), (1, 8));
    let worked_out = |cache: &EvaluationCache| (cache.windows.borrow().len(), cache.seen.borrow().len());
    assert_eq!(worked_out(&of_one), worked_out(&of_many));
}

#[test]
fn cached_findings_equal_fresh_ones() {
    let (watch, cache) = look(2);
    let seen = cache.seen.borrow();
    let found = seen.values().flat_map(|seen| detectors::ALL.iter().zip(&seen.found).map(move |(d, f)| (seen, d, f)));
    let mut findings = 0;
    for (seen, detector, kept) in found.filter_map(|(seen, d, kept)| Some((seen, d, kept.get()?))) {
        let slowdowns = SlowdownCache::new();
        let baseline = &*seen.baseline;
        let ctx = DetectorContext::new(
            &watch.eval.fabric,
            &watch.eval.thresholds,
            [&seen.window, &seen.history],
            baseline,
            watch.eval.history.step_s(),
            &seen.domain,
            &slowdowns,
        );
        assert_eq!(format!("{kept:?}"), format!("{:?}", (detector.run)(&ctx)), "{}", detector.name);
        findings += kept.len();
    }
    assert!(findings > 2, "{findings}");
}

#[test]
fn an_incident_from_the_first_samples_on_does_not_prevent_a_baseline() {
    let (mut watch, ports) = hosts(1);
    for second in 0..60 {
        watch.tick(frame(second, &ports, 1));
    }
    assert_eq!(watch.open.len(), 1, "it pauses its switch since the first sample");
    let baseline = watch.eval.history.baseline(&watch.eval.fabric, i64::MIN);
    assert!(baseline.window.ticks() >= 30, "{}", baseline.window.ticks());
}

/// A port that pauses its switch and whose link corrupts frames is one incident; the cause that it does not accuse is kept, also
/// by a tracker that continues it.
#[test]
fn an_incident_keeps_the_cause_that_it_does_not_accuse() {
    let (mut watch, ports) = hosts(1);
    for second in 0..60 {
        let ill = second >= 40;
        let mut frame = frame(second, &ports, usize::from(ill));
        frame.set(Signal::WireErrors, ports[0], if ill { 100.0 } else { 0.0 });
        watch.tick(frame);
    }
    let open = watch.open();
    assert_eq!(open.len(), 1, "{open:?}");
    let considered = &open[0].considered;
    let mut kinds: Vec<IncidentKind> = considered.iter().map(|cause| cause.kind).chain([open[0].kind]).collect();
    kinds.sort();
    assert_eq!(kinds, [IncidentKind::SlowReceiver, IncidentKind::LossyLink], "{considered:?}");
    let cause = &considered[0];
    assert!(cause.found_in > 0.5 && cause.confidence > 0.5 && !cause.explanation.is_empty(), "{cause:?}");
    let (mut anew, _) = hosts(1);
    assert!(anew.resume(&open, 60_000_000_000).is_empty());
    assert_eq!(anew.open()[0].considered, *considered);
}
