//! The watch with a clock of its own.

use super::*;
use fabriclens_config::Config;
use fabriclens_core::pressure::Pressure;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_data::Data;
use fabriclens_forward::Sink;
use fabriclens_incidents::Book;
use fabriclens_job_sources::Jobs;
use fabriclens_model::{Labels, Layout};
use fabriclens_store::{Options, Store};
use fabriclens_topology::Topologies;

const HOUR: i64 = 3_600_000;
const CNP: &str = "fabric_cnp_packets_total";

fn state(dir: &std::path::Path) -> AppState {
    let config = Config { data: dir.to_owned(), ..Config::default() };
    let store = Arc::new(Store::open(dir, Options { background: false, ..Options::default() }).unwrap());
    let telemetry = Telemetry::new().unwrap();
    let data = Arc::new(Data::new(store.clone(), &config, &telemetry).unwrap());
    AppState {
        queried: data.clone(),
        data,
        sink: Arc::new(Sink::start(store.clone(), &config, &telemetry).unwrap()),
        jobs: Arc::new(Jobs::open(&store).unwrap()),
        book: Arc::new(Book::open(&store, config.retention.incidents).unwrap()),
        topologies: Arc::new(Topologies::open(&store, &config).unwrap()),
        pressure: Arc::new(Pressure::new(config.memory)),
        store,
        telemetry,
        config,
    }
}

/// Three hosts, the first of which pauses its switch or gets too much, and a collector whose clock may be another than theirs.
struct Hosts {
    live: Live,
    lists: Vec<Layout>,
    now_ms: i64,
    paused_s: f64,
    /// Whether the first one's link is up.
    up: bool,
    /// Marked packets a second that it gets, and so far.
    marked: [f64; 2],
}

/// That of the first host is connected to that of the second.
fn queue_pair(host: &str) -> Labels {
    let [local, remote] = match host {
        "h0" => ["17", "18"],
        "h1" => ["18", "17"],
        _ => ["19", "20"],
    };
    let ends = [("local", local), ("remote", remote), ("device", "mlx5_0"), ("port", "1"), ("host", host)];
    Labels::new([("__name__", "fabric_queue_pair_info")].into_iter().chain(ends))
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
            bytes.into_iter().chain(own).chain(got).chain([one(host, CNP, "transmit"), queue_pair(host)]).collect()
        };
        state.sink.tap().open();
        let now_ms = now_ms() / 1000 * 1000 - 2 * HOUR;
        Self {
            live: Live::new(state.clone(), Arc::new(Late::open(&state, now_ms)), Vec::new()),
            lists: ["h0", "h1", "h2"].map(list).to_vec(),
            now_ms,
            paused_s: 0.0,
            up: true,
            marked: [0.0; 2],
        }
    }

    /// The collector stops, and starts anew.
    fn restart(&mut self) {
        let state = self.live.state.clone();
        let (late, open) = (Arc::new(Late::open(&state, self.now_ms)), state.book.open_ones());
        self.live = Live::new(state, late, open);
    }

    /// So many seconds, with the collector's clock so much ahead of the agents'; what is open then.
    fn pass(&mut self, seconds: usize, ahead_ms: i64, share: f64) -> Vec<(String, String)> {
        for _ in 0..seconds {
            self.now_ms += 1000;
            self.paused_s += share;
            let moved = (self.now_ms % HOUR) as f64 * 1e6;
            self.marked[1] += self.marked[0];
            let (packets, marked, told) = (moved / 1000.0, self.marked[1], self.marked[1] / 10.0);
            let own = |at: usize| match at {
                0 => [self.paused_s, f64::from(u8::from(self.up)), packets, marked, 0.0, told, 1.0],
                _ => [0.0, 1.0, packets, 0.0, told / 2.0, 0.0, 1.0],
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
        let open = self.live.state.book.open_ones();
        open.iter().map(|i| (i.id.clone(), format!("{:?} {:?}", i.kind, i.root))).collect()
    }
}

#[test]
fn a_collector_whose_clock_is_set_back_learns_anew_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut fabric = Hosts::new(state(dir.path()));
    assert_eq!(fabric.pass(30, HOUR, 0.0), []);
    // What agents send belongs to no second that it knows.
    assert_eq!(fabric.pass(15, HOUR, 0.5), []);
    let found = fabric.pass(15, 0, 0.5);
    assert_eq!(found.len(), 1, "set right, it judges at once: {found:?}");
    assert!(found[0].1.contains("SlowReceiver") && found[0].1.contains("h0"), "{found:?}");
    // What is open goes on under its id, also over another step back.
    assert_eq!(fabric.pass(10, 60_000, 0.5), found);
    assert_eq!(fabric.pass(15, 0, 0.5), found);
    assert_eq!(fabric.pass(40, 0, 0.0), [], "and ends when its trouble does");
}

#[test]
fn a_clock_that_is_slewed_is_not_one_that_was_set() {
    let dir = tempfile::tempdir().unwrap();
    let mut fabric = Hosts::new(state(dir.path()));
    fabric.pass(30, 3000, 0.0);
    let known = fabric.live.eyes.watch.fabric().ports.added();
    fabric.pass(2, 0, 0.0);
    assert_eq!(fabric.live.eyes.watch.fabric().ports.added(), known);
    assert!(fabric.live.frame_ms > fabric.now_ms, "it waits for its clock");
    assert_eq!(fabric.pass(15, 0, 0.5).len(), 1);
}

#[test]
fn what_stands_for_long_goes_on_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut fabric = Hosts::new(state(dir.path()));
    assert_eq!(fabric.pass(120, 0, 0.0), []);
    fabric.up = false;
    let down = fabric.pass(400, 0, 0.0);
    assert!(down.len() == 1 && down[0].1.contains("LinkDown"), "{down:?}");
    fabric.restart();
    assert_eq!(fabric.pass(60, 0, 0.0), down, "what was usual before it began is known");
    fabric.up = true;
    assert_eq!(fabric.pass(30, 0, 0.0), []);
}

#[test]
fn of_those_that_are_notified_who_is_connected_sends() {
    let dir = tempfile::tempdir().unwrap();
    let mut fabric = Hosts::new(state(dir.path()));
    assert_eq!(fabric.pass(60, 0, 0.0), []);
    fabric.marked[0] = 600_000.0;
    let found = fabric.pass(20, 0, 0.0);
    assert!(found.len() == 1 && found[0].1.contains("Incast") && found[0].1.contains("h0"), "{found:?}");
    let senders = |fabric: &Hosts| -> Vec<String> {
        let open = fabric.live.state.book.open_ones();
        open[0].senders.iter().map(|sender| format!("{:?}", sender.port)).collect()
    };
    // The answer comes when it comes.
    let patience = Instant::now() + Duration::from_secs(30);
    while senders(&fabric).len() > 1 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(20));
        fabric.pass(1, 0, 0.0);
    }
    let senders = senders(&fabric);
    assert!(senders.len() == 1 && senders[0].contains("h1"), "h2 is notified as often, by another: {senders:?}");
}

#[test]
fn what_there_was_no_room_for_is_judged_later() {
    let dir = tempfile::tempdir().unwrap();
    let mut fabric = Hosts::new(state(dir.path()));
    fabric.pass(10, 0, 0.0);
    let waiting = |fabric: &Hosts| fabric.live.state.store.table("late").unwrap().get("waiting").unwrap();
    assert_eq!(waiting(&fabric), None);
    let (series, lost) = ([Labels::new([("__name__", "m")])].into(), fabriclens_core::sample_feed::MOST + 1);
    let times = vec![fabric.now_ms - 2000; lost];
    fabric.live.state.sink.tap().offer(vec![RowGroup { series, times, values: vec![0.0; lost] }]);
    fabric.pass(10, 0, 0.0);
    let at = fabric.now_ms - 12_000;
    assert_eq!(waiting(&fabric).unwrap(), format!("[[{at},{at}]]").as_bytes());
}
