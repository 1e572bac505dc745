//! How long the dashboards' queries take over a month of a fleet, one sample a second: 32 hosts x 8 ports, one counter
//! and one gauge each, 1.3 billion samples. `cargo run --release -p fabriclens --example month -- [DAYS] [HOSTS]`

use fabriclens_model::{Labels, Layout};
use fabriclens_promql::{Engine, Limits};
use fabriclens_store::{AppendError, Options, RowGroup, Store};
use std::sync::Arc;
use std::time::Instant;

const PORTS: usize = 8;
const DAY_MS: i64 = 86_400_000;
/// Rows of an append.
const ROWS: i64 = 600;
const BEGIN: i64 = 1_700_006_400_000;

const QUERIES: [&str; 5] = [
    "sum by (host) (rate(m_bytes_total[1h]))",
    "topk(5, avg_over_time(m_paused[1h]))",
    "max_over_time(m_paused[1h])",
    "sum(m_paused)",
    "sum(rate(m_bytes_total{host=\"h3\"}[1h]))",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |n: usize, default: usize| std::env::args().nth(n).map_or(Ok(default), |a| a.parse());
    let (days, hosts) = (argument(1, 30)? as i64, argument(2, 32)?);
    let dir = tempfile::tempdir()?;
    let clock = Arc::new(move || BEGIN + days * DAY_MS);
    let options = Options { retention: None, clock, ..Options::default() };
    let store = Store::open(dir.path(), options.clone())?;
    let series: Vec<Layout> = (0..hosts * PORTS)
        .map(|p| {
            let of = |name: &str| {
                let (host, device) = (format!("h{}", p / PORTS), format!("mlx5_{}", p % PORTS));
                Labels::new([("__name__", name.to_owned()), ("host", host), ("device", device)])
            };
            Layout::new([of("m_bytes_total"), of("m_paused")])
        })
        .collect();
    let began = Instant::now();
    for batch in 0..days * DAY_MS / 1000 / ROWS {
        let times: Vec<i64> = (0..ROWS).map(|r| BEGIN + (batch * ROWS + r) * 1000).collect();
        let group = |(p, series): (usize, &Layout)| {
            let noise = |t: &i64| (t / 1000).wrapping_mul(2_654_435_761 + p as i64) % 1009;
            let counter = times.iter().map(|t| ((t - BEGIN) * 3_000 + noise(t) * 4096) as f64);
            let gauge = times.iter().map(|t| (noise(t) / 1000) as f64);
            let values = counter.chain(gauge).collect();
            RowGroup { series: series.clone(), times: times.clone(), values }
        };
        let groups: Vec<RowGroup> = series.iter().enumerate().map(group).collect();
        // Blocks are written more slowly than samples of a month come in at once.
        while matches!(store.append(&groups), Err(AppendError::HeadFull { .. })) {}
    }
    store.flush()?;
    for _ in 0..3 {
        store.maintain()?;
    }
    let stats = store.stats();
    println!(
        "{} samples in {:.0} s: {} blocks of {} MiB, {} of rollups of {} MiB",
        stats.block_samples,
        began.elapsed().as_secs_f64(),
        stats.blocks,
        stats.block_bytes >> 20,
        stats.rollups,
        stats.rollup_bytes >> 20
    );
    drop(store);
    let began = Instant::now();
    let store = Store::open(dir.path(), options)?;
    println!("open {:?}", began.elapsed());
    let engine = Engine::new(Limits::default());
    for query in QUERIES {
        for what in ["first", "again"] {
            let began = Instant::now();
            let answer = engine.range(&store, query, BEGIN, BEGIN + days * DAY_MS, 3_600_000);
            let told = answer.map_or_else(|e| e.to_string(), |a| a.infos.join(", "));
            println!("{:>10.0} ms {what}  {query}  {told}", began.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(())
}
