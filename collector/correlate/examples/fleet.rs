//! What each tick of live verdicts costs on a fleet: `cargo run --release -p fabriclens-correlate --example fleet -- HOSTS
//! [TICKS]`, eight ports a host, 53 series a port, a sample a second.

use fabriclens_correlate::ALL;
use fabriclens_model::{Labels, Read as _};
use fabriclens_promql::{Engine, Limits, Value};
use fabriclens_store::{Options, RowGroup, Store};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PORTS: usize = 8;

fn series(host: usize, port: usize) -> Arc<[Labels]> {
    let (host, device) = (format!("node{host:04}"), format!("mlx5_{port}"));
    let one = |name: &str, extra: &[(&str, &str)]| {
        let own = [("__name__", name), ("host", &host), ("device", &device), ("port", "1")];
        Labels::new(own.into_iter().chain(extra.iter().copied()))
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

#[expect(clippy::expect_used, reason = "a measurement ends at what is wrong")]
fn main() {
    let mut args = std::env::args().skip(1).filter_map(|a| a.parse::<usize>().ok());
    let (hosts, ticks) = (args.next().unwrap_or(2000), args.next().unwrap_or(20));
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), Options { background: false, ..Options::default() }).expect("a store");
    let begin = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_millis() as i64;
    let begin = begin - ticks as i64 * 1000;
    let lists: Vec<_> = (0..hosts).flat_map(|h| (0..PORTS).map(move |p| series(h, p))).collect();
    for tick in 0..ticks {
        let group = |series: &Arc<[Labels]>| RowGroup {
            series: series.clone(),
            times: vec![begin + tick as i64 * 1000],
            values: (0..series.len()).map(|c| if c % 6 == 0 { (tick * 1_000_003) as f64 } else { 7.0 }).collect(),
        };
        for some in lists.chunks(256) {
            store.append(&some.iter().map(group).collect::<Vec<_>>()).expect("room");
        }
    }
    let now = begin + (ticks as i64 - 1) * 1000;
    let engine = Engine::new(Limits { max_samples: usize::MAX, ..Limits::default() });
    for round in 0..2 {
        let (wall, used) = (Instant::now(), cpu());
        for row in &ALL {
            let one = Instant::now();
            let query = row.query.replace("$w", "5s");
            let got = engine.instant(&store, &query, now).expect("an answer");
            let n = if let Value::Vector(v) = got.value { v.len() } else { 0 };
            println!("{round} {:?}: {n} in {:?}", row.signal, one.elapsed());
        }
        println!("all: {:?}, {:?} of a core", wall.elapsed(), cpu() - used);
    }
    let one = Instant::now();
    let all = [fabriclens_model::Matcher::equal("__name__", "fabric_pfc_pause_seconds_total")];
    let n = store.select(&all, now - 5000, now).expect("series").len();
    println!("select: {n} in {:?}", one.elapsed());
}
