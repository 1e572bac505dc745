//! Measures time and memory of a report: a job of HOSTS hosts with 8 ports of 19 series each, for HOURS, with one
//! sample every SECONDS, over a store on disk. The optional fourth argument is a file for the HTML page. `cargo xtask
//! bench report` runs it for several sizes.

use fabriclens_jobs::{HostAllocation, Job, JobKey, JobRecord, Source};
use fabriclens_model::{Labels, Layout};
use fabriclens_promql::{CancelToken, Engine};
use fabriclens_report::{Input, build, html, json, markdown};
use fabriclens_store::{AppendError, Options, RowGroup, Store};
use std::sync::Arc;
use std::time::Instant;

/// The collector uses the same allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const PORTS: usize = 8;
const BEGIN: i64 = 1_700_006_400_000;
/// Rows per append.
const ROWS: i64 = 120;
/// Counters of a port with both directions, and those without a direction.
const BOTH: [&str; 5] = [
    "fabric_port_io_bytes_total",
    "fabric_rdma_io_bytes_total",
    "fabric_pfc_pause_seconds_total",
    "fabric_cnp_packets_total",
    "fabric_port_discards_total",
];
const ONE: [&str; 9] = [
    "fabric_ecn_packets_total",
    "fabric_rdma_sequence_naks_total",
    "fabric_rdma_ack_timeouts_total",
    "fabric_link_symbol_errors_total",
    "fabric_link_crc_errors_total",
    "fabric_link_downs_total",
    "fabric_fec_uncorrectable_blocks_total",
    "fabric_port_rate_bytes_per_second",
    "fabric_port_rate_max_bytes_per_second",
];

fn port(host: usize, device: usize) -> Layout {
    let of = |name: &str, direction: &str| {
        let (host, device) = (format!("gpu-{host:04}"), format!("mlx5_{device}"));
        let text = |t: &str| t.to_owned();
        Labels::new([
            ("__name__", text(name)),
            ("host", host),
            ("device", device),
            ("port", text("1")),
            ("direction", text(direction)),
            ("priority", text(if name.contains("pfc") { "3" } else { "" })),
        ])
    };
    let both = BOTH.iter().flat_map(|name| ["receive", "transmit"].map(|d| of(name, d)));
    let one = ONE.iter().map(|name| of(name, if name.contains("naks") { "receive" } else { "" }));
    both.chain(one).collect()
}

/// The job's rollups, as the collector computes them.
fn rollups() -> Layout {
    let of = |name: &str, rail: &str, direction: &str| {
        let text = |t: &str| t.to_owned();
        Labels::new([
            ("__name__", text(name)),
            ("job_id", text("4711")),
            ("attribution", text("exclusive")),
            ("rail", text(rail)),
            ("direction", text(direction)),
        ])
    };
    let rails = (0..PORTS).map(|r| of("fabric_job_io_bytes_per_second", &format!("mlx5_{r}"), "transmit"));
    let shares = ["fabric_job_pause_share_ratio", "fabric_job_pause_share_max_ratio"];
    rails.chain(shares.iter().flat_map(|name| ["receive", "transmit"].map(|d| of(name, "", d)))).collect()
}

fn fill(store: &Store, hosts: usize, end: i64, interval: i64) -> Result<(), Box<dyn std::error::Error>> {
    let ports: Vec<Layout> = (0..hosts * PORTS).map(|p| port(p / PORTS, p % PORTS)).collect();
    let own = rollups();
    let mut at = BEGIN - 60_000;
    while at < end + 60_000 {
        let times: Vec<i64> = (0..ROWS).map(|r| at + r * interval).filter(|t| *t <= end + 60_000).collect();
        let group = |(p, series): (usize, &Layout)| {
            let column = |c: usize| {
                let rate = [3e7, 3e7, 3e7, 3e7, 1e-5, 1e-6, 0.2, 0.1].get(c).copied().unwrap_or(0.0);
                let noise = move |t: i64| (t / 1000).wrapping_mul(2_654_435_761 + p as i64).rem_euclid(1009) as f64;
                times.iter().map(move |t| {
                    if c >= 17 { 5e10 } else { (((t - BEGIN + 60_000) as f64 + noise(*t)) * rate).trunc() }
                })
            };
            let values = (0..series.len()).flat_map(column).collect();
            RowGroup { series: series.clone(), times: times.clone(), values }
        };
        let mut groups: Vec<RowGroup> = ports.iter().enumerate().map(group).collect();
        let values = vec![0.125; own.len() * times.len()];
        groups.push(RowGroup { series: own.clone(), times: times.clone(), values });
        // Blocks are written more slowly than this comes.
        while matches!(store.append(&groups), Err(AppendError::HeadFull { .. })) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        at += ROWS * interval;
    }
    store.flush()?;
    // Finish merging before the measurement starts.
    store.maintain()?;
    Ok(())
}

/// CPU time of this process so far, ms.
fn processor() -> Result<u64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let ticks = text.rsplit_once(')').ok_or("no such line")?.1.split(' ').skip(12).take(2);
    Ok(ticks.map(str::parse::<u64>).sum::<Result<u64, _>>()? * 10)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |n: usize, default: i64| std::env::args().nth(n).map_or(Ok(default), |a| a.parse());
    let (hosts, hours, interval) = (argument(1, 64)? as usize, argument(2, 24)?, argument(3, 60)? * 1000);
    let end = BEGIN + hours * 3_600_000;
    let dir = tempfile::tempdir()?;
    let clock = Arc::new(move || end + 60_000);
    let store = Store::open(dir.path(), Options { retention: None, clock, ..Options::default() })?;
    fill(&store, hosts, end, interval)?;
    let samples = store.stats().block_samples;
    let record = JobRecord {
        user: Some("ann".into()),
        name: Some("pretrain".into()),
        start_ns: Some(BEGIN * 1_000_000),
        end_ns: Some(end * 1_000_000),
        hosts: (0..hosts).map(|h| (format!("gpu-{h:04}"), HostAllocation::default())).collect(),
        ..JobRecord::default()
    };
    let key = JobKey { cluster: String::new(), id: "4711".into() };
    let job = Job::from_records(&key, 1, &[(Source::Slurm, record)].into());
    for what in ["first", "again", "again"] {
        let (began, before) = (Instant::now(), processor()?);
        let input = Input {
            job: &job,
            others: &[],
            now_ns: end * 1_000_000,
            incidents: Vec::new(),
            leaves: Default::default(),
            links: Vec::new(),
            paths: None,
        };
        let report = build(&Engine::default(), &store, &CancelToken::default(), input)?;
        let (built, used) = (began.elapsed(), processor()? - before);
        let page = html(&report);
        if let Some(path) = std::env::args().nth(4) {
            std::fs::write(path, &page)?;
        }
        let written = began.elapsed() - built;
        println!(
            "{hosts:>5} hosts {hours:>3} h, {samples:>10} samples: {what} built in {:>6.0} ms ({used} ms of a processor), HTML in {:>4.1} ms; {} of \
             {} ports; HTML {} kB, Markdown {} kB, JSON {} kB",
            built.as_secs_f64() * 1e3,
            written.as_secs_f64() * 1e3,
            serde_json::to_string(&report.range.method)?,
            report.quality.exclusive_ports,
            page.len() / 1000,
            markdown(&report).len() / 1000,
            json(&report).len() / 1000
        );
    }
    Ok(())
}
