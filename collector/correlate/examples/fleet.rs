//! Measures the CPU time of live evaluation per tick on a fleet: `cargo run --release -p fabriclens-correlate --example
//! fleet -- HOSTS [wired [measured]] [STORMS]`, with eight ports a host, 47 series a port, a sample a second, and jobs of
//! 16 hosts. `wired`: cables are known, a leaf for each rail of 16 hosts and eight spines, so that each job is a fault
//! domain. `measured`: the switches have the same series, two ports for each port of a host. `STORMS`: NICs that pause
//! their switches in the last phase, each on a host of its own; 9 unless given.

use fabriclens_correlate::{
    ALL, Fabric, Frame, IncidentTracker, Job, Ports, Signal, StreamingEval, Thresholds, Topology,
};
use fabriclens_correlate::{Link, LinkEnd, Node, Role};
use fabriclens_model::{Labels, Layout, SharedLabels};
use fabriclens_promql::Engine;
use fabriclens_store::{Options, RowGroup, Store};
use std::time::Duration;

/// The collector's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const PORTS: usize = 8;
/// Hosts of a job.
const JOB: usize = 16;

/// A port: node, device, and the number of its port if it is of a host.
type Port = (String, String, Option<&'static str>);

fn series((node, device, port): &Port, shared: &mut SharedLabels) -> Layout {
    let mut one = |name: &str, extra: &[(&str, &str)]| {
        let own = [("__name__", name), ("host", node), ("device", device)];
        let number = port.iter().map(|number| ("port", *number));
        let mut pairs: Vec<(&str, &str)> = own.into_iter().chain(number).chain(extra.iter().copied()).collect();
        pairs.sort_unstable();
        shared.of(pairs)
    };
    let mut list = Vec::new();
    for direction in ["transmit", "receive"] {
        let direction = ("direction", direction);
        for name in ["fabric_port_io_bytes_total", "fabric_port_packets_total", "fabric_cnp_packets_total"] {
            list.push(one(name, &[direction]));
        }
        for priority in ["0", "1", "2", "3", "4", "5", "6", "7"] {
            list.push(one("fabric_pfc_pause_seconds_total", &[direction, ("priority", priority)]));
            list.push(one("fabric_pfc_frames_total", &[direction, ("priority", priority)]));
        }
    }
    for name in [
        "fabric_ecn_packets_total",
        "fabric_rdma_retransmits_total",
        "fabric_rdma_out_of_sequence_total",
        "fabric_rdma_ack_timeouts_total",
        "fabric_link_symbol_errors_total",
        "fabric_port_discards_total",
        "fabric_port_xmit_wait_bytes_total",
        "fabric_port_rate_bytes_per_second",
        "fabric_port_up",
    ] {
        list.push(one(name, &[]));
    }
    list.into()
}

fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().filter_map(|i| fields.get(*i)?.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Value of a series at a time.
#[derive(Clone, Copy)]
enum What {
    Pause,
    Constant(f64),
    Traffic,
}

/// Measured ticks, after those of the baseline.
const MEASURED: usize = 20;
const WARM: usize = 90;
/// Ticks between the onsets of two storms.
const APART: usize = 3;

/// Since when a port pauses its switch: one for two phases, the others one after the other.
fn pauses_since(port: usize, storms: usize) -> Option<usize> {
    let nth = (port % 100 == 77).then_some(port / 100).filter(|nth| *nth < storms)?;
    Some(WARM + MEASURED + if nth == 0 { 0 } else { MEASURED + APART * (nth - 1) })
}

/// Runs all phases and prints their times.
fn main() {
    let mut numbers = std::env::args().filter_map(|a| a.parse::<usize>().ok());
    let (hosts, storms) = (numbers.next().unwrap_or(2000), numbers.next().unwrap_or(9).max(1));
    let mut shared = SharedLabels::default();
    let asked_for = |word: &str| std::env::args().any(|a| a == word);
    let topology = if asked_for("wired") { wired(hosts) } else { Topology::default() };
    let nic = |at: usize| (format!("node{:04}", at / PORTS), format!("mlx5_{}", at % PORTS), Some("1"));
    // Each port with the NIC whose pause it sees.
    let mut all: Vec<(Port, Option<usize>)> = (0..hosts * PORTS).map(|at| (nic(at), Some(at))).collect();
    if asked_for("measured") {
        // The first links are those of the NICs.
        for (at, link) in topology.links.iter().enumerate() {
            let ends = link.ends.iter().filter(|end| topology.nodes[end.node].role != Role::Host);
            let name = |end: &LinkEnd| (topology.nodes[end.node].name.clone(), end.port.clone(), None);
            all.extend(ends.map(|end| (name(end), (at < hosts * PORTS).then_some(at))));
        }
    }
    let before = rss_mib();
    let lists: Vec<_> = all.iter().map(|(port, _)| series(port, &mut shared)).collect();
    let labels_mib = rss_mib() - before;
    let ports = Ports::new(&topology);
    let mut watch = IncidentTracker::new(Fabric::new(topology, ports, Vec::new()), Thresholds::default());
    let (mut standing, asked) = StreamingEval::new(1000);
    let what = |labels: &Labels| match labels.metric() {
        "fabric_pfc_pause_seconds_total" | "fabric_pfc_frames_total" => What::Pause,
        "fabric_port_rate_bytes_per_second" => What::Constant(12.5e9),
        "fabric_port_up" => What::Constant(1.0),
        name if name.ends_with("errors_total") => What::Constant(0.0),
        _ => What::Traffic,
    };
    let kinds: Vec<What> = lists[0].iter().map(what).collect();
    let (mut taken, mut judged, mut worst, mut found) = (Duration::ZERO, Duration::ZERO, Duration::ZERO, 0);
    let settled = WARM + 2 * MEASURED + APART * (storms - 1);
    let stretches = [("calm", WARM), ("a storm", WARM + MEASURED), ("storms one after the other", settled)];
    for tick in 0..settled + MEASURED {
        let time = tick as i64 * 1000;
        watch.push(Frame::new(time * 1_000_000));
        if tick == 1 {
            let all: Vec<usize> = watch.fabric().host_ports().collect();
            let job = |(at, ports): (usize, &[usize])| Job { id: at.to_string(), ports: ports.to_vec(), since_ns: 0 };
            watch.set_jobs(all.chunks(JOB * PORTS).enumerate().map(job).collect());
        }
        let before = cpu();
        // Each list has the series of one port.
        for (port, list) in lists.iter().enumerate() {
            let value = |column: usize| match kinds[column] {
                What::Pause => {
                    let since = all[port].1.and_then(|nic| pauses_since(nic, storms));
                    since.map_or(0.0, |since| tick.saturating_sub(since) as f64 * 0.97)
                }
                What::Constant(value) => value,
                What::Traffic => tick as f64 * (1e9 + ((tick * 31 + port * 7 + column) % 97) as f64 * 1e6),
            };
            let values: Vec<f64> = (0..list.len()).map(value).collect();
            standing.take(list, &[time], &values, &mut watch);
        }
        let taking = cpu() - before;
        let before = cpu();
        let over = watch.evaluate().len();
        let judging = cpu() - before;
        let Some((what, _)) = stretches.iter().find(|(_, from)| (*from..from + MEASURED).contains(&tick)) else {
            continue;
        };
        (taken, judged, worst) = (taken + taking, judged + judging, worst.max(judging));
        found = found.max(over + watch.open().len());
        if stretches.iter().any(|(_, from)| tick + 1 == from + MEASURED) {
            let each = |d: Duration| d / MEASURED as u32;
            println!(
                "{} ports, {what}: {:?} to take a tick's samples (with making them up), {:?} to judge (worst {worst:?}), {found} \
                 incidents, {} MiB, of which the labels of all series take {labels_mib}",
                lists.len(),
                each(taken),
                each(judged),
                rss_mib()
            );
            (taken, judged, worst) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        }
    }
    println!("{} signals are queried from the store one by one", asked.len());
    cables(hosts * PORTS);
    by_promql(&lists.into_iter().take(2000).collect::<Vec<_>>());
}

/// A topology whose cables are known: a leaf for each rail of 16 hosts, and eight spines above all leaves.
fn wired(hosts: usize) -> Topology {
    const SPINES: usize = 8;
    let leaves = hosts.div_ceil(JOB) * PORTS;
    let node = |name: String, role| Node { name, role };
    let mut nodes: Vec<Node> = (0..hosts).map(|h| node(format!("node{h:04}"), Role::Host)).collect();
    nodes.extend((0..leaves).map(|l| node(format!("leaf{l:04}"), Role::Leaf)));
    nodes.extend((0..SPINES).map(|s| node(format!("spine{s}"), Role::Spine)));
    let end = |node: usize, port: String| LinkEnd { node, port };
    let link = |a, b| Link::new([a, b], Some(12.5e9));
    let leaf = |host: usize, rail: usize| hosts + host / JOB * PORTS + rail;
    let down = (0..hosts).flat_map(|h| (0..PORTS).map(move |rail| (h, rail)));
    let down = down.map(|(h, rail)| link(end(h, format!("mlx5_{rail}/1")), end(leaf(h, rail), (h % JOB).to_string())));
    let up = (0..leaves).flat_map(|l| (0..SPINES).map(move |s| (l, s)));
    let up = up.map(|(l, s)| link(end(hosts + l, format!("up{s}")), end(hosts + leaves + s, l.to_string())));
    let links = down.chain(up).collect();
    Topology::new(nodes, links)
}

/// Prints the time to infer the cables between so many NIC ports and monitored switch ports. All move about the same, as in
/// a large job, so each port must be compared with many.
fn cables(nics: usize) {
    let mut watch =
        IncidentTracker::new(Fabric::new(Topology::default(), Ports::default(), Vec::new()), Thresholds::default());
    let ends: Vec<[Option<usize>; 2]> = (0..nics)
        .map(|n| {
            let nic = watch.measured_port(&format!("node{:04}", n / PORTS), &format!("mlx5_{}/1", n % PORTS));
            [nic, watch.measured_port(&format!("leaf{:03}", n / 32), &format!("swp{}", n % 32))]
        })
        .collect();
    let (mut looks, mut worst, mut known) = (Duration::ZERO, Duration::ZERO, 0);
    for tick in 0..80_i64 {
        let mut frame = Frame::new(tick * 1_000_000_000);
        for (n, [nic, switch]) in ends.iter().enumerate() {
            let mix = |n: u64| (n ^ (n >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            let chance = |salt: u64| mix(mix(mix(n as u64 + 1) + tick as u64) + salt) as f64 / u64::MAX as f64;
            for (salt, signals) in [(0, [Signal::Tx, Signal::Rx]), (1, [Signal::Rx, Signal::Tx])] {
                let moved = 1e9 * (0.9 + 0.2 * chance(salt));
                [nic, switch].iter().zip(signals).for_each(|(port, s)| {
                    port.iter().for_each(|port| frame.set(s, *port, moved));
                });
            }
        }
        watch.push(frame);
        let before = cpu();
        let found = watch.cables(|fabric, node| fabric.topology.nodes[node].name.starts_with("leaf"));
        let took = cpu() - before;
        (looks, worst) = (looks + took, worst.max(took));
        known = found.map_or(known, |found| found.cables.len());
    }
    println!("{nics} cables that nobody tells: {:?} each 10 s to look (worst {worst:?}), {known} known", looks / 8);
}

/// Time of PromQL queries to a store, for some of the ports because that takes long.
#[expect(clippy::expect_used, reason = "a measurement ends at what is wrong")]
fn by_promql(lists: &[Layout]) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), Options { background: false, ..Options::default() }).expect("a store");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_millis() as i64;
    for tick in 0..20 {
        let group = |series: &Layout| RowGroup {
            series: series.clone(),
            times: vec![now - 20_000 + tick * 1000],
            values: vec![tick as f64; series.len()],
        };
        store.append(&lists.iter().map(group).collect::<Vec<_>>()).expect("room");
    }
    let engine = Engine::new(fabriclens_promql::Limits { max_samples: usize::MAX, ..Default::default() });
    let before = cpu();
    for row in ALL.iter().filter(|row| !row.slow) {
        engine.instant(&store, &row.promql("5s"), now - 1000).expect("an answer");
    }
    println!("{} ports, every signal asked in PromQL: {:?}", lists.len(), cpu() - before);
}

fn rss_mib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|p| p.parse::<u64>().ok()).unwrap_or(0) * 4 / 1024
}
