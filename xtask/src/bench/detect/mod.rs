//! `bench detect`: time from a fault at a port to its open incident, end to end.
//!
//! Real agents read simulated hosts with steady traffic and send by OTLP to a real collector, which is polled for open
//! incidents. The simulated hosts send no netlink events: the agents notice a carrier change at the next sample.

mod faults;
mod hosts;

use super::store::empty;
use super::store::server::{Kind as Program, Server};
use crate::process::Process;
use crate::sim::layout::host_name;
use crate::sim::layout::{HOSTS, RAILS};
use crate::steps::{cargo, local_port, must, target};
use anyhow::{Context, Result, bail, ensure};
use faults::{FAULTS, Fault};
use hosts::Hosts;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Poll interval.
const POLL: Duration = Duration::from_millis(10);
/// Timeout for an incident to open, or to end.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Calm at the start, in which the collector learns the baselines.
const CALM: Duration = Duration::from_secs(45);
/// A little more than the time for which the collector merges new incidents into one that began before.
const APART: Duration = Duration::from_secs(15);
/// Longest wait until an open incident has the right kind.
const NAMING: Duration = Duration::from_secs(20);

/// Options of `bench detect`.
#[derive(clap::Args)]
pub struct Args {
    /// Number of faults of each kind, each at another port and phase of the second
    #[arg(long, default_value_t = 8)]
    faults: usize,
    /// Number of hosts with 8 ports, each with an agent
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=HOSTS as u64))]
    hosts: u64,
    /// Injects only faults with this text in their name
    #[arg(long)]
    only: Option<String>,
    /// Measures this collector instead of building one with the release profile
    #[arg(long)]
    collector: Option<PathBuf>,
    /// Measures this agent instead of building one with the release profile
    #[arg(long)]
    agent: Option<PathBuf>,
}

/// Seconds since the begin of the fault.
#[derive(Clone, Copy)]
struct Took {
    /// A sample of the fault was stored.
    stored: f64,
    /// An incident was open at the port.
    open: f64,
    /// The incident had the right kind; NaN if not within [`NAMING`].
    named: f64,
}

/// Builds, injects the faults and prints the table.
///
/// # Errors
/// When a program does not build or start, or a fault has no incident.
pub fn run(args: &Args) -> Result<()> {
    let program = |given: &Option<PathBuf>, name: &str| match given {
        Some(path) => Ok(path.clone()),
        None => {
            must(cargo(&["build", "--release", "--locked", "-p", name]))?;
            Ok::<_, anyhow::Error>(target()?.join("release").join(name))
        }
    };
    let (collector, agent) = (program(&args.collector, "fabriclens")?, program(&args.agent, "fabriclens-agent")?);
    let dir = target()?.join("bench-detect");
    empty(&dir)?;
    let hosts = usize::try_from(args.hosts)?;
    let simulated = Hosts::create(&dir, hosts)?;
    let topology = dir.join("topology.json");
    std::fs::write(&topology, cables(hosts).to_string())?;
    let config = dir.join("collector.toml");
    std::fs::write(&config, format!("[topology]\nfiles = [{:?}]\n", topology.display().to_string()))?;
    let server = Server::start_with(Program::Fabriclens, &collector, &dir.join("collector"), Some(&config))?;
    let agents = (0..hosts).map(|host| start_agent(&agent, &dir, host, server.otlp())).collect::<Result<Vec<_>>>()?;
    std::thread::sleep(CALM);

    println!("seconds from the fault until a sample is stored, an incident is open, and it has the right kind");
    println!(
        "(min, median, max):\n{:<24}{:>8}{:>24}{:>24}{:>24}{:>8}",
        "", "faults", "stored", "open", "named", "named"
    );
    let chosen = FAULTS.iter().filter(|f| args.only.as_ref().is_none_or(|part| f.name.contains(part)));
    for fault in chosen {
        let mut took = Vec::new();
        for n in 0..args.faults {
            let port = (n % hosts, (n * 3 + n / hosts) % RAILS);
            // The golden ratio spreads the faults evenly over the second, the interval of agents and collector.
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
            let wait = (n as f64 * 0.618 - now).rem_euclid(1.0);
            std::thread::sleep(Duration::from_secs_f64(wait));
            took.push(one(&simulated, &server, fault, port).with_context(|| format!("{} at {port:?}", fault.name))?);
        }
        let row = |of: fn(&Took) -> f64| {
            let mut all: Vec<f64> = took.iter().map(of).filter(|t| !t.is_nan()).collect();
            all.sort_by(f64::total_cmp);
            let (Some(least), Some(most)) = (all.first(), all.last()) else { return "-".to_owned() };
            let median = f64::midpoint(all[(all.len() - 1) / 2], all[all.len() / 2]);
            format!("{least:.2} {median:>7.2} {most:>7.2}")
        };
        let (stored, open, named) = (row(|t| t.stored), row(|t| t.open), row(|t| t.named));
        let right = took.iter().filter(|t| !t.named.is_nan()).count();
        println!("{:<24}{:>8}{stored:>24}{open:>24}{named:>24}{right:>8}", fault.name, took.len());
    }
    drop(agents);
    simulated.stop()?;
    drop(server);
    empty(&dir)
}

/// Topology with one leaf per rail.
fn cables(hosts: usize) -> Value {
    let links = (0..hosts * RAILS).map(|at| {
        let (host, rail) = (at / RAILS, at % RAILS);
        json!({"a": host_name(host), "a_port": format!("mlx5_{rail}/1"), "b": format!("leaf-{rail}"),
               "b_port": format!("swp{host}"), "rate_gbps": 400})
    });
    json!({
        "hosts": (0..hosts).map(|h| json!({"id": host_name(h)})).collect::<Vec<_>>(),
        "switches": (0..RAILS).map(|r| json!({"id": format!("leaf-{r}")})).collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
    })
}

fn start_agent(agent: &Path, dir: &Path, host: usize, otlp: &str) -> Result<Process> {
    let name = host_name(host);
    let tree = dir.join(&name).display().to_string();
    let (http, collector) = (format!("127.0.0.1:{}", local_port()?), format!("http://{otlp}"));
    let args = ["run", "--root", &tree, "--collector", &collector, "--http", &http].map(String::from);
    Process::start_tied(agent, &args, &dir.join(format!("{name}.log")))
}

/// Injects a fault and waits until its incident has ended.
fn one(simulated: &Hosts, server: &Server, fault: &'static Fault, port: (usize, usize)) -> Result<Took> {
    let (host, device) = (host_name(port.0), format!("mlx5_{}", port.1));
    let series = fault.series.replace("$h", &host).replace("$d", &device);
    let value = || -> Result<Option<f64>> {
        let answer = ask(server, "query", &series)?;
        let newest = answer["data"]["result"][0]["value"][1].as_str().map(str::parse).transpose();
        newest.context("reading a value")
    };
    let before = value()?.with_context(|| format!("no series {series}"))?;
    let leaf = format!("\"leaf-{}\"", port.1);
    let here = |one: &Value| {
        let root = one["root"].to_string();
        let rail = [format!("\"{device}/1\""), leaf.clone()].iter().any(|part| root.contains(part));
        root.contains(&format!("\"{host}\"")) && rail
    };
    ensure!(!open(server)?.iter().any(here), "an incident is open there already: {:?}", open(server)?);
    let begin = Instant::now();
    simulated.inject(port, fault)?;
    let mut took = Took { stored: f64::NAN, open: f64::NAN, named: f64::NAN };
    loop {
        let seen = open(server)?;
        let now = begin.elapsed().as_secs_f64();
        let there: Vec<&Value> = seen.iter().filter(|one| here(one)).collect();
        if took.open.is_nan() && !there.is_empty() {
            (took.open, took.stored) = (now, took.stored.min(now));
        }
        if there.iter().any(|one| one["kind"] == fault.kind) {
            took.named = now;
            break;
        }
        if took.stored.is_nan() && value()?.is_some_and(|v| v != before) {
            took.stored = begin.elapsed().as_secs_f64();
        }
        if now > took.open + NAMING.as_secs_f64() {
            break;
        }
        if begin.elapsed() > TIMEOUT {
            bail!("no incident at {host} {device}; open incidents: {seen:?}");
        }
        std::thread::sleep(POLL);
    }
    simulated.repair(port)?;
    let repaired = Instant::now();
    while !fault.lasts && !open(server)?.is_empty() {
        ensure!(repaired.elapsed() < TIMEOUT, "not ended after {TIMEOUT:?}: {:?}", open(server)?);
        std::thread::sleep(Duration::from_millis(200));
    }
    // The next incident must not be merged with this one.
    std::thread::sleep(if fault.lasts { APART } else { Duration::from_secs(4) });
    Ok(took)
}

fn open(server: &Server) -> Result<Vec<Value>> {
    Ok(ask(server, "incidents", "")?["incidents"].as_array().cloned().unwrap_or_default())
}

fn ask(server: &Server, what: &str, query: &str) -> Result<Value> {
    let request = ureq::get(format!("{}/api/v1/{what}", server.url())).query("state", "open").query("query", query);
    let text = request.call()?.body_mut().read_to_string()?;
    serde_json::from_str(&text).with_context(|| format!("reading {text}"))
}
