use super::*;
use crate::simulated::{LATENCY, Network, SimulatedPort, VirtualTime};
use std::cell::RefCell;
use std::rc::Rc;

const MS: Duration = Duration::from_millis(1);

/// Two hosts; the first probes the second every 10 ms.
struct Pair {
    time: VirtualTime,
    ports: [SimulatedPort; 2],
    probers: [PortProber; 2],
    results: Vec<ProbeResult>,
}

impl Pair {
    fn new() -> Self {
        let (network, time) = (Rc::new(RefCell::new(Network::default())), VirtualTime::default());
        let ports = [1, 2].map(|host| SimulatedPort::new(&network, &time, host));
        let probers = [0, 1].map(|index| PortProber::new(&ports[index], 7, 1000, PortStats::default(), Duration::ZERO));
        let mut pair = Self { time, ports, probers, results: Vec::new() };
        pair.aim(pair.ports[1].probed());
        pair
    }

    fn aim(&mut self, to: ProbedPort) {
        let target = Target {
            from: "mlx5_0/1".into(),
            host: "gpu-02".into(),
            to: Some(to),
            source_ports: vec![50_001, 50_002],
            traffic_class: 104,
            probe_every_ms: 10,
            class: fabriclens_probe_plan::PairClass::Job as i32,
            ..Target::default()
        };
        self.probers[0].set_targets([Arc::new(target)], self.time.now());
    }

    fn step(&mut self, host: usize) {
        let (time, results) = (self.time.clone(), &mut self.results);
        let mut found = |_: &Target, result: ProbeResult| results.push(result);
        let mut around = Surroundings { time: &time, budget: &|_| true, found: &mut found };
        self.probers[host].step(&mut self.ports[host], &mut around).unwrap();
    }

    /// Both hosts run each 100 us.
    fn run(&mut self, time: Duration) {
        let end = self.time.now() + time;
        while self.time.now() < end {
            self.pass(MS / 10);
            self.step(0);
            self.step(1);
        }
    }

    fn pass(&self, time: Duration) {
        self.time.0.set(self.time.0.get() + time);
    }

    fn fate(&self, fate: impl FnMut(&mut crate::simulated::InFlight) -> Vec<Duration> + 'static) {
        self.ports[0].network.borrow_mut().set_fate(fate);
    }

    fn lost(&self) -> usize {
        self.results.iter().filter(|result| result.rtt_ns.is_none()).count()
    }

    fn refused(&self, refusal: Refusal) -> u64 {
        self.probers[0].stats.refused.get(refusal)
    }
}

/// Kind of a datagram.
fn kind(bytes: &[u8]) -> u8 {
    bytes[1]
}

#[test]
fn round_trips_are_the_networks_alone() {
    let mut pair = Pair::new();
    pair.ports[1].clock = -3_000_000;
    pair.run(1000 * MS);
    assert!((95..=101).contains(&pair.results.len()), "{}", pair.results.len());
    let rtt = u64::try_from(2 * LATENCY.as_nanos()).unwrap();
    for result in &pair.results {
        assert_eq!(result.rtt_ns, Some(rtt), "{result:?}");
        assert!(result.turn_ns < Some(200_000) && result.own_ns < 500_000, "{result:?}");
        assert_eq!(result.transport, ProbeTransport::Rdma as i32);
    }
    let ports: Vec<_> = pair.results.iter().take(3).map(|result| result.source_port).collect();
    assert_eq!(ports, [50_001, 50_002, 50_001]);
    let stats = &pair.probers[0].stats;
    assert_eq!(stats.pairs[3][0].rtt.count(), pair.results.len() as u64);
    assert_eq!(stats.refused, crate::refusal::Counts::default());
    // Three datagrams a probe, and nothing else.
    let answered = pair.probers[1].stats.answered as usize;
    assert!(pair.ports[0].network.borrow().sent <= 3 * (answered + 1));
}

#[test]
fn times_of_the_host_are_told_as_such() {
    for (prober, responder) in [(false, true), (true, false)] {
        let mut pair = Pair::new();
        (pair.ports[0].facts.hardware_time, pair.ports[1].facts.hardware_time) = (prober, responder);
        pair.probers =
            [0, 1].map(|index| PortProber::new(&pair.ports[index], 7, 1000, PortStats::default(), Duration::ZERO));
        pair.aim(pair.ports[1].probed());
        pair.run(50 * MS);
        assert!(!pair.results.is_empty());
        assert!(pair.results.iter().all(|result| result.transport == ProbeTransport::RdmaSoftwareTime as i32));
    }
}

#[test]
fn lost_datagrams_are_lost_probes_and_a_lost_ack_2_is_not() {
    for (lost, is_loss) in [(1, true), (2, true), (3, false)] {
        let mut pair = Pair::new();
        let mut count = 0;
        pair.fate(move |datagram| {
            count += u32::from(kind(&datagram.bytes) == lost);
            if kind(&datagram.bytes) == lost && count % 4 == 0 { vec![] } else { vec![Duration::ZERO] }
        });
        pair.run(4000 * MS);
        let half = pair.probers[0].stats.discarded_for("half_answered");
        let expected = 45..=55;
        assert_eq!(expected.contains(&pair.lost()), is_loss, "kind {lost}: {} lost", pair.lost());
        assert_eq!(expected.contains(&usize::try_from(half).unwrap()), !is_loss, "kind {lost}: {half} half answered");
    }
}

#[test]
fn reordered_and_repeated_answers_are_measured_once() {
    let mut pair = Pair::new();
    // ACK 1 takes 3 ms more than ACK 2, and all come twice.
    pair.fate(|datagram| if kind(&datagram.bytes) == 2 { vec![3 * MS, 4 * MS] } else { vec![Duration::ZERO; 2] });
    pair.run(1000 * MS);
    assert_eq!(pair.lost(), 0);
    assert!((90..=101).contains(&pair.results.len()), "{}", pair.results.len());
    assert!(pair.refused(Refusal::Repeated) >= 90);
    let rtt = u64::try_from((2 * LATENCY + 3 * MS).as_nanos()).unwrap();
    assert!(pair.results.iter().all(|result| result.rtt_ns == Some(rtt)), "ACK 1 tells the round trip");
}

#[test]
fn late_answers_are_refused() {
    let mut pair = Pair::new();
    pair.fate(|_| vec![1100 * MS]);
    pair.run(4000 * MS);
    assert_eq!(pair.lost(), pair.results.len());
    assert!(pair.lost() > 80 && pair.refused(Refusal::Late) > 80);
}

#[test]
fn forged_answers_change_nothing() {
    let mut pair = Pair::new();
    pair.run(100 * MS);
    let (before, me, now) = (pair.results.len(), pair.ports[0].peer(), pair.time.now());
    let stranger = Peer { address: Some([10, 77, 0, 9].into()), ..pair.ports[1].peer() };
    let ack = |run: u64, kind| Message {
        kind,
        hardware_time: true,
        source_port: 0,
        sequence: run << 32 | 5,
        t1: 1,
        t3: 0,
        t4: 0,
    };
    {
        let mut network = pair.ports[0].network.borrow_mut();
        network.inject(now, stranger, me, &ack(7, Kind::Arrived).encode());
        network.inject(now, pair.ports[1].peer(), me, &ack(8, Kind::Arrived).encode());
        network.inject(now, stranger, me, &[7; 40]);
        network.inject(now, stranger, me, &[7; 100]);
        network.inject(now, stranger, me, &[]);
    }
    pair.run(5 * MS);
    let counts = [Refusal::Forged, Refusal::OtherRun, Refusal::Malformed].map(|reason| pair.refused(reason));
    assert_eq!((counts, pair.lost()), ([1, 1, 3], 0));
    assert!(pair.results.len() <= before + 1);
}

#[test]
fn a_clock_that_jumps_gives_no_result() {
    let mut pair = Pair::new();
    pair.run(100 * MS);
    let before = pair.results.len();
    for jump in [-1_000_000_000, 2_000_000_000] {
        // Between the arrival of a probe and the sending of its ACK, and of the own NIC.
        for host in [0, 1] {
            let mut fired = false;
            let end = pair.time.now() + 20 * MS;
            while pair.time.now() < end {
                pair.pass(MS / 100);
                pair.step(0);
                if !fired && pair.ports[0].network.borrow().sent % 3 == 1 {
                    pair.ports[host].clock += jump;
                    fired = true;
                }
                pair.step(1);
            }
        }
    }
    assert!(pair.refused(Refusal::Impossible) >= 2, "{}", pair.refused(Refusal::Impossible));
    assert!(pair.results.len() > before && pair.lost() == 0);
    let most = pair.results.iter().filter_map(|result| result.rtt_ns).max();
    assert!(most < Some(1_000_000), "{most:?}");
}

#[test]
fn a_slow_responder_is_no_slow_network() {
    let mut pair = Pair::new();
    // It runs each 30 ms: its NIC stamps arrivals at once.
    for _ in 0..100 {
        for _ in 0..30 {
            pair.pass(MS);
            pair.step(0);
        }
        pair.step(1);
        pair.step(1);
    }
    let answered: Vec<_> = pair.results.iter().filter_map(|result| Some((result.rtt_ns?, result.turn_ns?))).collect();
    assert!(answered.len() > 80, "{}", answered.len());
    let rtt = u64::try_from(2 * LATENCY.as_nanos()).unwrap();
    assert!(answered.iter().all(|(network, _)| *network == rtt));
    assert!(answered.iter().any(|(_, turn)| *turn > 20_000_000));
}

#[test]
fn a_stopped_prober_loses_nothing() {
    let mut pair = Pair::new();
    pair.run(100 * MS);
    pair.fate(|_| vec![]);
    pair.run(20 * MS);
    pair.pass(5000 * MS);
    pair.step(0);
    pair.run(100 * MS);
    assert_eq!(pair.lost(), 0);
    assert!(pair.probers[0].stats.discarded_for("own_host_stalled") >= 1);
}

#[test]
fn a_paused_port_slows_down_and_tells_no_loss() {
    let mut pair = Pair::new();
    pair.ports[0].paused = true;
    pair.run(6000 * MS);
    let stats = &pair.probers[0].stats;
    assert_eq!(pair.lost(), 0);
    assert!(stats.share < 0.11 && stats.discarded_for("not_sent") > 50, "{stats:?}");
    pair.ports[0].paused = false;
    let before = pair.results.len();
    pair.run(40_000 * MS);
    assert!((pair.probers[0].stats.share - 1.0).abs() < 1e-9);
    assert!(pair.results.len() > before + 1500);
}

/// Prints the CPU time of both ends for a probe, without system calls and the NIC: each completion wakes its end once.
#[test]
#[ignore = "prints a figure: cargo xtask bench probes"]
fn cost_of_a_probe() {
    const PROBES: u32 = 200_000;
    let mut pair = Pair::new();
    let began = std::time::Instant::now();
    let mut steps = 0;
    while pair.results.len() < PROBES as usize {
        // The prober sends and learns that it was sent, the responder answers twice, the prober takes both answers.
        for (pass, host) in
            [(10 * MS - 2 * LATENCY, 0), (Duration::ZERO, 0), (LATENCY, 1), (Duration::ZERO, 1), (LATENCY, 0)]
        {
            pair.pass(pass);
            pair.step(host);
            steps += 1;
        }
    }
    let each = began.elapsed() / PROBES;
    let wakes = f64::from(steps) / f64::from(PROBES);
    println!(
        "{:<62}{:>24}",
        "agents: both ends of a probe, without system calls",
        format!("{each:?}, {wakes:.1} wake-ups")
    );
    assert_eq!(pair.lost(), 0);
}

#[test]
fn targets_that_cannot_be_probed_cost_nothing() {
    let mut pair = Pair::new();
    pair.aim(ProbedPort { queue_pair: 0, ..pair.ports[1].probed() });
    pair.run(200 * MS);
    pair.aim(ProbedPort { address: vec![], ..pair.ports[1].probed() });
    pair.run(200 * MS);
    assert_eq!((pair.results.len(), pair.ports[0].network.borrow().sent), (0, 0));
    assert!(pair.probers[0].stats.discarded_for("no_route") >= 38);
}

#[test]
fn ten_thousand_targets_stay_within_the_rate_of_the_port() {
    let mut pair = Pair::new();
    let to = pair.ports[1].probed();
    let target = |index: u32| {
        let (host, to) = (index.to_string(), Some(to.clone()));
        Arc::new(Target { host, to, probe_every_ms: 100, ..Target::default() })
    };
    pair.probers[0] = PortProber::new(&pair.ports[0], 7, 300, PortStats::default(), pair.time.now());
    pair.probers[0].set_targets((0..10_000).map(target), pair.time.now());
    pair.run(3000 * MS);
    let sent = pair.probers[0].stats.discarded_for("limit");
    assert!(sent > 10_000);
    let results = pair.results.len();
    assert!((600..=980).contains(&results), "{results} in 3 s at 300 a second, of which the last half second is open");
}
