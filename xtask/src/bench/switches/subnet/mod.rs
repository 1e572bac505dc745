//! An agent that reads an InfiniBand subnet in-band and sends to a collector: processor time of its reader and of its
//! uplink, and memory.

mod answers;
mod server;
mod tree;

use super::Args;
use crate::bench::scrape::wait_for;
use crate::bench::store::empty;
use crate::bench::store::server::{Kind, Server};
use crate::process::Process;
use crate::steps::local_port;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use server::Simulator;
use std::path::Path;
use std::time::{Duration, Instant};
use tree::Tree;

/// Thread of the agent that reads the subnet.
const READER: &str = "ib-fabric";
/// Period of sweeps and details: the measurement takes a multiple of it.
const PERIOD: u64 = 30;
/// Longest wait for the first rounds.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Totals of the agent.
struct Totals {
    /// Reader, all other threads, and the collector, ns.
    cpu: [u64; 3],
    mads: f64,
    points: f64,
    /// Sections that the ring dropped.
    dropped: f64,
}

/// Measures an agent that sends to a collector.
///
/// # Errors
/// When a program does not start, or the agent reads nothing.
pub(super) fn run(args: &Args, agent: &Path, collector: &Path, dir: &Path) -> Result<()> {
    let tree = Tree::new(args.subnet_ports);
    println!(
        "\nInfiniBand in-band: {} switches with {} ports, {} hosts; counters each 5 s, details and sweep each {PERIOD} s",
        tree.switches(),
        tree.ports(),
        tree.hosts()
    );
    empty(dir)?;
    let server = Server::start(Kind::Fabriclens, collector, dir)?;
    let sockets = format!("fabriclens-bench-{}", std::process::id());
    let simulator = Simulator::bind(&sockets, tree)?;
    std::thread::spawn(move || {
        if let Err(error) = simulator.run() {
            println!("the simulated subnet ended: {error:#}");
        }
    });
    let agent = start(agent, &server, (&sockets, args.mads_per_second), dir)?;
    let begin = Instant::now();
    while ask(&server, "fabriclens_agent_ib_fabric_round_seconds{kind=\"counters\"}")? == 0.0 {
        ensure!(begin.elapsed() < TIMEOUT, "the agent reads nothing; its log: {}/agent.log", dir.display());
        std::thread::sleep(Duration::from_millis(200));
    }
    // The first samples of each series cost most; details are new for a second period.
    std::thread::sleep(Duration::from_secs(2 * PERIOD + 5));
    let seconds = args.seconds.div_ceil(PERIOD).max(1) * PERIOD;
    let (at, before) = (Instant::now(), totals(&agent, &server)?);
    std::thread::sleep(Duration::from_secs(seconds));
    let (took, after) = (at.elapsed().as_secs_f64(), totals(&agent, &server)?);
    let ports = ask(&server, "fabriclens_agent_ib_fabric_ports")?;
    let truncated = ask(&server, "fabriclens_agent_ib_fabric_truncated")? > 0.0;
    ensure!(
        truncated || ports as usize == tree.ports(),
        "the agent found {ports} ports; its log: {}/agent.log",
        dir.display()
    );
    let size = agent.size()?;
    let round = |kind: &str| ask(&server, &format!("fabriclens_agent_ib_fabric_round_seconds{{kind=\"{kind}\"}}"));
    let percent = |i: usize| (after.cpu[i] - before.cpu[i]) as f64 / 1e7 / took;
    for (what, value) in [
        ("switch ports that are read", format!("{ports}{}", if truncated { ", the limit" } else { "" })),
        ("datagrams a second", format!("{:.0}", (after.mads - before.mads) / took)),
        ("points a second", format!("{:.0}", (after.points - before.points) / took)),
        ("reader", format!("{:.1} % of a core", percent(0))),
        ("other threads (encoding, compression, sending)", format!("{:.1} % of a core", percent(1))),
        ("last round, sweep", format!("{:.2} s, {:.2} s", round("counters")?, round("sweep")?)),
        ("RSS, its peak", format!("{:.1} MB, {:.1} MB", size.rss as f64 / 1e6, size.peak as f64 / 1e6)),
        ("sections that the ring dropped", format!("{:.0}", after.dropped - before.dropped)),
        ("collector", format!("{:.1} % of a core", percent(2))),
    ] {
        println!("{what:<48}{value:>22}");
    }
    Ok(())
}

/// Starts an agent on an empty host.
fn start(program: &Path, server: &Server, (sockets, rate): (&str, u32), dir: &Path) -> Result<Process> {
    let (host, config) = (dir.join("host"), dir.join("agent.toml"));
    for part in ["sys", "proc"] {
        std::fs::create_dir_all(host.join(part)).context("create an empty host")?;
    }
    // The sandbox allows no sockets but those of the collector.
    let text = format!(
        "host = \"reader\"\nsandbox = \"off\"\n[ib_fabric]\nenabled = true\ndevice = \"ibsim:{sockets}/H-1\"\nmads_per_second = {rate}\n"
    );
    std::fs::write(&config, text).context("write the agent's configuration")?;
    let http = format!("127.0.0.1:{}", local_port()?);
    let (host, config, to) =
        (host.display().to_string(), config.display().to_string(), format!("http://{}", server.otlp()));
    let words = ["run", "--root", &host, "--config", &config, "--http", &http, "--collector", &to];
    let process = Process::start_tied(program, &words.map(String::from), &dir.join("agent.log"))?;
    wait_for(&format!("http://{http}/metrics"))
        .with_context(|| format!("the agent's log: {}/agent.log", dir.display()))?;
    Ok(process)
}

fn totals(agent: &Process, server: &Server) -> Result<Totals> {
    let threads = agent.cpu_by_thread()?;
    let sum = |reader: bool| threads.iter().filter(|(name, _)| (name == READER) == reader).map(|(_, ns)| ns).sum();
    Ok(Totals {
        cpu: [sum(true), sum(false), server.process().cpu_total_ns()?],
        mads: ask(server, "fabriclens_agent_ib_fabric_mads_total{result=\"sent\"}")?,
        points: ask(server, "fabriclens_agent_uplink_acked_total")?,
        dropped: ask(server, "sum(fabriclens_agent_ring_dropped_total)")?,
    })
}

/// Present value of a query; 0 without a result.
fn ask(server: &Server, query: &str) -> Result<f64> {
    let request = ureq::get(format!("{}/api/v1/query", server.url())).query("query", query);
    let answer: Value = serde_json::from_str(&request.call().context(query.to_owned())?.body_mut().read_to_string()?)?;
    let value = answer["data"]["result"][0]["value"][1].as_str();
    Ok(value.and_then(|value| value.parse().ok()).unwrap_or(0.0))
}
