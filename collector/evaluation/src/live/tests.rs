//! Live evaluation with its own clock.

use super::*;
use fabriclens_audit::Auditor;
use fabriclens_config::Config;
use fabriclens_core::host_senders::HostSenders;
use fabriclens_core::newest_signals::NewestSignals;
use fabriclens_core::pressure::Pressure;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_correlate::{FlowName, PathSource, PortName, RouteUpdate, Signal};
use fabriclens_data::Data;
use fabriclens_forward::Sink;
use fabriclens_incidents::IncidentStore;
use fabriclens_job_sources::Jobs;
use fabriclens_model::{Labels, Layout};
use fabriclens_probing::Probing;
use fabriclens_store::{Options, Store};
use fabriclens_topology::Topologies;

const HOUR: i64 = 3_600_000;
const CNP: &str = "fabric_cnp_packets_total";
const NAKS: &str = "fabric_rdma_sequence_naks_total";

fn state(dir: &std::path::Path) -> AppState {
    state_of(Config { data: dir.to_owned(), ..Config::default() })
}

pub(super) fn state_of(config: Config) -> AppState {
    let dir = config.data.as_path();
    let store = Arc::new(Store::open(dir, Options { background: false, ..Options::default() }).unwrap());
    let telemetry = Telemetry::new().unwrap();
    let data = Arc::new(Data::new(store.clone(), &config, &telemetry).unwrap());
    AppState {
        queried: data.clone(),
        data,
        sink: Arc::new(Sink::start(store.clone(), &config, &telemetry).unwrap()),
        jobs: Arc::new(Jobs::open(&store, Default::default()).unwrap()),
        incidents: Arc::new(IncidentStore::open(&store, config.retention.incidents).unwrap()),
        topologies: Arc::new(Topologies::open(&store, &config, HostSenders::default()).unwrap()),
        auditor: Arc::new(Auditor::new(Vec::new())),
        probing: Arc::new(Probing::new(config.probes, Default::default(), telemetry.probes.clone(), usize::MAX)),
        newest_signals: Arc::new(NewestSignals::new([Signal::Tx, Signal::Up])),
        pressure: Arc::new(Pressure::new(config.memory)),
        store,
        telemetry,
        config,
    }
}

/// Three hosts, the first of which pauses its switch or is overloaded, and a collector whose clock may differ from
/// theirs.
struct Hosts {
    live: LiveEvaluation,
    lists: Vec<Layout>,
    now_ms: i64,
    paused_s: f64,
    /// Whether the link of the first host is up.
    up: bool,
    /// Marked packets received per second, and in total.
    marked: [f64; 2],
    /// Sequence errors that the first host is told per second, and in total.
    lost: [f64; 2],
}

/// The first host is connected to the second.
fn queue_pair(host: &str) -> Labels {
    let [local, remote] = match host {
        "h0" => ["17", "18"],
        "h1" => ["18", "17"],
        _ => ["19", "20"],
    };
    let ends = [("local", local), ("remote", remote), ("device", "mlx5_0"), ("port", "1"), ("host", host)];
    let flow = [("__name__", "fabric_queue_pair_info"), ("source_port", "49458")];
    Labels::new(flow.into_iter().chain(ends))
}

impl Hosts {
    fn new(state: AppState) -> Self {
        let one = |host: &str, name: &str, direction: &str| {
            let own = [("__name__", name), ("host", host), ("device", "mlx5_0"), ("port", "1"), ("priority", "3")];
            Labels::new(own.into_iter().chain([("direction", direction)]))
        };
        let list = |host: &str| {
            let bytes = ["transmit", "receive"].map(|direction| one(host, "fabric_port_io_bytes_total", direction));
            let own = ["fabric_pfc_pause_seconds_total", "fabric_port_up"].map(|name| one(host, name, "transmit"));
            let got = ["fabric_port_packets_total", "fabric_ecn_packets_total", "fabric_cnp_packets_total"];
            let got = got.map(|name| one(host, name, "receive"));
            let rest = [one(host, CNP, "transmit"), queue_pair(host), one(host, NAKS, "receive")];
            bytes.into_iter().chain(own).chain(got).chain(rest).collect()
        };
        state.sink.sample_feed().open();
        let now_ms = now_ms() / 1000 * 1000 - 2 * HOUR;
        Self {
            live: LiveEvaluation::new(state.clone(), Arc::new(LateSamples::open(&state, now_ms)), Vec::new()),
            lists: ["h0", "h1", "h2"].map(list).to_vec(),
            now_ms,
            paused_s: 0.0,
            up: true,
            marked: [0.0; 2],
            lost: [0.0; 2],
        }
    }

    /// Restarts the collector.
    fn restart(&mut self) {
        let state = self.live.state.clone();
        let (late, open) = (Arc::new(LateSamples::open(&state, self.now_ms)), state.incidents.open_incidents());
        self.live = LiveEvaluation::new(state, late, open);
    }

    /// Lets seconds pass with the collector's clock ahead of the agents' by `ahead_ms`; returns the open incidents.
    fn pass(&mut self, seconds: usize, ahead_ms: i64, share: f64) -> Vec<(String, String)> {
        for _ in 0..seconds {
            self.now_ms += 1000;
            self.paused_s += share;
            let moved = (self.now_ms % HOUR) as f64 * 1e6;
            self.marked[1] += self.marked[0];
            self.lost[1] += self.lost[0];
            let (packets, marked, notified) = (moved / 1000.0, self.marked[1], self.marked[1] / 10.0);
            let own = |at: usize| match at {
                0 => [self.paused_s, f64::from(u8::from(self.up)), packets, marked, 0.0, notified, 1.0, self.lost[1]],
                _ => [0.0, 1.0, packets, 0.0, notified / 2.0, 0.0, 1.0, 0.0],
            };
            let group = |(at, series): (usize, &Layout)| RowGroup {
                series: series.clone(),
                times: vec![self.now_ms - 100],
                values: [moved, moved].into_iter().chain(own(at)).collect(),
            };
            self.live.state.sink.append(self.lists.iter().enumerate().map(group).collect()).unwrap();
            self.live.next = Instant::now();
            self.live.round(self.now_ms + ahead_ms);
        }
        let open = self.live.state.incidents.open_incidents();
        open.iter().map(|i| (i.id.clone(), format!("{:?} {:?}", i.kind, i.root))).collect()
    }
}

#[test]
fn set_back_clock_learns_anew() {
    let dir = tempfile::tempdir().unwrap();
    let mut fabric = Hosts::new(state(dir.path()));
    assert_eq!(fabric.pass(30, HOUR, 0.0), []);
    // Samples of the agents belong to no second that it knows.
    assert_eq!(fabric.pass(15, HOUR, 0.5), []);
    let found = fabric.pass(15, 0, 0.5);
    assert_eq!(found.len(), 1, "set right, it judges at once: {found:?}");
    assert!(found[0].1.contains("SlowReceiver") && found[0].1.contains("h0"), "{found:?}");
    // Open incidents keep their IDs, also over another step back.
    assert_eq!(fabric.pass(10, 60_000, 0.5), found);
    assert_eq!(fabric.pass(15, 0, 0.5), found);
    assert_eq!(fabric.pass(40, 0, 0.0), [], "the incident ends with its cause");
}

#[tokio::test]
async fn signals_of_the_present_are_told_to_those_who_ask() {
    let dir = tempfile::tempdir().unwrap();
    let mut fabric = Hosts::new(state(dir.path()));
    let newest = fabric.live.state.newest_signals.clone();
    fabric.pass(30, 0, 0.25);
    assert!(tokio::time::timeout(Duration::ZERO, newest.table()).await.is_err(), "nobody asked before");
    fabric.up = false;
    fabric.pass(5, 0, 0.5);
    let table = newest.table().await.unwrap();
    let at = table.ports.iter().position(|port| *port == ("h0".to_owned(), "mlx5_0/1".to_owned())).unwrap();
    let of = |signal| table.of(signal).map(|values| values[at]);
    assert_eq!((of(Signal::Up), of(Signal::PauseTx)), (Some(0.0), None), "of the first round after the question");
    fabric.up = true;
    tokio::time::sleep(Duration::from_millis(2100)).await;
    fabric.pass(1, 0, 0.5);
    let table = newest.table().await.unwrap();
    assert_eq!(table.of(Signal::Up).map(|values| values[at]), Some(1.0), "an old table is replaced");
    assert!((table.of(Signal::Tx).unwrap()[at] - 1e9).abs() < 1e6, "{table:?}");
}

#[test]
fn slewed_clock_is_not_set_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut fabric = Hosts::new(state(dir.path()));
    fabric.pass(30, 3000, 0.0);
    let known = fabric.live.backfill.tracker.fabric().ports.added();
    fabric.pass(2, 0, 0.0);
    assert_eq!(fabric.live.backfill.tracker.fabric().ports.added(), known);
    assert!(fabric.live.frame_ms > fabric.now_ms, "samples wait until the clock reaches them");
    assert_eq!(fabric.pass(15, 0, 0.5).len(), 1);
}

#[test]
fn long_incidents_continue_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut fabric = Hosts::new(state(dir.path()));
    assert_eq!(fabric.pass(120, 0, 0.0), []);
    fabric.up = false;
    let down = fabric.pass(400, 0, 0.0);
    assert!(down.len() == 1 && down[0].1.contains("LinkDown"), "{down:?}");
    fabric.restart();
    assert_eq!(fabric.pass(60, 0, 0.0), down, "the baseline from before the incident is restored");
    fabric.up = true;
    assert_eq!(fabric.pass(30, 0, 0.0), []);
}

#[test]
fn connected_hosts_are_the_senders() {
    let dir = tempfile::tempdir().unwrap();
    let mut fabric = Hosts::new(state(dir.path()));
    assert_eq!(fabric.pass(60, 0, 0.0), []);
    fabric.marked[0] = 600_000.0;
    let found = fabric.pass(20, 0, 0.0);
    assert!(found.len() == 1 && found[0].1.contains("Incast") && found[0].1.contains("h0"), "{found:?}");
    let senders = |fabric: &Hosts| -> Vec<String> {
        let open = fabric.live.state.incidents.open_incidents();
        open[0].senders.iter().map(|sender| format!("{:?}", sender.port)).collect()
    };
    // The answer arrives eventually.
    let deadline = Instant::now() + Duration::from_secs(30);
    while senders(&fabric).len() > 1 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
        fabric.pass(1, 0, 0.0);
    }
    let senders = senders(&fabric);
    assert!(senders.len() == 1 && senders[0].contains("h1"), "h2 is notified as often, by another: {senders:?}");
}

#[test]
fn queue_pairs_of_losing_ports_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let mut fabric = Hosts::new(state(dir.path()));
    fabric.pass(30, 0, 0.0);
    /// Connected queue pairs: host, peer, source port.
    fn connected(fabric: &mut Hosts) -> Vec<(&'static str, String, Option<u16>)> {
        let tracker = &mut fabric.live.backfill.tracker;
        let now_ns = tracker.now_ns();
        let mut all = Vec::new();
        for host in ["h0", "h1", "h2"] {
            let port = tracker.measured_port(host, "mlx5_0/1").unwrap();
            let known = tracker.fabric();
            let name = |port: usize| known.topology.nodes[known.ports.list[port].end.node].name.clone();
            let open = known.routes.queue_pairs(port, [0, now_ns]).filter(|pair| pair.close_ns.is_none());
            all.extend(open.map(|pair| {
                assert!(pair.open_ns < now_ns - 60_000_000_000, "it existed before it was read");
                (host, name(pair.flow.to), pair.flow.source_port)
            }));
        }
        all
    }
    assert_eq!(connected(&mut fabric), [], "nothing is lost");
    fabric.lost[0] = 5.0;
    fabric.pass(10, 0, 0.0);
    std::thread::sleep(Duration::from_millis(200));
    fabric.pass(1, 0, 0.0);
    assert_eq!(connected(&mut fabric), [], "no path is known");
    let [from, to] = ["h0", "h1"].map(|node| PortName { node: node.into(), port: "mlx5_0/1".into() });
    let flow = FlowName { from: from.clone(), to, source_port: Some(49458) };
    let path = RouteUpdate::Path { flow, hops: vec![from], source: PathSource::Traced };
    let tracker = &mut fabric.live.backfill.tracker;
    tracker.learn(tracker.now_ns(), path);
    let deadline = Instant::now() + Duration::from_secs(30);
    while connected(&mut fabric).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
        fabric.pass(1, 0, 0.0);
    }
    assert_eq!(connected(&mut fabric), [("h0", "h1".to_owned(), Some(49458))], "only of the port that loses");
    fabric.lost[0] = 0.0;
    fabric.pass(100, 0, 0.0);
    assert_eq!(connected(&mut fabric).len(), 1, "kept for a while");
    fabric.pass(260, 0, 0.0);
    assert_eq!(connected(&mut fabric), []);
}

#[test]
fn dropped_samples_are_evaluated_later() {
    let dir = tempfile::tempdir().unwrap();
    let mut fabric = Hosts::new(state(dir.path()));
    fabric.pass(10, 0, 0.0);
    let waiting = |fabric: &Hosts| fabric.live.state.store.table("late").get("waiting").unwrap();
    assert_eq!(waiting(&fabric), None);
    let (series, lost) = ([Labels::new([("__name__", "m")])].into(), fabriclens_core::sample_feed::CAPACITY + 1);
    let times = vec![fabric.now_ms - 2000; lost];
    fabric.live.state.sink.sample_feed().push(vec![RowGroup { series, times, values: vec![0.0; lost] }]);
    fabric.pass(10, 0, 0.0);
    let at = fabric.now_ms - 12_000;
    assert_eq!(waiting(&fabric).unwrap(), format!("[[{at},{at}]]").as_bytes());
}
