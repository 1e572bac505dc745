//! `bench ebpf`: cost of the kernel probes, compared with bpftrace one-liners that measure the same.
//!
//! Nanoseconds per event come from the kernel (`kernel.bpf_stats_enabled`, on during the benchmark only), for both programs
//! under the same traffic. Throughput is iperf3 over a veth pair between two network namespaces, in rounds that alternate
//! between the set-ups, so that a slow moment of the machine affects all of them.

use super::traffic::{Link, connections};
use crate::process::Process;
use crate::setup;
use crate::steps::{cargo, must, target};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";
const BPFTRACE: &str = "/usr/bin/bpftrace";
/// Timeout for attaching the programs.
const ATTACHED: Duration = Duration::from_secs(30);

/// Bit rates: unlimited, where both ends compete for the cores and every nanosecond shows, and that of a real link.
const FULL: &str = "0";
const PACE: &str = "10G";
/// Streams differ by more than a probe costs: the throughput is the median of this many more rounds, each half as long.
const STREAMS: u32 = 3;

/// Options of `bench ebpf`.
#[derive(clap::Args)]
pub struct Args {
    /// Seconds of traffic per figure
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Number of rounds, of which the median is shown
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Measures this agent instead of building one with the release profile
    #[arg(long)]
    agent: Option<PathBuf>,
}

/// Traffic that triggers a probe.
enum Load {
    /// One unlimited stream.
    Stream,
    /// The same over a link that loses packets.
    Lossy,
    /// Connections that are opened and closed.
    Connections,
}

/// A probe, and a bpftrace script that measures the same.
struct Row {
    sampler: &'static str,
    rival: &'static str,
    load: Load,
}

const ROWS: [Row; 4] = [
    Row {
        sampler: "tcp_rtt",
        rival: "tracepoint:tcp:tcp_probe { @rtt[args->dport] = hist(args->srtt); }",
        load: Load::Stream,
    },
    Row {
        sampler: "tcp_traffic",
        rival: "tracepoint:net:net_dev_queue { @sent[cgroup, str(args->name)] = sum(args->len); } \
                tracepoint:net:netif_receive_skb { @received[str(args->name)] = sum(args->len); }",
        load: Load::Stream,
    },
    Row {
        sampler: "tcp_loss",
        rival: "tracepoint:tcp:tcp_retransmit_skb { @again[ntop(args->daddr)] = count(); }",
        load: Load::Lossy,
    },
    Row {
        sampler: "tcp_connections",
        rival: "tracepoint:sock:inet_sock_set_state { @states[ntop(args->daddr), args->oldstate, args->newstate] = count(); }",
        load: Load::Connections,
    },
];

/// Builds, measures and prints.
///
/// # Errors
/// Without root, or when a program does not build or attach.
pub fn run(args: Args) -> Result<()> {
    ensure!(setup::is_root(), "BPF and network namespaces need root; run sudo cargo xtask bench ebpf");
    for need in [&setup::IPERF3, &setup::NETWORK, &setup::BPFTRACE] {
        ensure!(setup::ensure(need)?, "{}", need.without);
    }
    setup::tracefs()?;
    let agent = match &args.agent {
        Some(agent) => agent.clone(),
        None => {
            println!("building the agent (release profile; the first time takes minutes)");
            must(cargo(&["build", "--release", "--locked", "-p", "fabriclens-agent"]))?;
            target()?.join("release/fabriclens-agent")
        }
    };
    let dir = target()?.join("bench-ebpf");
    fs::create_dir_all(&dir)?;
    let link = Link::new()?;
    events(&agent, &dir, &link, args.seconds, args.rounds)?;
    throughput(&agent, &dir, &link, &args, FULL)?;
    throughput(&agent, &dir, &link, &args, PACE)
}

/// Prints nanoseconds per event of each row, the median of the rounds. An empty program shows the cost of counting itself,
/// which the other figures include.
fn events(agent: &Path, dir: &Path, link: &Link, seconds: u32, rounds: u32) -> Result<()> {
    let _statistics = Statistics::on()?;
    println!(
        "\n{:<18}{:>12}{:>12}{:>12}{:>12}{:>9}",
        "ns an event", "events", "empty", "fabriclens", "bpftrace", "ratio"
    );
    for row in &ROWS {
        let tracepoint = row.rival.split_once('{').map_or(row.rival, |(tracepoint, _)| tracepoint);
        let all = [
            start_rival(dir, &format!("{tracepoint} {{ $nothing = 0; }}"))?,
            start_agent(agent, dir, &[row.sampler])?,
            start_rival(dir, row.rival)?,
        ];
        let (mut figures, mut events) = ([const { Vec::new() }; 3], 0);
        for _ in 0..rounds {
            let before = costs_of(&all)?;
            match row.load {
                Load::Stream => drop(link.stream(seconds, FULL)?),
                Load::Lossy => {
                    link.lossy(true)?;
                    let streamed = link.stream(seconds, FULL);
                    link.lossy(false)?;
                    streamed?;
                }
                Load::Connections => connections(seconds)?,
            }
            for ((figures, before), after) in figures.iter_mut().zip(&before).zip(&costs_of(&all)?) {
                let mean = mean(before, after);
                figures.push(mean.ns);
                events = events.max(mean.events);
            }
        }
        let [empty, ours, rival] = figures.map(median);
        let ratio = (ours - empty) / (rival - empty);
        println!("{:<18}{events:>12}{empty:>9.0} ns{ours:>9.0} ns{rival:>9.0} ns{ratio:>9.2}", row.sampler);
    }
    println!("the ratio excludes the cost of counting");
    Ok(())
}

fn costs_of(all: &[Process; 3]) -> Result<Vec<Costs>> {
    all.iter().map(costs).collect()
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Prints the throughput with all probes and with all bpftrace scripts, each after a stream without them.
fn throughput(agent: &Path, dir: &Path, link: &Link, args: &Args, pace: &str) -> Result<()> {
    let title = if pace == FULL { "as fast as it goes".into() } else { format!("at {pace}bit/s") };
    println!("\n{title:<22}{:>14}{:>18}{:>14}{:>18}", "alone", "fabriclens", "alone", "bpftrace");
    let samplers: Vec<&str> = ROWS.iter().map(|row| row.sampler).collect();
    let script = ROWS.map(|row| row.rival).join(" ");
    let mut kept = [const { Vec::new() }; 2];
    for round in 1..=args.rounds * STREAMS {
        let mut line = format!("round {round:<16}");
        for (which, kept) in kept.iter_mut().enumerate() {
            let alone = link.stream(args.seconds.div_ceil(2), pace)?;
            let process = if which == 0 { start_agent(agent, dir, &samplers)? } else { start_rival(dir, &script)? };
            let with = link.stream(args.seconds.div_ceil(2), pace)?;
            drop(process);
            kept.push(with / alone);
            line += &format!("{:>9.2} Gb/s{:>13.2} Gb/s", alone / 1e9, with / 1e9);
        }
        println!("{line}");
    }
    let loss = |ratios| format!("{:.1} %", (1.0 - median(ratios)) * 100.0);
    let [ours, rivals] = kept.map(loss);
    println!("{:<22}{:>14}{ours:>18}{:>14}{rivals:>18}", "median loss", "", "");
    Ok(())
}

/// Enables the kernel's BPF statistics; restores the setting on drop.
struct Statistics(String);

impl Statistics {
    fn on() -> Result<Self> {
        let before = fs::read_to_string(STATISTICS).with_context(|| format!("read {STATISTICS}"))?;
        fs::write(STATISTICS, "1").with_context(|| format!("write {STATISTICS}"))?;
        Ok(Self(before))
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        if let Err(error) = fs::write(STATISTICS, self.0.trim()) {
            eprintln!("{STATISTICS} could not be set back to {}: {error}", self.0.trim());
        }
    }
}

fn start_agent(agent: &Path, dir: &Path, samplers: &[&str]) -> Result<Process> {
    let config = dir.join("agent.toml");
    // Probes are on by default and would disturb each other's figures.
    let on = ROWS.map(|row| format!("{} = {}\n", row.sampler, samplers.contains(&row.sampler))).concat();
    fs::write(&config, format!("[samplers]\n{on}"))?;
    let args = ["run", "--http", "127.0.0.1:0", "--config", &config.display().to_string()].map(String::from);
    attached(Process::start(agent, &args, &dir.join("agent.log"))?, samplers.len(), &dir.join("agent.log"))
}

fn start_rival(dir: &Path, script: &str) -> Result<Process> {
    let log = dir.join("bpftrace.log");
    attached(Process::start(Path::new(BPFTRACE), &["-e".into(), script.into()], &log)?, 1, &log)
}

/// Waits until a process holds at least `programs` BPF programs and their number is stable.
fn attached(mut process: Process, programs: usize, log: &Path) -> Result<Process> {
    let begin = Instant::now();
    let mut last = 0;
    while begin.elapsed() < ATTACHED && process.is_alive() {
        std::thread::sleep(Duration::from_millis(500));
        let now = costs(&process)?.len();
        if now >= programs && now == last {
            return Ok(process);
        }
        last = now;
    }
    bail!("no BPF program attached within {ATTACHED:?}; log: {}", log.display())
}

/// Runs and nanoseconds by program id.
type Costs = BTreeMap<u64, (u64, u64)>;

/// Costs of the programs that a process holds.
fn costs(process: &Process) -> Result<Costs> {
    let dir = format!("/proc/{}/fdinfo", process.id());
    let mut costs = Costs::new();
    for entry in fs::read_dir(&dir).with_context(|| format!("list {dir}"))? {
        // A file may have been closed.
        let text = fs::read_to_string(entry?.path()).unwrap_or_default();
        let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name))?.trim().parse::<u64>().ok();
        if let (Some(id), Some(ns), Some(runs)) = (field("prog_id:"), field("run_time_ns:"), field("run_cnt:")) {
            costs.insert(id, (runs, ns));
        }
    }
    Ok(costs)
}

struct Mean {
    events: u64,
    ns: f64,
}

/// Cost per event of all programs of a process together.
fn mean(before: &Costs, after: &Costs) -> Mean {
    let since = |id: &u64, now: (u64, u64)| before.get(id).map_or(now, |was| (now.0 - was.0, now.1 - was.1));
    let all = after.iter().map(|(id, now)| since(id, *now));
    let (events, ns) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    Mean { events, ns: ns as f64 / events as f64 }
}
