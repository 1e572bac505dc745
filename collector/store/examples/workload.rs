//! Cost of the store on fabric telemetry: 32 hosts x 8 ports x 60 counters at 1 s; 15 % busy counters, 30 % that
//! change occasionally, the rest constant.
//!
//! `cargo run -p fabriclens-store --example workload -- TICKS [HOSTS [ROWS_OF_A_CHUNK]]`

#[path = "support/random.rs"]
mod random;

use fabriclens_model::{Labels, Layout, Matcher, Read};
use fabriclens_store::{Options, RowGroup, Store};
use random::Random;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PORTS: usize = 8;
const COUNTERS: usize = 60;
const HOSTS_PER_REQUEST: usize = 16;

struct Port {
    series: Layout,
    values: Vec<f64>,
}

fn port(host: usize, port: usize, random: &mut Random) -> Port {
    let series = (0..COUNTERS).map(|c| {
        Labels::new([
            ("__name__", format!("fabric_test_counter_{c:02}_total")),
            ("host", format!("node{host:04}")),
            ("device", format!("mlx5_{port}")),
            ("port", "1".to_owned()),
        ])
    });
    Port { series: series.collect(), values: (0..COUNTERS).map(|_| random.below(1 << 40) as f64).collect() }
}

fn step(values: &mut [f64], random: &mut Random) {
    for (c, v) in values.iter_mut().enumerate() {
        match c * 100 / COUNTERS {
            0..15 => *v += (4_000 + random.below(200)) as f64,
            15..45 if random.below(50) == 0 => *v += (1 + random.below(9)) as f64,
            _ => {}
        }
    }
}

fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().filter_map(|i| fields.get(*i)?.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Resident bytes.
fn rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split(' ').nth(1).and_then(|p| p.parse::<u64>().ok()).unwrap_or(0) * 4096
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |n: usize, default: usize| std::env::args().nth(n).map_or(Ok(default), |a| a.parse());
    let (ticks, hosts) = (argument(1, 600)?, argument(2, 32)?);
    let start = 1_700_000_000_000_i64;
    let dir = tempfile::tempdir()?;
    let clock = Arc::new(move || start + 30 * 86_400_000);
    let chunk_rows = argument(3, Options::default().chunk_rows)?;
    let options = Options { retention: None, clock, chunk_rows, ..Options::default() };
    let store = Store::open(dir.path(), options.clone())?;
    let random = &mut Random(0x5eed);
    let mut ports: Vec<Port> =
        (0..hosts).flat_map(|h| (0..PORTS).map(move |p| (h, p))).map(|(h, p)| port(h, p, random)).collect();
    let series = hosts * PORTS * COUNTERS;
    let (samples, before) = ((ticks * series) as f64, rss());

    let (mut wall, mut spent, mut longest) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for tick in 0..ticks {
        ports.iter_mut().for_each(|p| step(&mut p.values, random));
        for request in ports.chunks(HOSTS_PER_REQUEST * PORTS) {
            let time = start + tick as i64 * 1000;
            let groups: Vec<RowGroup> = request
                .iter()
                .map(|p| RowGroup { series: p.series.clone(), times: vec![time], values: p.values.clone() })
                .collect();
            let (began, before) = (Instant::now(), cpu());
            store.append(&groups)?;
            wall += began.elapsed();
            longest = longest.max(began.elapsed());
            spent += cpu() - before;
        }
    }
    let per_sample = |d: Duration| d.as_nanos() as f64 / samples;
    println!(
        "append   {:.0} ns wall, {:.0} ns cpu per sample, durable; {samples} samples",
        per_sample(wall),
        per_sample(spent)
    );
    println!("longest  {longest:?} for an append");
    let memory = rss().saturating_sub(before);
    println!(
        "memory   {} MiB more, {} bytes a series, {} of them sealed rows",
        memory >> 20,
        memory / series as u64,
        store.stats().head_bytes / series as u64
    );
    let query = |store: &Store, what: &str| -> Result<(), Box<dyn std::error::Error>> {
        let began = Instant::now();
        let m = Matcher::equal("__name__", "fabric_test_counter_03_total");
        let end = start + ticks as i64 * 1000;
        let found = store.select(&[m], end - 300_000, end)?;
        println!("select   {:?} for {} series of 5 min, {what}", began.elapsed(), found.len());
        Ok(())
    };
    query(&store, "head")?;
    let log = store.stats().wal_bytes;
    drop(store);
    let began = Instant::now();
    let store = Store::open(dir.path(), options.clone())?;
    println!("open     {:?} with {} MiB of log", began.elapsed(), log >> 20);
    let began = Instant::now();
    store.flush()?;
    println!("flush    {:?}", began.elapsed());
    store.maintain()?;
    let stats = store.stats();
    println!(
        "disk     {:.3} bytes per sample in {} blocks",
        stats.block_bytes as f64 / stats.block_samples as f64,
        stats.blocks
    );
    query(&store, "block, cold index")?;
    query(&store, "block")?;
    drop(store);
    let began = Instant::now();
    let store = Store::open(dir.path(), options)?;
    println!("open     {:?}", began.elapsed());
    query(&store, "after open")?;
    Ok(())
}
