//! `bench agent`: the agent and node_exporter on the same tree of 8 HCAs, each with a sample per second, at the same time.
//!
//! The tree is plain files that a simulated fabric updates each second, so kernel and firmware cost nothing and only the
//! programs are measured. node_exporter's ethtool collector asks the kernel by ioctl and finds no netdev of the tree. The agent
//! reads recorded text instead of ioctls; parsing it is no cost of a real host, so only the last rows have such text. The last
//! one reads GPUs and the kernel log, too, and says what each sampler costs.

use super::agent_table::{self, Figure};
use super::scrape::{Busy, Sources, busy, counters_per_second, node_exporter_series, scrape, sources, wait_for};
use super::{inside, syscalls};
use crate::process::Process;
use crate::setup;
use crate::sim::fabric::Fabric;
use crate::sim::tree::HostTree;
use crate::steps::{cargo, local_port, must, root, target};
use anyhow::{Result, bail};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const NODE_EXPORTER: &str = "/usr/bin/prometheus-node-exporter";
/// Interval in seconds of the agent's self-metrics; a multiple of it makes the counts exact.
const GRAIN: u64 = 5;

/// Options of `bench agent`.
#[derive(clap::Args)]
pub struct Args {
    /// Seconds to measure; rounded up to a multiple of 5
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Measures this agent instead of building one with the release profile
    #[arg(long)]
    agent: Option<PathBuf>,
    /// Lets agents send to this collector instead of building one with the demo profile
    #[arg(long)]
    collector: Option<PathBuf>,
}

/// Where the samples go.
#[derive(Clone, Copy, PartialEq)]
enum Output {
    None,
    Scraped,
    Sent,
}

/// Set-up of one row of the table.
struct Plan {
    name: &'static str,
    rival: bool,
    recorded: bool,
    fast: bool,
    /// Reads GPUs and the kernel log, too.
    inside: bool,
    output: Output,
}

const AGENT: Plan = Plan { name: "", rival: false, recorded: false, fast: false, inside: false, output: Output::Sent };

const PLANS: [Plan; 7] = [
    Plan { name: "agent, 1 s, scraped each second", output: Output::Scraped, ..AGENT },
    Plan { name: "node_exporter, scraped each second", rival: true, output: Output::Scraped, ..AGENT },
    Plan { name: "agent, 1 s, only reading", output: Output::None, ..AGENT },
    Plan { name: "agent, 1 s, sends OTLP", ..AGENT },
    Plan { name: "agent, 1 s + 100 ms, sends OTLP", fast: true, ..AGENT },
    Plan { name: "the same, with ethtool as text", recorded: true, fast: true, ..AGENT },
    Plan { name: "the same, with GPUs and kernel log", recorded: true, fast: true, inside: true, ..AGENT },
];

struct Running {
    plan: &'static Plan,
    process: Process,
    url: String,
    cpu: u64,
    before: Sources,
    busy: Busy,
}

/// Builds, measures and prints.
///
/// # Errors
/// When a program does not build or start.
pub fn run(args: Args) -> Result<()> {
    if !setup::ensure(&setup::NODE_EXPORTER)? {
        bail!("node_exporter is not installed");
    }
    let strace = setup::ensure(&setup::STRACE)?;
    let seconds = args.seconds.div_ceil(GRAIN).max(1) * GRAIN;
    let agent = args.agent.map_or_else(|| build("release", "fabriclens-agent"), Ok)?;
    let collector = args.collector.map_or_else(|| build("demo", "fabriclens"), Ok)?;
    let dir = root().join("target/bench-agent");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)?;
    let dir = dir.canonicalize()?;

    let mut fabric = Fabric::new();
    let mut tree = HostTree::create(&dir.join("recorded"), 0)?;
    // The same files without the recorded system calls.
    std::fs::create_dir(dir.join("sysfs"))?;
    inside::add(&dir.join("recorded"))?;
    for part in ["sys", "proc", "dev"] {
        symlink(dir.join("recorded").join(part), dir.join("sysfs").join(part))?;
    }
    let mut tick = || {
        fabric.step(1.0);
        inside::log(&dir.join("recorded"))?;
        tree.write(&fabric.nics)
    };
    tick()?;

    let grpc = local_port()?;
    let _collector = serve(&collector, &dir, grpc)?;
    let mut running = PLANS.iter().map(|plan| start(plan, &agent, &dir, grpc)).collect::<Result<Vec<Running>>>()?;
    println!("measuring {} programs side by side for {seconds} s", running.len());
    for _ in 0..2 {
        std::thread::sleep(Duration::from_secs(1)); // the first sample binds names and opens files
        each_second(&running)?;
    }
    for r in &mut running {
        let text = scrape(&r.url)?;
        (r.before, r.busy) = (sources(&text), busy(&text));
    }
    for r in &mut running {
        r.cpu = r.process.cpu_ns()?;
    }
    let begin = Instant::now();
    for second in 1..=seconds {
        std::thread::sleep((begin + Duration::from_secs(second)).saturating_duration_since(Instant::now()));
        tick()?;
        each_second(&running)?;
    }
    let cpu: Vec<u64> = running.iter().map(|r| r.process.cpu_ns()).collect::<Result<_>>()?;
    let took = begin.elapsed().as_secs_f64();
    // Before system calls are counted: the tree rests meanwhile.
    let last =
        running.last().map(|all| Ok::<_, anyhow::Error>((all.busy.clone(), busy(&scrape(&all.url)?)))).transpose()?;
    let mut figures = Vec::new();
    for (r, cpu) in running.iter_mut().zip(cpu) {
        figures.push(r.figure(cpu, took, strace)?);
    }
    agent_table::print(&figures);
    if let Some((before, after)) = last {
        agent_table::samplers(&before, &after, took);
    }
    agent_table::sizes(&agent, &dir)
}

fn build(profile: &str, package: &str) -> Result<PathBuf> {
    println!("building {package} ({profile} profile; the first time takes minutes)");
    must(cargo(&["build", "--profile", profile, "--locked", "-p", package]))?;
    let target = target()?;
    Ok(target.join(profile).join(package))
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn serve(program: &Path, dir: &Path, grpc: u16) -> Result<Process> {
    let http = local(local_port()?);
    let data = dir.join("data").display().to_string();
    let otlp_http = local(local_port()?);
    let args = ["serve", "--data", &data, "--http", &http, "--otlp-grpc", &local(grpc), "--otlp-http", &otlp_http];
    let process = Process::start(program, &args.map(String::from), &dir.join("collector.log"))?;
    wait_for(&format!("http://{http}/readyz"))?;
    Ok(process)
}

fn start(plan: &'static Plan, agent: &Path, dir: &Path, grpc: u16) -> Result<Running> {
    let http = local(local_port()?);
    let tree = dir.join(if plan.recorded { "recorded" } else { "sysfs" });
    let log = dir.join(format!("{}.log", plan.name.replace([' ', ','], "-")));
    let process = if plan.rival {
        Process::start(Path::new(NODE_EXPORTER), &rival(&tree, &http), &log)?
    } else {
        // A congestion interval of 1 s means no congestion samples. The host name sets the phase of the samples.
        let config = log.with_extension("toml");
        let fast = if plan.fast { "100ms" } else { "1s" };
        let samplers = if plan.inside { "" } else { inside::OFF };
        std::fs::write(&config, format!("host = {:?}\n[sampling]\nfast = {fast:?}\n{samplers}", plan.name))?;
        let (root, config) = (tree.display().to_string(), config.display().to_string());
        let mut args = vec!["run", "--root", &root, "--http", &http, "--config", &config];
        let url = format!("http://{}", local(grpc));
        if plan.output == Output::Sent {
            args.extend(["--collector", &url]);
        }
        Process::start(agent, &args.into_iter().map(String::from).collect::<Vec<_>>(), &log)?
    };
    let url = format!("http://{http}/metrics");
    let mut running = Running { plan, process, url, cpu: 0, before: Sources::new(), busy: Busy::new() };
    if let Err(error) = wait_for(&running.url) {
        let ended = if running.process.is_alive() { "" } else { "; it ended" };
        return Err(error.context(format!("{}{ended}; its log: {}", plan.name, log.display())));
    }
    Ok(running)
}

fn rival(tree: &Path, http: &str) -> Vec<String> {
    let sys = tree.join("sys");
    [
        format!("--path.sysfs={}", sys.display()),
        format!("--path.procfs={}", tree.join("proc").display()),
        format!("--web.listen-address={http}"),
        "--web.disable-exporter-metrics".into(),
        "--collector.disable-defaults".into(),
        "--collector.infiniband".into(),
        "--collector.netclass".into(),
        "--collector.ethtool".into(),
    ]
    .into()
}

fn each_second(running: &[Running]) -> Result<()> {
    running.iter().filter(|r| r.plan.output == Output::Scraped).try_for_each(|r| scrape(&r.url).map(drop))
}

impl Running {
    fn figure(&mut self, cpu: u64, took: f64, strace: bool) -> Result<Figure> {
        if !self.process.is_alive() {
            bail!("{} has ended during the measurement", self.plan.name);
        }
        let text = scrape(&self.url)?;
        let counters = if self.plan.rival {
            node_exporter_series(&text) as f64
        } else {
            counters_per_second(&self.before, &sources(&text), took)
        };
        if counters < 1.0 {
            bail!("{} read nothing from the tree", self.plan.name);
        }
        let size = self.process.size()?;
        let mut scraped = || if self.plan.output == Output::Scraped { scrape(&self.url).map(drop) } else { Ok(()) };
        let calls = if strace { syscalls::count(self.process.id(), GRAIN, &mut scraped)? } else { None };
        Ok(Figure { name: self.plan.name, counters, cpu_us: (cpu - self.cpu) as f64 / 1e3 / took, size, calls })
    }
}
