//! `bench detect`: how long from a fault at a port until its incident is open, end to end: real agents read trees of
//! files whose counters move all the time, and send by OTLP to a real collector, which is asked for what is open.
//!
//! The trees have no kernel behind them, so nobody tells the agents that a carrier changed: they see it when they look.

use super::store::empty;
use super::store::server::{Kind as Program, Server};
use crate::process::Process;
use crate::sim::fabric::{Nic, index};
use crate::sim::tree::{HostTree, Link, host_name};
use crate::sim::{HOSTS, RAILS};
use crate::steps::{cargo, local_port, must, target};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Counters are brought up to date so often: the begin of a fault is known no better.
const TICK: Duration = Duration::from_millis(20);
/// What is asked for so often.
const POLL: Duration = Duration::from_millis(10);
/// Nobody waits longer for an incident to open, or to be over.
const PATIENCE: Duration = Duration::from_secs(60);
/// A link that comes back with half its rate was away so long.
const RETRAINS: Duration = Duration::from_millis(200);
/// Calm at the start, to learn what is usual.
const CALM: Duration = Duration::from_secs(45);
/// From the begin of an incident until another place is told apart from it, and a little more.
const APART: Duration = Duration::from_secs(15);
/// How long it may take until an open incident has its right name.
const NAMING: Duration = Duration::from_secs(20);
/// A quarter of 400 Gb/s, in bytes a second: what ports move in calm.
const TRAFFIC: f64 = 12.5e9;

/// A kind of fault: what it does, what it must be called, and the series that shows it first.
struct Fault {
    name: &'static str,
    kind: &'static str,
    /// Changes what a port counts in `dt` seconds.
    counts: fn(&mut Nic, f64),
    link: &'static [(Duration, Link)],
    /// `$h` is the host, `$d` the device.
    series: &'static str,
    /// What it did to the port is held against it for a while after: such faults come last.
    lasts: bool,
}

const NONE: fn(&mut Nic, f64) = |_, _| {};

const FAULTS: &[Fault] = &[
    Fault {
        name: "PFC storm",
        kind: "pfc_storm",
        counts: |nic, dt| {
            nic.rx_bytes -= TRAFFIC * dt; // nothing comes through
            nic.tx_pause_s += 0.99 * dt;
            nic.storm_warnings += 2.0 * dt;
        },
        link: &[],
        series: "fabric_pfc_pause_seconds_total{host=\"$h\",device=\"$d\",direction=\"transmit\"}",
        lasts: false,
    },
    Fault {
        name: "slow receiver",
        kind: "slow_receiver",
        counts: |nic, dt| nic.tx_pause_s += 0.3 * dt,
        link: &[],
        series: "fabric_pfc_pause_seconds_total{host=\"$h\",device=\"$d\",direction=\"transmit\"}",
        lasts: false,
    },
    Fault {
        name: "link down",
        kind: "link_down",
        counts: NONE,
        link: &[(Duration::ZERO, Link::Down)],
        series: "fabric_port_up{host=\"$h\",device=\"$d\"}",
        lasts: false,
    },
    Fault {
        name: "link at half its rate",
        kind: "degraded_link",
        counts: NONE,
        link: &[(Duration::ZERO, Link::Down), (RETRAINS, Link::Up(200))],
        series: "fabric_port_rate_bytes_per_second{host=\"$h\",device=\"$d\"}",
        lasts: false,
    },
    Fault {
        name: "symbol errors",
        kind: "lossy_link",
        counts: |nic, dt| nic.symbol_errors += 220.0 * dt,
        link: &[],
        series: "fabric_link_symbol_errors_total{host=\"$h\",device=\"$d\"}",
        lasts: true,
    },
];

/// Options of `bench detect`.
#[derive(clap::Args)]
pub struct Args {
    /// Faults of each kind, each at another port and instant of the second
    #[arg(long, default_value_t = 8)]
    faults: usize,
    /// Hosts of 8 ports, each with its agent
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=HOSTS as u64))]
    hosts: u64,
    /// Only faults with this in their name
    #[arg(long)]
    only: Option<String>,
    /// Measures this collector instead of building one with the release profile
    #[arg(long)]
    collector: Option<PathBuf>,
    /// The same for the agent
    #[arg(long)]
    agent: Option<PathBuf>,
}

/// Seconds from the fault until something was so.
#[derive(Clone, Copy)]
struct Took {
    /// The store had a sample of it.
    stored: f64,
    /// An incident was open there.
    open: f64,
    /// It was called what it is; NaN: not for so long as was looked.
    named: f64,
}

/// Builds, breaks, waits, prints.
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
    let world = World::create(&dir, hosts)?;
    let topology = dir.join("topology.json");
    std::fs::write(&topology, cables(hosts).to_string())?;
    let config = dir.join("collector.toml");
    std::fs::write(&config, format!("[topology]\nfiles = [{:?}]\n", topology.display().to_string()))?;
    let server = Server::start_with(Program::Fabriclens, &collector, &dir.join("collector"), Some(&config))?;
    let agents = (0..hosts).map(|host| watch(&agent, &dir, host, server.otlp())).collect::<Result<Vec<_>>>()?;
    std::thread::sleep(CALM);

    println!(
        "seconds from the fault until the store has a sample of it, an incident is open there, and has its right name"
    );
    println!(
        "(least, median, most):\n{:<24}{:>8}{:>24}{:>24}{:>24}{:>8}",
        "", "faults", "stored", "open", "named", "named"
    );
    let chosen = FAULTS.iter().filter(|f| args.only.as_ref().is_none_or(|part| f.name.contains(part)));
    for fault in chosen {
        let mut took = Vec::new();
        for n in 0..args.faults {
            let port = (n % hosts, (n * 3 + n / hosts) % RAILS);
            // Spread over the second, which both agents and collector live by; the golden ratio spreads best.
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
            let wait = (n as f64 * 0.618 - now).rem_euclid(1.0);
            std::thread::sleep(Duration::from_secs_f64(wait));
            took.push(one(&world, &server, fault, port).with_context(|| format!("{} at {port:?}", fault.name))?);
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
    world.stop()?;
    drop(server);
    empty(&dir)
}

/// One leaf for each rail.
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

fn watch(agent: &Path, dir: &Path, host: usize, otlp: &str) -> Result<Process> {
    let name = host_name(host);
    let tree = dir.join(&name).display().to_string();
    let (http, collector) = (format!("127.0.0.1:{}", local_port()?), format!("http://{otlp}"));
    let args = ["run", "--root", &tree, "--collector", &collector, "--http", &http].map(String::from);
    Process::start_tied(agent, &args, &dir.join(format!("{name}.log")))
}

/// A fault from its begin until its incident is over.
fn one(world: &World, server: &Server, fault: &'static Fault, port: (usize, usize)) -> Result<Took> {
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
    ensure!(!open(server)?.iter().any(here), "something is open there already: {:?}", open(server)?);
    let begin = Instant::now();
    world.break_port(port, fault)?;
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
        if begin.elapsed() > PATIENCE {
            bail!("nothing was opened at {host} {device}; open are: {seen:?}");
        }
        std::thread::sleep(POLL);
    }
    world.mend_port(port)?;
    let mended = Instant::now();
    while !fault.lasts && !open(server)?.is_empty() {
        ensure!(mended.elapsed() < PATIENCE, "not over after {PATIENCE:?}: {:?}", open(server)?);
        std::thread::sleep(Duration::from_millis(200));
    }
    // What ended a moment ago is no longer there for the next one to be told apart from.
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

/// Hosts whose counters move.
struct World {
    shared: Arc<Mutex<Shared>>,
    ended: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<()>>,
}

struct Shared {
    trees: Vec<HostTree>,
    nics: Vec<Nic>,
    /// What is wrong, and when.
    broken: Option<((usize, usize), &'static Fault, Instant)>,
    /// Of [`Fault::link`], how many are done.
    done: usize,
    downs: Vec<u32>,
}

impl World {
    fn create(dir: &Path, hosts: usize) -> Result<Self> {
        let trees = (0..hosts).map(|h| HostTree::create(&dir.join(host_name(h)), h)).collect::<Result<_>>()?;
        let (nics, downs) = (vec![Nic::default(); HOSTS * RAILS], vec![0; HOSTS * RAILS]);
        let shared = Arc::new(Mutex::new(Shared { trees, nics, broken: None, done: 0, downs }));
        let ended = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (shared, ended) = (shared.clone(), ended.clone());
            move || {
                let mut last = Instant::now();
                while !ended.load(Ordering::Relaxed) {
                    std::thread::sleep((last + TICK).saturating_duration_since(Instant::now()));
                    let dt = last.elapsed();
                    last += dt;
                    shared.lock().map_err(|_| anyhow::anyhow!("the measurement panicked"))?.step(dt.as_secs_f64())?;
                }
                Ok(())
            }
        });
        Ok(Self { shared, ended, thread })
    }

    fn lock(&self) -> Result<std::sync::MutexGuard<'_, Shared>> {
        self.shared.lock().map_err(|_| anyhow::anyhow!("the hosts' thread panicked"))
    }

    fn break_port(&self, port: (usize, usize), fault: &'static Fault) -> Result<()> {
        let mut shared = self.lock()?;
        (shared.broken, shared.done) = (Some((port, fault, Instant::now())), 0);
        shared.links()
    }

    fn mend_port(&self, port: (usize, usize)) -> Result<()> {
        let mut shared = self.lock()?;
        shared.broken = None;
        shared.trees[port.0].set_link(port.1, Link::Up(400), shared.downs[index(port)])
    }

    fn stop(self) -> Result<()> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the hosts' thread panicked"))?
    }
}

impl Shared {
    fn step(&mut self, dt: f64) -> Result<()> {
        for nic in &mut self.nics {
            nic.tx_bytes += TRAFFIC * dt;
            nic.rx_bytes += TRAFFIC * dt;
        }
        if let Some((port, fault, _)) = self.broken {
            (fault.counts)(&mut self.nics[index(port)], dt);
        }
        self.links()?;
        let Self { trees, nics, .. } = self;
        trees.iter_mut().try_for_each(|tree| tree.write(nics))
    }

    /// Does to the link what is due.
    fn links(&mut self) -> Result<()> {
        let Some((port, fault, since)) = self.broken else { return Ok(()) };
        while let Some((_, link)) = fault.link.get(self.done).filter(|(after, _)| since.elapsed() >= *after) {
            let downs = &mut self.downs[index(port)];
            *downs += u32::from(*link == Link::Down);
            self.nics[index(port)].link_downs = f64::from(*downs);
            self.trees[port.0].set_link(port.1, *link, *downs)?;
            self.done += 1;
        }
        Ok(())
    }
}
