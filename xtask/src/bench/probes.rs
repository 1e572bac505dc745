//! `bench ebpf`: what a probe in the kernel costs, beside a bpftrace one-liner for the same question.
//!
//! Nanoseconds an event are the kernel's own count (`kernel.bpf_stats_enabled`, on for the bench only), of both programs
//! during the same traffic. Throughput is iperf3 over a veth pair between two network namespaces, in rounds that go
//! through all ways one after the other, so that a slow moment of the machine meets each.

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
/// Programs must be in the kernel by then.
const ATTACHED: Duration = Duration::from_secs(30);

/// Both ends share this machine's cores: at full speed each nanosecond shows, at the pace of a link those that are left
/// over do not.
const FULL: &str = "0";
const PACE: &str = "10G";
/// Streams differ by more than a probe costs; the median of so many more rounds, of half the seconds, tells.
const STREAMS: u32 = 3;

/// Options of `bench ebpf`.
#[derive(clap::Args)]
pub struct Args {
    /// Seconds of traffic for each figure
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Measures this agent instead of building one with the release profile
    #[arg(long)]
    agent: Option<PathBuf>,
}

/// What makes a probe run.
enum Load {
    /// One stream as fast as it goes.
    Stream,
    /// The same over a link that loses packets.
    Lossy,
    /// Connections that are made and closed.
    Connections,
}

/// A probe, and how one would ask the same with bpftrace.
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

/// Builds, measures, prints.
pub fn run(args: Args) -> Result<()> {
    ensure!(setup::is_root(), "programs in the kernel and network namespaces need root: run it with sudo");
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

/// Nanoseconds an event of each row, the median over the rounds; beside it what the kernel's count takes by itself, which
/// an empty program shows and which is in the other figures.
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
    println!("the ratio is without the cost of counting");
    Ok(())
}

fn costs_of(all: &[Process; 3]) -> Result<Vec<Costs>> {
    all.iter().map(costs).collect()
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Throughput with all probes of a running agent, and with all one-liners, each beside a stream alone just before.
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

/// The kernel counts runs and time of programs for as long as it lives, and as before afterwards.
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
    // All are on unless they are said to be off, and would be in the figures of each other.
    let on = ROWS.map(|row| format!("{} = {}\n", row.sampler, samplers.contains(&row.sampler))).concat();
    fs::write(&config, format!("[samplers]\n{on}"))?;
    let args = ["run", "--http", "127.0.0.1:0", "--config", &config.display().to_string()].map(String::from);
    attached(Process::start(agent, &args, &dir.join("agent.log"))?, samplers.len(), &dir.join("agent.log"))
}

fn start_rival(dir: &Path, script: &str) -> Result<Process> {
    let log = dir.join("bpftrace.log");
    attached(Process::start(Path::new(BPFTRACE), &["-e".into(), script.into()], &log)?, 1, &log)
}

/// Waits until a process holds so many programs and their number stays.
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
    bail!("no program in the kernel within {ATTACHED:?}; its log: {}", log.display())
}

/// Runs and nanoseconds by program number.
type Costs = BTreeMap<u64, (u64, u64)>;

/// Of the programs that a process holds.
fn costs(process: &Process) -> Result<Costs> {
    let dir = format!("/proc/{}/fdinfo", process.id());
    let mut costs = Costs::new();
    for entry in fs::read_dir(&dir).with_context(|| format!("list {dir}"))? {
        // A file may be closed meanwhile.
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

/// What all programs of a process cost together, for each event.
fn mean(before: &Costs, after: &Costs) -> Mean {
    let since = |id: &u64, now: (u64, u64)| before.get(id).map_or(now, |was| (now.0 - was.0, now.1 - was.1));
    let all = after.iter().map(|(id, now)| since(id, *now));
    let (events, ns) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    Mean { events, ns: ns as f64 / events as f64 }
}
