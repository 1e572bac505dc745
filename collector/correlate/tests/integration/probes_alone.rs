//! Verdicts from probes alone: no switch is read and no job suffers.

use crate::common::RATE;
use fabriclens_correlate::{
    Fabric, FlowName, Frame, Incident, IncidentKind, IncidentTracker, Link, LinkEnd, Location, LocationId, Node,
    PathSource, PortName, Ports, ProbeTransport, Role, RouteUpdate, Severity, Signal, SuspectFlows, Thresholds,
    Topology,
};

const S: i64 = 1_000_000_000;
/// Seconds of calm, and of all.
const CALM: i64 = 120;
const ALL: i64 = 300;
const RTT: f64 = 8_000.0;
const TURN: f64 = 3_000.0;
const SPINES: usize = 2;

/// Leaf of each host, and probes that a host sends each second.
#[derive(Clone, Copy)]
struct Plan {
    leaf_of: &'static [usize],
    rate: usize,
    /// Whether probes between two hosts have TCP twins.
    has_twin: fn([usize; 2]) -> bool,
}

const THREE_LEAVES: Plan = Plan { leaf_of: &[0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2], rate: 4, has_twin: |_| true };
/// Leaves with a single host.
const FEW: Plan = Plan { leaf_of: &[0, 0, 1, 2], rate: 10, has_twin: |_| true };
/// The same hosts while nothing is suspected: only the job of two of them has twins.
const SPARSE: Plan = Plan { rate: 2, has_twin: |ends| ends == [0, 1], ..FEW };
/// And what they send for suspects.
const SUSPECTS: Plan = Plan { rate: 8, ..FEW };
/// Both trunks of a spine are on all paths between leaves.
const TWO_LEAVES: Plan = Plan { leaf_of: &[0, 0, 0, 0, 1, 1, 1, 1], rate: 4, has_twin: |_| true };

/// A probe under way: ports from node to node, there and back.
struct Probe {
    second: i64,
    ends: [usize; 2],
    hops: Vec<(String, String)>,
    /// Of these, 0 to 1, evenly spread.
    random: Vec<f64>,
}

impl Probe {
    /// How often it goes from one node to the other.
    fn crosses(&self, from: &str, to: &str) -> usize {
        self.hops.iter().filter(|(a, b)| a == from && b == to).count()
    }

    /// The same in both directions.
    fn crosses_either(&self, a: &str, b: &str) -> usize {
        self.crosses(a, b) + self.crosses(b, a)
    }

    /// Whether a loss of so large a share at each of so many crossings hits it.
    fn is_hit(&self, crossings: usize, loss: f64) -> bool {
        self.random.iter().take(crossings).any(|chance| *chance < loss)
    }
}

/// Round trip in nanoseconds; `None` if it is lost.
type Answer<'a> = &'a dyn Fn(&Probe) -> Option<f64>;

fn mix(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

impl Plan {
    fn leaves(self) -> usize {
        self.leaf_of.iter().max().unwrap() + 1
    }

    fn fabric(self) -> Fabric {
        let (hosts, leaves) = (self.leaf_of.len(), self.leaves());
        let node = |name: String, role| Node { name, role };
        let mut nodes: Vec<Node> = (0..hosts).map(|h| node(format!("h{h}"), Role::Host)).collect();
        nodes.extend((0..leaves).map(|l| node(format!("leaf{l}"), Role::Leaf)));
        nodes.extend((0..SPINES).map(|s| node(format!("spine{s}"), Role::Spine)));
        let end = |node: usize, port: String| LinkEnd { node, port };
        let link = |a, b| Link::new([a, b], Some(RATE));
        let of_host = |h: usize| link(end(h, "1".into()), end(hosts + self.leaf_of[h], format!("h{h}")));
        let mut links: Vec<Link> = (0..hosts).map(of_host).collect();
        for (leaf, spine) in (0..leaves).flat_map(|leaf| (0..SPINES).map(move |spine| (leaf, spine))) {
            let ends = [end(hosts + leaf, format!("spine{spine}")), end(hosts + leaves + spine, format!("leaf{leaf}"))];
            let [up, down] = ends;
            links.push(link(up, down));
        }
        let topology = Topology::new(nodes, links);
        let ports = Ports::new(&topology);
        Fabric::new(topology, ports, Vec::new())
    }

    /// Nodes of a path.
    fn nodes(self, [from, to]: [usize; 2], spine: usize) -> Vec<String> {
        let leaf = |h: usize| format!("leaf{}", self.leaf_of[h]);
        let mut all = vec![format!("h{from}"), leaf(from)];
        if leaf(from) != leaf(to) {
            all.extend([format!("spine{spine}"), leaf(to)]);
        }
        all.push(format!("h{to}"));
        all
    }

    fn flow([from, to]: [usize; 2], spine: usize) -> FlowName {
        let end = |h: usize| PortName { node: format!("h{h}"), port: "1".into() };
        FlowName { from: end(from), to: end(to), source_port: Some(50_000 + spine as u16) }
    }

    fn hops(self, ends: [usize; 2], spine: usize) -> Vec<PortName> {
        let egress = |pair: &[String]| PortName {
            node: pair[0].clone(),
            port: if pair[0].starts_with('h') { "1".into() } else { pair[1].clone() },
        };
        self.nodes(ends, spine).windows(2).map(egress).collect()
    }

    fn tracker(self) -> (Fabric, IncidentTracker) {
        let fabric = self.fabric();
        let mut tracker = IncidentTracker::new(fabric.clone(), Thresholds::default());
        let hosts = self.leaf_of.len();
        let ends = (0..hosts).flat_map(|from| (0..hosts).map(move |to| [from, to])).filter(|[from, to]| from != to);
        for (ends, spine) in ends.flat_map(|ends| (0..SPINES).map(move |spine| (ends, spine))) {
            let (flow, hops) = (Self::flow(ends, spine), self.hops(ends, spine));
            tracker.learn(0, RouteUpdate::Path { flow, hops, source: PathSource::Traced });
        }
        (fabric, tracker)
    }

    /// Probes of a second with their results, and their TCP twins by `twin`.
    fn probe(
        self,
        tracker: &mut IncidentTracker,
        second: i64,
        answer: Answer<'_>,
        twin: Option<Answer<'_>>,
        seed: &mut u64,
    ) {
        let hosts = self.leaf_of.len();
        for at in 0..hosts * self.rate {
            let from = at % hosts;
            let to = (from + 1 + (mix(seed) * (hosts - 1) as f64) as usize) % hosts;
            let [there, back] = [0, 1].map(|_| (mix(seed) * SPINES as f64) as usize);
            let pairs = |nodes: Vec<String>| nodes.windows(2).map(|p| (p[0].clone(), p[1].clone())).collect::<Vec<_>>();
            let hops = [pairs(self.nodes([from, to], there)), pairs(self.nodes([to, from], back))].concat();
            let random = (0..hops.len()).map(|_| mix(seed)).collect();
            let probe = Probe { second, ends: [from, to], hops, random };
            let update = |answer: Option<f64>, transport| RouteUpdate::Probe {
                flow: Self::flow([from, to], there),
                answer_port: Some(50_000 + back as u16),
                transport,
                sent_ns: second * S + at as i64 * S / (hosts * self.rate) as i64,
                rtt_ns: answer,
                turn_ns: answer.map(|_| TURN),
            };
            let same = self.leaf_of[from] == self.leaf_of[to];
            let rtt = answer(&probe).map(|rtt| if same { rtt - RTT / 2.0 } else { rtt });
            tracker.learn(second * S + S, update(rtt, ProbeTransport::Rdma));
            // As many as a planned host sends.
            if let Some(twin) = twin.filter(|_| at % 5 < 2 && (self.has_twin)([from, to])) {
                tracker.learn(second * S + S, update(twin(&probe), ProbeTransport::Tcp));
            }
        }
    }

    fn frame(fabric: &Fabric, second: i64) -> Frame {
        let mut frame = Frame::new(second * S);
        for port in fabric.host_ports() {
            let all = [(Signal::Tx, 1e8), (Signal::Rx, 1e8), (Signal::Rate, RATE), (Signal::Up, 1.0)];
            let none = [Signal::PauseTx, Signal::PauseRx, Signal::SequenceNaks].map(|signal| (signal, 0.0));
            all.into_iter().chain(none).for_each(|(signal, value)| frame.set(signal, port, value));
        }
        frame
    }

    /// All incidents, also observations; `answer` counts after the calm time.
    fn incidents(self, answer: Answer<'_>, twin: Option<Answer<'_>>, seed: u64) -> Vec<Incident> {
        self.incidents_after(&|_| Some(RTT), answer, twin, seed)
    }

    /// Incidents of answers that change after the calm.
    fn incidents_after(
        self,
        calm: Answer<'_>,
        answer: Answer<'_>,
        twin: Option<Answer<'_>>,
        mut seed: u64,
    ) -> Vec<Incident> {
        let ((fabric, mut tracker), mut found) = (self.tracker(), Vec::new());
        for second in 0..ALL {
            self.probe(&mut tracker, second, if second < CALM { calm } else { answer }, twin, &mut seed);
            found.extend(tracker.tick(Self::frame(&fabric, second + 1)));
        }
        found.extend(tracker.open());
        found
    }

    fn link(self, a: &str, b: &str) -> Location {
        let fabric = self.fabric();
        let ends = [a, b].map(|name| fabric.topology.node(name).unwrap());
        let between = |l: &Link| l.ends.each_ref().map(|end| end.node) == ends;
        Location::of(&fabric, &LocationId::Link(fabric.topology.links.iter().position(between).unwrap()))
    }
}

/// Incidents that page.
fn paged(all: Vec<Incident>) -> Vec<Incident> {
    all.into_iter().filter(|incident| incident.severity != Severity::Info).collect()
}

/// The only incident that pages.
fn only(all: Vec<Incident>) -> Incident {
    let told = format!("{all:#?}");
    let mut paged = paged(all);
    assert_eq!(paged.len(), 1, "{told}");
    paged.remove(0)
}

#[test]
fn a_link_that_loses_some_probes_is_named() {
    for (plan, seed) in [(THREE_LEAVES, 1), (THREE_LEAVES, 2), (FEW, 3), (FEW, 4)] {
        let both = |probe: &Probe| (!probe.is_hit(probe.crosses_either("leaf1", "spine0"), 0.02)).then_some(RTT);
        let found = only(plan.incidents(&both, None, seed));
        assert_eq!((found.kind, &found.root), (IncidentKind::LossyLink, &plan.link("leaf1", "spine0")));
        let took = (found.detected_ns - CALM * S) / S;
        assert!(took < 70, "after {took} s");
        assert_eq!(found.path.as_ref().unwrap().known, PathSource::Traced);
        assert!(found.explanation.contains("Probes by other links pass."), "{}", found.explanation);
        let one = |probe: &Probe| (!probe.is_hit(probe.crosses("spine1", "leaf2"), 0.05)).then_some(RTT);
        let found = only(plan.incidents(&one, None, seed));
        assert_eq!(
            (found.kind, &found.root),
            (IncidentKind::LossyLink, &plan.link("leaf2", "spine1")),
            "one direction"
        );
    }
}

#[test]
fn two_links_that_lose_probes_are_both_named() {
    let answer = |probe: &Probe| {
        let crossings = probe.crosses_either("leaf1", "spine0") + probe.crosses_either("leaf2", "spine1");
        (!probe.is_hit(crossings, 0.03)).then_some(RTT)
    };
    let found = paged(THREE_LEAVES.incidents(&answer, None, 5));
    let mut roots: Vec<&Location> = found.iter().map(|incident| &incident.root).collect();
    roots.dedup();
    let named = |a, b| roots.contains(&&THREE_LEAVES.link(a, b));
    assert!(roots.len() == 2 && named("leaf1", "spine0") && named("leaf2", "spine1"), "{found:#?}");
}

#[test]
fn an_incident_of_lost_probes_ends_with_the_losses() {
    let answer = |probe: &Probe| {
        let lost = probe.second < 180 && probe.is_hit(probe.crosses_either("leaf1", "spine0"), 0.03);
        (!lost).then_some(RTT)
    };
    let found = only(THREE_LEAVES.incidents(&answer, None, 6));
    let end = found.end_ns.unwrap() / S;
    assert!((180..225).contains(&end), "{end}");
}

#[test]
fn losses_that_no_link_explains_accuse_nobody() {
    let calm: Answer<'_> = &|probe| (!probe.is_hit(1, 1e-4)).then_some(RTT);
    let everywhere: Answer<'_> = &|probe| (!probe.is_hit(1, 0.02)).then_some(RTT);
    let at = |probe: &Probe, hosts: &[usize]| probe.ends.iter().any(|end| hosts.contains(end));
    let stopped: Answer<'_> = &|probe| (probe.ends[1] != 2).then_some(RTT);
    let host: Answer<'_> = &|probe| (!(at(probe, &[2]) && probe.is_hit(1, 0.1))).then_some(RTT);
    let stalls: Answer<'_> = &|probe| (!(probe.ends[1] == 2 && probe.second % 20 < 2)).then_some(RTT);
    let leaf: Answer<'_> = &|probe| (!(at(probe, &[0, 1]) && probe.is_hit(1, 0.05))).then_some(RTT);
    let pair: Answer<'_> = &|probe| (!(probe.ends == [0, 2] && probe.second % 5 == 0)).then_some(RTT);
    let burst: Answer<'_> = &|probe| (probe.second != 150).then_some(RTT);
    let cases = [
        ("calm", calm),
        ("everywhere", everywhere),
        ("stopped", stopped),
        ("host", host),
        ("stalls", stalls),
        ("leaf", leaf),
    ];
    for (name, answer) in cases.into_iter().chain([("pair", pair), ("burst", burst)]) {
        for (plan, seed) in [(THREE_LEAVES, 7), (FEW, 8), (TWO_LEAVES, 10)] {
            let found = paged(plan.incidents(answer, None, seed));
            assert!(found.is_empty(), "{name} {seed}: {found:#?}");
        }
    }
}

#[test]
fn links_on_the_same_paths_are_named_in_order() {
    let answer =
        |loss: f64| move |probe: &Probe| (!probe.is_hit(probe.crosses_either("leaf1", "spine0"), loss)).then_some(RTT);
    let found = only(TWO_LEAVES.incidents(&answer(0.02), None, 11));
    assert!(found.explanation.contains("Several links are on the same paths; likeliest is"), "{}", found.explanation);
    assert!(found.confidence < 0.7);
    let few = |probe: &Probe| answer(0.02)(probe).or((probe.second > CALM + 12).then_some(RTT));
    let found = TWO_LEAVES.incidents(&few, None, 11);
    assert!(paged(found.clone()).is_empty() && !found.is_empty(), "thin evidence is an observation: {found:#?}");
}

#[test]
fn a_link_that_loses_only_rdma_probes_is_no_bad_cable() {
    let rdma = |probe: &Probe| (!probe.is_hit(probe.crosses_either("leaf1", "spine0"), 0.05)).then_some(RTT);
    let passes: Answer<'_> = &|_| Some(60_000.0);
    let found = only(THREE_LEAVES.incidents(&rdma, Some(passes), 12));
    assert_eq!((found.kind, &found.root), (IncidentKind::TransportErrors, &THREE_LEAVES.link("leaf1", "spine0")));
    assert!(found.explanation.contains("Only RDMA is lost: "), "{}", found.explanation);
    let found = only(THREE_LEAVES.incidents(&rdma, Some(&rdma), 12));
    assert_eq!(found.kind, IncidentKind::LossyLink, "TCP is lost too");
}

#[test]
fn a_link_that_drops_all_rdma_packets_is_not_down() {
    let rdma = |probe: &Probe| (probe.crosses("spine0", "leaf0") == 0).then_some(RTT);
    for seed in 13..17 {
        for (twin, kind) in [(RTT, IncidentKind::TransportErrors), (f64::NAN, IncidentKind::LinkDown)] {
            let passes: Answer<'_> = &|probe| rdma(probe).or((!twin.is_nan()).then_some(twin));
            let (took, found) = followed(&rdma, Some(passes), seed);
            assert_eq!((found.kind, &found.root), (kind, &FEW.link("leaf0", "spine0")), "{found:#?}");
            assert!(took < 60, "after {took} s");
        }
        let (took, found) = followed(&rdma, None, seed);
        assert!(found.kind == IncidentKind::LinkDown && took < 30, "nobody probes TCP: after {took} s {found:#?}");
    }
}

#[test]
fn a_link_that_is_down_is_named_at_a_leaf_with_one_probing_host() {
    for seed in 17..20 {
        let down = |probe: &Probe| (probe.crosses_either("leaf1", "spine0") == 0).then_some(RTT);
        let found = only(FEW.incidents(&down, None, seed));
        assert_eq!((found.kind, &found.root), (IncidentKind::LinkDown, &FEW.link("leaf1", "spine0")), "{seed}");
    }
}

#[test]
fn a_link_that_is_up_again_is_not_told_as_down_for_single_losses_elsewhere() {
    for seed in 61..65 {
        let answer = |probe: &Probe| {
            let down = probe.second < CALM + 30 && probe.crosses_either("leaf0", "spine0") > 0;
            let lost = probe.second >= CALM + 60 && probe.is_hit(probe.crosses_either("leaf1", "spine1"), 0.1);
            (!down && !lost).then_some(RTT)
        };
        let found = SPARSE.incidents(&answer, None, seed);
        let downs: Vec<_> = found.iter().filter(|one| one.kind == IncidentKind::LinkDown).map(|one| &one.id).collect();
        assert!(!downs.is_empty() && downs.iter().all(|id| *id == downs[0]), "{seed}: {downs:?}");
    }
}

/// Round trips with so much more at each crossing of a link.
fn later<'a>(a: &'a str, b: &'a str, ns: f64) -> impl Fn(&Probe) -> Option<f64> + 'a {
    move |probe| Some(RTT + probe.crosses_either(a, b) as f64 * ns + probe.random[0] * 1e5)
}

#[test]
fn a_link_that_delays_probes_is_named() {
    for (plan, seed) in [(THREE_LEAVES, 21), (FEW, 22), (FEW, 23)] {
        let found = only(plan.incidents(&later("leaf0", "spine0", 5e6), None, seed));
        assert_eq!((found.kind, &found.root), (IncidentKind::DegradedLink, &plan.link("leaf0", "spine0")));
        let took = (found.detected_ns - CALM * S) / S;
        assert!(took < 45, "after {took} s");
        assert!(
            found.explanation.contains("longer than any queue of it can hold them (4.0 ms)"),
            "{}",
            found.explanation
        );
        let one = |probe: &Probe| Some(RTT + probe.crosses("spine1", "leaf1") as f64 * 5e6);
        let found = only(plan.incidents(&one, None, seed));
        assert_eq!(found.root, plan.link("leaf1", "spine1"), "one direction");
    }
    let found = only(TWO_LEAVES.incidents(&later("leaf0", "spine0", 5e6), None, 24));
    assert!(found.explanation.contains("Several links are on the same paths"), "{}", found.explanation);
    let found = THREE_LEAVES.incidents(&later("leaf0", "spine0", 2.5e6), None, 25);
    let observed: Vec<_> = found.iter().map(|incident| (incident.kind, incident.severity)).collect();
    assert_eq!(observed, [(IncidentKind::DegradedLink, Severity::Info)], "a full queue may hold packets for so long");
}

/// Round trips between hosts that are short of CPU: most take tens of milliseconds.
fn busy(probe: &Probe) -> f64 {
    RTT + if probe.random[0] < 0.2 { probe.random[1] * 3e6 } else { probe.random[1] * 6e7 }
}

#[test]
fn a_link_that_delays_probes_is_named_between_busy_hosts() {
    for (plan, seed) in [(THREE_LEAVES, 26), (FEW, 27), (FEW, 28)] {
        let answer = |probe: &Probe| Some(busy(probe) + probe.crosses_either("leaf0", "spine0") as f64 * 5e6);
        let found = only(plan.incidents_after(&|probe| Some(busy(probe)), &answer, None, seed));
        assert_eq!((found.kind, &found.root), (IncidentKind::DegradedLink, &plan.link("leaf0", "spine0")));
        let delay_ms = found.evidence[0].value / 1e6;
        assert!((4.0..20.0).contains(&delay_ms), "{delay_ms}: {}", found.explanation);
    }
}

#[test]
fn hosts_that_are_nearly_always_late_need_more_probes() {
    let usual = |probe: &Probe| RTT + if probe.random[0] < 0.4 { 0.0 } else { 2e7 };
    for seed in 29..33 {
        let answer = |probe: &Probe| Some(usual(probe) + probe.crosses_either("leaf0", "spine0") as f64 * 5e6);
        let found = only(SPARSE.incidents_after(&|probe| Some(usual(probe)), &answer, None, seed));
        assert_eq!((found.kind, &found.root), (IncidentKind::DegradedLink, &FEW.link("leaf0", "spine0")));
    }
}

#[test]
fn delays_that_no_link_explains_accuse_nobody() {
    let at = |probe: &Probe, host: usize| probe.ends.contains(&host);
    let host: Answer<'_> = &|probe| Some(if at(probe, 2) { RTT + 9e6 } else { RTT });
    let mostly: Answer<'_> = &|probe| Some(if at(probe, 2) && probe.random[0] < 0.85 { RTT + 9e6 } else { RTT });
    let everywhere: Answer<'_> = &|_| Some(RTT + 9e6);
    let noise: Answer<'_> = &|probe| Some(RTT + if probe.random[0] < 0.6 { 9e6 } else { 0.0 });
    let queue: Answer<'_> = &|probe| Some(RTT + probe.crosses("leaf0", "spine0") as f64 * probe.random[0] * 9e6);
    let busy: Answer<'_> = &|probe| Some(busy(probe));
    // A host that stands still for two seconds of four.
    let stalls: Answer<'_> = &|probe| Some(if at(probe, 2) && probe.second % 4 < 2 { RTT + 5e7 } else { RTT });
    let cases = [
        ("host", host),
        ("mostly", mostly),
        ("everywhere", everywhere),
        ("noise", noise),
        ("queue", queue),
        ("busy", busy),
        ("stalls", stalls),
    ];
    for (name, answer) in cases {
        for (plan, seed) in [(THREE_LEAVES, 31), (FEW, 32), (TWO_LEAVES, 34)] {
            let found = paged(plan.incidents(answer, None, seed));
            assert!(found.is_empty(), "{name} {seed}: {found:#?}");
        }
    }
    // It was always so: a link to another site.
    let ((fabric, mut tracker), mut seed) = (THREE_LEAVES.tracker(), 35);
    for second in 0..ALL {
        THREE_LEAVES.probe(&mut tracker, second, &later("leaf0", "spine0", 5e6), None, &mut seed);
        tracker.tick(Plan::frame(&fabric, second + 1));
        assert!(tracker.open().is_empty(), "{:?}", tracker.open());
    }
}

/// Suspect flows after some seconds.
fn suspects(plan: Plan, seconds: i64, answer: Answer<'_>) -> SuspectFlows {
    let ((fabric, mut tracker), mut seed) = (plan.tracker(), 41);
    for second in 0..seconds {
        plan.probe(&mut tracker, second, answer, None, &mut seed);
        tracker.tick(Plan::frame(&fabric, second + 1));
    }
    tracker.suspect_flows()
}

#[test]
fn flows_over_links_that_lose_probes_are_suspect_at_once() {
    let few = Plan { rate: 1, ..FEW };
    assert!(suspects(few, 60, &|_| Some(RTT)).is_empty());
    let lost = |probe: &Probe| (!(probe.second >= 55 && probe.crosses("leaf0", "spine0") == 1)).then_some(RTT);
    let found = suspects(few, 60, &lost);
    assert!(!found.is_empty(), "two seconds later, long before the window is complete");
    let spines: Vec<u16> = found.values().flatten().copied().collect();
    assert!(spines.contains(&50_000), "{found:?}");
    let stopped = suspects(few, 90, &|probe| (probe.ends[1] != 2 || probe.second < 40).then_some(RTT));
    assert!(stopped.is_empty(), "no link explains a host that answers nobody: {stopped:?}");
}

#[test]
fn a_link_that_loses_two_in_a_hundred_is_named_within_two_minutes_at_the_usual_rate_of_four_hosts() {
    let answer = |probe: &Probe| (!probe.is_hit(probe.crosses_either("leaf1", "spine0"), 0.02)).then_some(RTT);
    for seed in 51..54 {
        let (took, named) = followed(&answer, None, seed);
        println!("seed {seed}: named after {took} s");
        assert_eq!(named.root, FEW.link("leaf1", "spine0"), "{named:#?}");
    }
}

/// Seconds until the first incident of four hosts that pages, and what it says then; no other place is named later. Agents follow a
/// new plan some 15 s after a suspicion: suspects fill what a port may send, TCP twins included.
fn followed(answer: Answer<'_>, twin: Option<Answer<'_>>, mut seed: u64) -> (i64, Incident) {
    let (fabric, mut tracker) = FEW.tracker();
    let calm: Answer<'_> = &|_| Some(RTT);
    let (mut suspect_since, mut first) = (None, None);
    for second in 0..CALM + 120 {
        let is_dense = suspect_since.is_some_and(|since| second >= since + 15);
        let plan = if is_dense { SUSPECTS } else { SPARSE };
        let (answer, twin) = if second < CALM { (calm, twin.map(|_| calm)) } else { (answer, twin) };
        plan.probe(&mut tracker, second, answer, twin, &mut seed);
        tracker.tick(Plan::frame(&fabric, second + 1));
        suspect_since = (!tracker.suspect_flows().is_empty()).then(|| suspect_since.unwrap_or(second));
        for incident in paged(tracker.open()) {
            let (_, named) = first.get_or_insert_with(|| (second - CALM, incident.clone()));
            assert_eq!(incident.root, named.root, "{incident:#?}");
        }
    }
    first.unwrap_or_else(|| panic!("seed {seed}: nothing is named, suspect since {suspect_since:?}"))
}
