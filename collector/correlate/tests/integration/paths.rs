//! Verdicts from traced paths, queue pairs and probes, where no switch is read.

use crate::common::{RATE, USUAL, fabric, host, link, only};
use fabriclens_correlate::{
    Fabric, FlowName, Frame, Incident, IncidentKind, IncidentTracker, Location, PathSource, PortName, ProbeTransport,
    RouteUpdate, Severity, Signal, Thresholds,
};

const S: i64 = 1_000_000_000;
/// Seconds of calm, and of all.
const CALM: i64 = 90;
const ALL: i64 = 230;
/// Shortest round trip and turn-round, nanoseconds.
const RTT: f64 = 8_000.0;
const TURN: f64 = 3_000.0;

/// A probe under way.
struct Probe {
    second: i64,
    from: usize,
    to: usize,
    spine: usize,
}

impl Probe {
    /// Whether it goes, there or back, from a leaf to a spine or from a spine to a leaf.
    fn crosses(&self, leaf: usize, spine: usize) -> bool {
        self.spine == spine && [self.from, self.to].iter().any(|host| host / 4 == leaf)
    }
}

/// Round trip and turn-round; `None` if it is lost.
type Answer = Option<[f64; 2]>;

/// What a test decides.
struct Run<'a> {
    /// Sender, receiver, spine and the second in which the queue pair was connected.
    pairs: &'a [(usize, usize, usize, i64)],
    frame: &'a dyn Fn(&Fabric, &mut Frame),
    probe: Option<&'a dyn Fn(&Probe) -> Answer>,
}

fn port(node: String, port: usize) -> PortName {
    PortName { node, port: port.to_string() }
}

/// A flow whose source port the leaves hash to a spine.
fn flow(from: usize, to: usize, spine: usize) -> FlowName {
    let end = |h: usize| port(format!("h{h}"), 1);
    FlowName { from: end(from), to: end(to), source_port: Some(50_000 + spine as u16) }
}

fn hops(from: usize, to: usize, spine: usize) -> Vec<PortName> {
    let [here, there] = [from / 4, to / 4];
    let last = port(format!("leaf{there}"), 1 + to % 4);
    let first = port(format!("h{from}"), 1);
    if here == there {
        return vec![first, last];
    }
    vec![first, port(format!("leaf{here}"), 5 + spine), port(format!("spine{spine}"), 1 + there), last]
}

impl Run<'_> {
    /// All incidents; `frame` decides what differs from the usual after the calm time.
    fn incidents(&self) -> Vec<Incident> {
        self.incidents_with_twins(&|_| None)
    }

    /// The same with a TCP twin of each probe that answers after a time, or is lost, or does not exist.
    fn incidents_with_twins(&self, twin: &dyn Fn(&Probe) -> Option<Option<f64>>) -> Vec<Incident> {
        let mut found = self.all_with_twins(twin);
        found.retain(|incident| incident.severity != Severity::Info);
        found
    }

    /// All incidents, and observations.
    fn all_with_twins(&self, twin: &dyn Fn(&Probe) -> Option<Option<f64>>) -> Vec<Incident> {
        let fabric = fabric();
        let mut tracker = IncidentTracker::new(fabric.clone(), Thresholds::default());
        let each = || (0..8).flat_map(|from| (0..8).map(move |to| (from, to))).filter(|(from, to)| from != to);
        for (from, to) in each() {
            for spine in 0..2 {
                let (flow, hops) = (flow(from, to, spine), hops(from, to, spine));
                tracker.learn(0, RouteUpdate::Path { flow, hops, source: PathSource::Traced });
            }
        }
        let mut found = Vec::new();
        for second in 0..ALL {
            for (at, (from, to, spine, begin)) in self.pairs.iter().enumerate() {
                if second == *begin {
                    let flow = flow(*from, *to, *spine);
                    tracker.learn(second * S, RouteUpdate::Connected { flow, number: at as u32 });
                }
            }
            for (from, to) in each() {
                let spine = usize::try_from(second).unwrap() % 2;
                let Some(answer) = self.probe.map(|answer| answer(&Probe { second, from, to, spine })) else {
                    continue;
                };
                let update = RouteUpdate::Probe {
                    flow: flow(from, to, spine),
                    answer_port: flow(from, to, spine).source_port,
                    transport: ProbeTransport::Rdma,
                    sent_ns: second * S,
                    rtt_ns: answer.map(|[rtt, _]| if from / 4 == to / 4 { RTT / 2.0 } else { rtt }),
                    turn_ns: answer.map(|[_, turn]| turn),
                };
                tracker.learn(second * S, update);
                if let Some(rtt_ns) = twin(&Probe { second, from, to, spine }) {
                    let update = RouteUpdate::Probe {
                        flow: FlowName { source_port: None, ..flow(from, to, spine) },
                        answer_port: None,
                        transport: ProbeTransport::Tcp,
                        sent_ns: second * S,
                        rtt_ns,
                        turn_ns: None,
                    };
                    tracker.learn(second * S, update);
                }
            }
            found.extend(tracker.tick(self.frame_of(&fabric, second)));
        }
        found.extend(tracker.open());
        found
    }

    fn frame_of(&self, fabric: &Fabric, second: i64) -> Frame {
        let mut frame = Frame::new(second * S);
        for port in fabric.host_ports() {
            let wave = 1.0 + 0.05 * ((second as usize + port) as f64 * 1.7).sin();
            let usual = [
                (Signal::Tx, USUAL * wave),
                (Signal::Rx, USUAL * wave),
                (Signal::Rate, RATE),
                (Signal::Up, 1.0),
                (Signal::CnpTx, 10.0),
                (Signal::CnpRx, 10.0),
            ];
            usual.into_iter().for_each(|(signal, value)| frame.set(signal, port, value));
            let none =
                [Signal::PauseTx, Signal::PauseRx, Signal::SequenceNaks, Signal::OutOfSequence, Signal::WireErrors];
            none.into_iter().for_each(|signal| frame.set(signal, port, 0.0));
        }
        if second >= CALM {
            (self.frame)(fabric, &mut frame);
        }
        frame
    }
}

/// Two flows of each job over different spines.
const APART: [(usize, usize, usize, i64); 4] = [(0, 4, 0, 0), (2, 6, 1, 0), (1, 5, 1, 0), (3, 7, 1, 0)];

/// A pair moves this part of the usual, and its receiver notifies its sender more.
fn slow(fabric: &Fabric, frame: &mut Frame, from: usize, to: usize) {
    let (from, to) = (host(fabric, from), host(fabric, to));
    frame.set(Signal::Tx, from, 0.4 * USUAL);
    frame.set(Signal::Rx, to, 0.4 * USUAL);
    frame.set(Signal::CnpRx, from, 900.0);
    frame.set(Signal::CnpTx, to, 900.0);
}

fn second(frame: &Frame) -> i64 {
    frame.time_ns / S
}

fn calm(_: &Probe) -> Answer {
    Some([RTT, TURN])
}

#[test]
fn probes_tell_which_link_of_a_slow_path_is_slow() {
    let frame = |fabric: &Fabric, frame: &mut Frame| slow(fabric, frame, 0, 4);
    // From the first leaf to the first spine. Only answers of the first leaf's hosts tell it from the link behind.
    let delay = |at: &'static str| {
        move |probe: &Probe| {
            let over = if at == "leaf0" { probe.crosses(0, 0) } else { probe.crosses(1, 0) };
            let within = probe.from / 4 == probe.to / 4;
            Some([if probe.second >= CALM && over && !within { RTT + 40_000.0 } else { RTT }, TURN])
        }
    };
    let found = only(Run { pairs: &APART, frame: &frame, probe: Some(&delay("leaf0")) }.incidents());
    assert_eq!((found.kind, &found.victim_jobs[..]), (IncidentKind::DegradedLink, &["even".to_owned()][..]));
    let path = found.path.clone().unwrap();
    assert_eq!((path.known, path.ports.len()), (PathSource::Traced, 5));
    assert!([link("leaf0", "spine0"), link("leaf1", "spine0")].contains(&found.root), "{:?}", found.root);
    assert!(found.explanation.contains("h0 port 1 > leaf0 port 5 > spine0 port 2 > leaf1 port 1 > h4 port 1 (traced)"));
    let without = only(Run { pairs: &APART, frame: &frame, probe: None }.incidents());
    assert_eq!(without.kind, IncidentKind::DegradedLink);
    assert!(without.confidence < found.confidence, "the path alone is less certain");
}

#[test]
fn new_flows_that_share_a_link_collide() {
    let both =
        |fabric: &Fabric, frame: &mut Frame| [(0, 4), (2, 6)].iter().for_each(|(a, b)| slow(fabric, frame, *a, *b));
    let shared = |begin| [(0, 4, 0, begin), (2, 6, 0, begin), (1, 5, 1, 0), (3, 7, 1, 0)];
    let found = only(Run { pairs: &shared(CALM), frame: &both, probe: None }.incidents());
    assert_eq!(
        (found.kind, found.root),
        (IncidentKind::EcmpCollision, link("leaf0", "spine0")),
        "the first shared link"
    );
    let before = only(Run { pairs: &shared(0), frame: &both, probe: None }.incidents());
    assert_eq!(before.kind, IncidentKind::DegradedLink, "they shared it before");
}

#[test]
fn a_collision_names_what_each_job_brings() {
    let both =
        |fabric: &Fabric, frame: &mut Frame| [(0, 4), (1, 5)].iter().for_each(|(a, b)| slow(fabric, frame, *a, *b));
    // The second queue pair of the odd job's sender takes the other spine.
    let pairs = [(0, 4, 0, CALM), (1, 5, 0, CALM), (1, 7, 1, 0), (2, 6, 1, 0), (3, 7, 1, 0)];
    let found = only(Run { pairs: &pairs, frame: &both, probe: None }.incidents());
    assert_eq!((found.kind, found.root), (IncidentKind::EcmpCollision, link("leaf0", "spine0")));
    let words = "its load comes from job even about 1.6 GB/s, job odd about 0.8 GB/s.";
    assert!(found.explanation.contains(words), "{}", found.explanation);
}

#[test]
fn an_application_that_sends_less_accuses_no_link() {
    let all = |fabric: &Fabric, frame: &mut Frame| {
        [(0, 4), (2, 6), (4, 0), (6, 2)].iter().for_each(|(a, b)| slow(fabric, frame, *a, *b))
    };
    let found = Run { pairs: &APART, frame: &all, probe: Some(&calm) }.incidents();
    assert!(
        found.iter().all(|i| i.kind != IncidentKind::DegradedLink && i.kind != IncidentKind::EcmpCollision),
        "{found:?}"
    );
    let quiet = |fabric: &Fabric, frame: &mut Frame| {
        slow(fabric, frame, 0, 4);
        [(0, Signal::CnpRx), (4, Signal::CnpTx)]
            .iter()
            .for_each(|(h, signal)| frame.set(*signal, host(fabric, *h), 10.0));
    };
    let found = Run { pairs: &APART, frame: &quiet, probe: Some(&calm) }.incidents();
    assert!(found.is_empty(), "its packets meet no queue: {found:?}");
}

#[test]
fn a_rate_that_a_pair_had_for_as_long_before_is_no_news() {
    // The job's phases differ: for 45 s one pair moves less and the others more. Later the pair is slow again.
    let part_later = |part: f64| {
        move |fabric: &Fabric, frame: &mut Frame| {
            let (from, to) = (host(fabric, 0), host(fabric, 4));
            match second(frame) {
                140..185 => {
                    for port in [0, 2, 4, 6].map(|h| host(fabric, h)) {
                        [Signal::Tx, Signal::Rx].into_iter().for_each(|signal| frame.set(signal, port, 1.2 * USUAL));
                    }
                    frame.set(Signal::Tx, from, 0.4 * USUAL);
                    frame.set(Signal::Rx, to, 0.4 * USUAL);
                }
                205.. => {
                    slow(fabric, frame, 0, 4);
                    frame.set(Signal::Tx, from, part * USUAL);
                    frame.set(Signal::Rx, to, part * USUAL);
                }
                _ => {}
            }
        }
    };
    let run = |part: f64| Run { pairs: &APART, frame: &part_later(part), probe: Some(&calm) }.incidents();
    let as_before = run(0.4);
    assert!(as_before.is_empty(), "{as_before:?}");
    assert_eq!(only(run(0.2)).kind, IncidentKind::DegradedLink, "it never was so slow");
}

/// Each third second, a sender gets a negative acknowledgment while its receiver misses packets.
fn loses(fabric: &Fabric, frame: &mut Frame, pairs: &[(usize, usize)]) {
    for (at, (from, to)) in pairs.iter().enumerate() {
        if second(frame) % 3 == at as i64 {
            frame.set(Signal::SequenceNaks, host(fabric, *from), 20.0);
            frame.set(Signal::OutOfSequence, host(fabric, *to), 40.0);
        }
    }
}

#[test]
fn pairs_that_lose_vote_for_the_link_that_they_share() {
    let pairs = [(0, 4, 0, 0), (0, 6, 1, 0), (1, 5, 0, 0), (2, 7, 1, 0)];
    let frame = |fabric: &Fabric, frame: &mut Frame| loses(fabric, frame, &[(0, 4), (0, 6)]);
    let found = only(Run { pairs: &pairs, frame: &frame, probe: Some(&calm) }.incidents());
    assert_eq!((found.kind, found.root), (IncidentKind::LossyLink, link("h0", "leaf0")), "both leave by it");
    let frame = |fabric: &Fabric, frame: &mut Frame| loses(fabric, frame, &[(0, 4), (1, 5)]);
    let found = only(Run { pairs: &pairs, frame: &frame, probe: None }.incidents());
    assert!([link("leaf0", "spine0"), link("leaf1", "spine0")].contains(&found.root), "{:?}", found.root);
    let order = ["Likeliest is the link at", ", then the link at"];
    assert!(order.iter().all(|words| found.explanation.contains(words)), "{}", found.explanation);
    // Probes from other hosts, some of which are lost: the first link is not the one.
    let frame = |fabric: &Fabric, frame: &mut Frame| loses(fabric, frame, &[(0, 4)]);
    let lost = |probe: &Probe| {
        let is_lost = probe.second >= CALM && probe.second % 20 == 0 && (probe.from, probe.to) == (1, 6);
        (!is_lost).then_some([RTT, TURN])
    };
    let found = only(Run { pairs: &pairs, frame: &frame, probe: Some(&lost) }.incidents());
    assert!([link("leaf0", "spine0"), link("leaf1", "spine0")].contains(&found.root), "{:?}", found.root);
}

#[test]
fn probes_from_before_the_losses_began_do_not_place_them() {
    let frame = |fabric: &Fabric, frame: &mut Frame| {
        if second(frame) < CALM + 40 {
            loses(fabric, frame, &[(0, 4)]);
        }
    };
    // The first host lost probes until just before.
    let earlier = |probe: &Probe| {
        let is_lost = probe.from == 0 && probe.second < CALM - 5 && probe.second % 10 == 1;
        (!is_lost).then_some([RTT, TURN])
    };
    let found = only(Run { pairs: &APART, frame: &frame, probe: Some(&earlier) }.incidents());
    assert_eq!(found.kind, IncidentKind::LossyLink);
    let order = ["Likeliest is the link at", ", then the link at"];
    assert!(order.iter().all(|words| found.explanation.contains(words)), "{}", found.explanation);
}

#[test]
fn a_link_that_loses_only_rdma_is_no_bad_cable() {
    let pairs = [(0, 4, 0, 0), (0, 6, 1, 0), (1, 5, 0, 0), (2, 7, 1, 0)];
    let frame = |fabric: &Fabric, frame: &mut Frame| loses(fabric, frame, &[(0, 4), (0, 6)]);
    let is_lost = |probe: &Probe| probe.second >= CALM && probe.from == 0 && (probe.second + probe.to as i64) % 4 == 0;
    let rdma = |probe: &Probe| (!is_lost(probe)).then_some([RTT, TURN]);
    let run = Run { pairs: &pairs, frame: &frame, probe: Some(&rdma) };
    const PASSES: Option<f64> = Some(60_000.0);
    let found = only(run.incidents_with_twins(&|_| Some(PASSES)));
    assert_eq!((found.kind, &found.root), (IncidentKind::TransportErrors, &link("h0", "leaf0")));
    assert!(found.explanation.contains("Only RDMA is lost: "), "{}", found.explanation);
    for lost in [None, Some(2.1e8)] {
        let found = only(run.incidents_with_twins(&|probe| Some(if is_lost(probe) { lost } else { PASSES })));
        assert_eq!(found.kind, IncidentKind::LossyLink, "TCP is lost too, or sent again");
        assert!(!found.explanation.contains("Only RDMA"), "{}", found.explanation);
    }
    let few = only(run.incidents_with_twins(&|probe| (probe.second % 100 == 0).then_some(PASSES)));
    assert_eq!(few.kind, IncidentKind::LossyLink, "few twins prove nothing");
    let without = only(run.incidents());
    assert_eq!((without.kind, without.root), (IncidentKind::LossyLink, link("h0", "leaf0")));
}

#[test]
fn a_link_between_switches_flaps_by_its_lost_probes() {
    let nothing = |_: &Fabric, _: &mut Frame| ();
    let run = |answer: &dyn Fn(&Probe) -> bool| {
        let probe = |probe: &Probe| (probe.second < CALM || answer(probe)).then_some([RTT, TURN]);
        Run { pairs: &APART, frame: &nothing, probe: Some(&probe) }.incidents()
    };
    let crosses = |probe: &Probe| probe.spine == 0 && probe.from / 4 != probe.to / 4;
    let found = only(run(&|probe| !(crosses(probe) && probe.second % 30 < 4)));
    assert_eq!(found.kind, IncidentKind::LinkFlap);
    assert!([link("leaf0", "spine0"), link("leaf1", "spine0")].contains(&found.root), "{:?}", found.root);
    let found = only(run(&|probe| !crosses(probe)));
    assert_eq!(found.kind, IncidentKind::LinkDown);
    let once = run(&|probe| !(crosses(probe) && probe.second == 120));
    assert!(once.is_empty(), "one burst is no flap: {once:?}");
    let single = run(&|probe| !(crosses(probe) && probe.from == 0 && probe.to == 4 && probe.second % 10 == 0));
    assert!(single.is_empty(), "single losses are no falls: {single:?}");
}

#[test]
fn hosts_that_do_not_answer_accuse_no_link() {
    let nothing = |_: &Fabric, _: &mut Frame| ();
    let run = |answer: &dyn Fn(&Probe) -> Answer| {
        let probe = |probe: &Probe| if probe.second < CALM { calm(probe) } else { answer(probe) };
        Run { pairs: &APART, frame: &nothing, probe: Some(&probe) }.incidents()
    };
    let stopped = run(&|probe| if probe.to == 5 { None } else { calm(probe) });
    assert!(stopped.is_empty(), "a stopped responder: {stopped:?}");
    let dead = run(&|probe| if [probe.from, probe.to].contains(&5) { None } else { calm(probe) });
    assert!(dead.is_empty(), "a host without a processor for probes: {dead:?}");
    let busy = run(&|probe| Some(if probe.to == 5 { [RTT + 90_000.0, 50.0 * TURN] } else { [RTT, TURN] }));
    assert!(busy.is_empty(), "a busy responder: {busy:?}");
    let step = run(&|probe| Some([RTT, if probe.second == 120 { 1e12 } else { TURN }]));
    assert!(step.is_empty(), "a clock step: {step:?}");
    let gaps = run(&|probe| if probe.second % 7 < 3 { calm(probe) } else { Some([RTT * 1.01, TURN]) });
    assert!(gaps.is_empty(), "{gaps:?}");
}

#[test]
fn a_host_that_answers_late_is_an_observation_at_that_host() {
    const LATE: f64 = 6e6;
    let run = |frame: &dyn Fn(&Fabric, &mut Frame), late: &dyn Fn(&Probe) -> bool| {
        let probe = |probe: &Probe| Some([RTT, if probe.second >= CALM && late(probe) { LATE } else { TURN }]);
        let mut found = Run { pairs: &APART, frame, probe: Some(&probe) }.all_with_twins(&|_| None);
        assert!(found.iter().all(|incident| incident.severity == Severity::Info), "{found:?}");
        found.retain(|incident| incident.kind == IncidentKind::BusyHost);
        found
    };
    let nothing = |_: &Fabric, _: &mut Frame| ();
    let found = only(run(&nothing, &|probe| probe.to == 5));
    assert_eq!((found.root, found.severity), (Location::Host { node: "h5".into() }, Severity::Info));
    assert!((CALM * S..(CALM + 5) * S).contains(&found.start_ns), "{}", found.start_ns);
    assert!(found.explanation.contains("h5 answers probes late: 100 % of its answers"), "{}", found.explanation);
    let some = run(&nothing, &|probe| probe.to == 5 && probe.second % 3 == 0);
    assert!(some.is_empty(), "one answer of three: {some:?}");
    let all = run(&nothing, &|_| true);
    assert!(all.is_empty(), "all hosts alike: {all:?}");
    let held = |fabric: &Fabric, frame: &mut Frame| frame.set(Signal::PauseRx, host(fabric, 5), 0.02);
    let held = run(&held, &|probe| probe.to == 5);
    assert!(held.is_empty(), "its answers wait for the network: {held:?}");
}

#[test]
fn unknown_ports_are_ignored() {
    let fabric = fabric();
    let mut tracker = IncidentTracker::new(fabric.clone(), Thresholds::default());
    let nodes = fabric.topology.nodes.len();
    let gone = FlowName { to: port("h99".into(), 1), ..flow(0, 4, 0) };
    let source = PathSource::Traced;
    tracker.learn(0, RouteUpdate::Path { flow: gone.clone(), hops: hops(0, 4, 0), source });
    tracker.learn(0, RouteUpdate::Path { flow: flow(0, 4, 0), hops: vec![port("nowhere".into(), 1)], source });
    tracker.learn(0, RouteUpdate::Connected { flow: gone.clone(), number: 1 });
    tracker.learn(0, RouteUpdate::Closed { port: port("h99".into(), 1), number: 1 });
    let (answer_port, transport) = (gone.source_port, ProbeTransport::Rdma);
    let (rtt_ns, turn_ns) = (Some(-5.0), Some(f64::NAN));
    tracker.learn(0, RouteUpdate::Probe { flow: gone, answer_port, transport, sent_ns: 0, rtt_ns, turn_ns });
    assert_eq!(tracker.fabric().topology.nodes.len(), nodes);
    assert!(tracker.fabric().routes.is_empty());
}
