//! `bench fleet`: thousands of simulated agents and one collector on this machine, for minutes.
//!
//! The sender shares the cores with the collector, so the CPU of both is shown; in a real fleet the hosts carry the sender's.

use super::judged;
use super::store::empty;
use super::store::server::{Kind, Server};
use crate::chaos::testbed::{get, sum_of};
use crate::process::{Process, Size};
use crate::steps::{cargo, must, target};
use anyhow::{Context, Result, ensure};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Seconds per row.
const EVERY: u64 = 10;
/// Queries over all ports that run with each row, and whether over half an hour in steps of 15 s, as a dashboard does.
const QUERIES: [(&str, &str, bool); 3] = [
    (
        "by rail",
        "sum by (rail) (rate(fabric_rdma_io_bytes_total{direction=\"transmit\"}[1m]) * on (host, device, port) group_left (rail) fabric_port_info)",
        false,
    ),
    ("fullest", "topk(10, rate(fabric_port_io_bytes_total[1m]))", false),
    (
        "heat map",
        "max by (rail) (max by (host, device, port) (rate(fabric_pfc_pause_seconds_total{direction=\"receive\"}[1m])) * on (host, device, port) group_left (rail) fabric_port_info)",
        true,
    ),
];
/// Seconds of a graph, and between its steps.
const GRAPH: (u64, u64) = (1800, 15);

/// Options of `bench fleet`.
#[derive(clap::Args)]
pub struct Args {
    /// Number of hosts, each with 8 ports of 62 series
    #[arg(long, default_value_t = 2000)]
    hosts: u64,
    /// Seconds between two samples of a host
    #[arg(long, default_value_t = 1)]
    period: u64,
    /// Duration in minutes
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Measures this collector instead of building one with the release profile
    #[arg(long)]
    collector: Option<PathBuf>,
}

/// Counters of the sender, see `xtask/load/src/fleet.rs`.
#[derive(serde::Deserialize, Clone, Copy, Default)]
struct Sent {
    connected: u64,
    samples: u64,
    acked: u64,
    rejected: u64,
    dropped: u64,
    refused: u64,
    lag_ms: u64,
}

/// Figures of one row.
struct Snapshot {
    size: Size,
    slowest_ms: f64,
}

/// The sender, killed on drop.
pub(super) struct Sender(pub(super) Child);

impl Drop for Sender {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds, runs and compares with the goals.
///
/// # Errors
/// When a program does not build or start, or the sender fails.
pub fn run(args: &Args) -> Result<()> {
    println!("building the collector and the sender (release profile; the first time takes minutes)");
    must(cargo(&["build", "--release", "--locked", "-p", "fabriclens-load"]))?;
    if args.collector.is_none() {
        must(cargo(&["build", "--release", "--locked", "-p", "fabriclens"]))?;
    }
    let release = target()?.join("release");
    let ours = args.collector.clone().unwrap_or_else(|| release.join("fabriclens"));
    let dir = target()?.join("bench-fleet");
    empty(&dir)?;
    let config = Server::config_for(&dir, args.hosts)?;
    let server = Server::start_with(Kind::Fabriclens, &ours, &dir, Some(&config))?;
    let mut load = Command::new(release.join("fabriclens-load"));
    load.args(["fleet", "--to", server.otlp(), "--hosts", &args.hosts.to_string()]);
    load.args(["--seconds", &(args.minutes * 60).to_string(), "--every", &EVERY.to_string()]);
    load.args(["--period", &args.period.to_string()]);
    let mut sender = Sender(load.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().context("start the sender")?);
    let lines = BufReader::new(sender.0.stdout.take().context("no output of the sender")?).lines();
    let sender_cpu = || Process::cpu_total_of(sender.0.id()).unwrap_or(0);

    println!(
        "{:>6}{:>7}{:>12}{:>9}{:>9}{:>9}{:>9}{:>10}{:>10}{:>9}{:>11}{:>11}{:>11}",
        "s",
        "hosts",
        "acked/s",
        "lag",
        "refused",
        "dropped",
        "rejected",
        "CPU",
        "sender",
        "RSS",
        QUERIES[0].0,
        QUERIES[1].0,
        QUERIES[2].0
    );
    let (begin, mut last, mut at) = (Instant::now(), Sent::default(), Instant::now());
    let mut cpu = (server.process().cpu_total_ns()?, sender_cpu());
    let mut rows = Vec::new();
    for line in lines {
        let sent: Sent = serde_json::from_str(&line?).context("read the report of the sender")?;
        let took = at.elapsed().as_secs_f64();
        at = Instant::now();
        let now = (server.process().cpu_total_ns()?, sender_cpu());
        let cores = |from: u64, to: u64| format!("{:.0} %", to.saturating_sub(from) as f64 / 1e7 / took);
        let size = server.process().size()?;
        let ms = QUERIES.map(|(_, query, graph)| ask(&server, query, graph, true));
        let acked_per_s = (sent.acked - last.acked) as f64 / took;
        println!(
            "{:>6.0}{:>7}{acked_per_s:>12.0}{:>6} ms{:>9}{:>9}{:>9}{:>10}{:>10}{:>6.0} MB{:>8.0} ms{:>8.0} ms{:>8.0} ms",
            begin.elapsed().as_secs_f64(),
            sent.connected,
            sent.lag_ms,
            sent.refused,
            sent.dropped,
            sent.rejected,
            cores(cpu.0, now.0),
            cores(cpu.1, now.1),
            size.rss as f64 / 1e6,
            ms[0],
            ms[1],
            ms[2]
        );
        // The last row is shorter, and the sender has ended.
        if took > EVERY as f64 * 0.9 && sent.acked > last.acked {
            rows.push(Snapshot { size, slowest_ms: ms.into_iter().fold(0.0, f64::max) });
        }
        (cpu, last) = (now, sent);
    }
    ensure!(sender.0.wait()?.success(), "the sender failed");
    let took = begin.elapsed();
    judge(&rows, &last, took);
    let page = get(&format!("{}/metrics", server.url()))?.1;
    let share = |name: &str| format!("{:.1} %", 100.0 * sum_of(&page, name) / took.as_secs_f64());
    // Appends hold it one after the other, so at 100 % more cores would store no more.
    println!("{:<36}{:>14}", "time with the log's lock held", share("fabriclens_store_append_held_seconds_total"));
    println!("{:<36}{:>14}", "time in which appends waited", share("fabriclens_store_append_wait_seconds_total"));
    for (name, query, _) in QUERIES.into_iter().filter(|(_, _, graph)| *graph) {
        println!("{:<36}{:>11.0} ms", format!("{name}, without kept results"), ask(&server, query, true, false));
    }
    drop(server);
    empty(&dir)
}

fn judge(rows: &[Snapshot], sent: &Sent, took: Duration) {
    let most = rows.iter().map(|m| m.slowest_ms).fold(0.0, f64::max);
    let mean = sent.acked as f64 / took.as_secs_f64();
    // The first half fills caches and the head; after that memory must not grow.
    let peak = |part: &[Snapshot]| part.iter().map(|m| m.size.rss).max().unwrap_or(0) as f64 / 1e6;
    let (early, late) = rows.split_at(rows.len() / 2);
    let lost = sent.samples - sent.acked.min(sent.samples);
    println!("\n{:<36}{mean:>14.0}", "samples acknowledged a second");
    println!("{:<36}{lost:>14}  goal 0: {}", "samples sent and not acknowledged", judged(lost == 0));
    println!("{:<36}{most:>11.0} ms  goal 1000 ms: {}", "slowest query", judged(most < 1000.0));
    println!(
        "{:<36}{:>8.0} {:>5.0}  MB, first and second half; goal at most a tenth more: {}",
        "highest RSS",
        peak(early),
        peak(late),
        judged(peak(late) <= 1.1 * peak(early))
    );
}

/// Milliseconds until the answer is complete; infinity for an error. `kept`: with results that the collector keeps.
fn ask(server: &Server, query: &str, graph: bool, kept: bool) -> f64 {
    let agent = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(60))).build().new_agent();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
    let begin = Instant::now();
    let path = if graph { "query_range" } else { "query" };
    let mut request = agent.get(format!("{}/api/v1/{path}", server.url())).query("query", query);
    if graph {
        let end = now as u64 / GRAPH.1 * GRAPH.1;
        request = request.query("start", (end - GRAPH.0).to_string()).query("end", end.to_string());
        request = request.query("step", GRAPH.1.to_string());
    } else {
        request = request.query("time", now.to_string());
    }
    if !kept {
        request = request.query("nocache", "1");
    }
    match request.call().and_then(|mut answer| answer.body_mut().read_to_string()) {
        Ok(_) => begin.elapsed().as_secs_f64() * 1e3,
        Err(error) => {
            println!("query failed: {query}: {error}");
            f64::INFINITY
        }
    }
}
