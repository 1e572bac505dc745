//! `bench console`: the console in Debian's chromium with a fleet of thousands of hosts: first paint of each page, time of an interaction, and
//! what open consoles cost the collector. `console/tests/speed` has the pages and interactions.

use super::fleet::Sender;
use super::store::empty;
use super::store::server::{Kind, Server};
use crate::console;
use crate::demo::Binaries;
use crate::programs;
use crate::setup;
use crate::steps::{must, root, target};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// NICs of a host, each in a rail of its own, as the sender has them.
const RAILS: u64 = 8;
/// Hosts that share the leaves of their rails.
const HOSTS_OF_LEAF: u64 = 32;
/// Spines of each rail.
const SPINES: u64 = 8;
/// Hosts of a job.
const HOSTS_OF_JOB: u64 = 50;
/// Longest run of the browser, seconds.
const LONGEST: u64 = 1800;
/// Longest wait for the samples of all hosts.
const PATIENCE: Duration = Duration::from_secs(180);

/// Options of `bench console`.
#[derive(clap::Args)]
pub struct Args {
    /// Number of hosts, each with 8 ports of 62 series
    #[arg(long, default_value_t = 2000)]
    hosts: u64,
    /// Seconds between two samples of a host; sender, collector and browser share this machine
    #[arg(long, default_value_t = 10)]
    period: u64,
    /// Takes the programs, `fabriclens-load` among them, from this directory instead of building them with the demo profile
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

/// Builds, starts collector and fleet, and lets the browser measure.
///
/// # Errors
/// When a program does not build or start, chromium or npm is missing, or a page does not load.
pub fn run(args: &Args) -> Result<()> {
    ensure!(
        console::has_npm(),
        "npm is missing; install Node 20.19 or later with npm (Debian: apt-get install nodejs npm)"
    );
    let sources = root().join("console");
    console::install(&sources)?;
    ensure!(setup::ensure(&setup::CHROMIUM)?, "chromium is missing");
    let programs = args.programs.clone().map_or_else(programs::of_demo, Ok)?;
    let dir = target()?.join("bench-console");
    empty(&dir)?;
    let config = Server::config_for(&dir, args.hosts)?;
    let topology = dir.join("topology.json");
    fs::write(&topology, cables(args.hosts).to_string())?;
    let mut text = OpenOptions::new().append(true).open(&config)?;
    writeln!(text, "[topology]\nfiles = [\"{}\"]", topology.display())?;
    let server = Server::start_with(Kind::Fabriclens, &Binaries::of(&programs).collector, &dir, Some(&config))?;
    let mut load = Command::new(programs.join("fabriclens-load"));
    load.args(["fleet", "--to", server.otlp(), "--hosts", &args.hosts.to_string()]);
    load.args(["--seconds", &LONGEST.to_string(), "--period", &args.period.to_string()]);
    let _sender = Sender(load.stdout(Stdio::null()).stdin(Stdio::null()).spawn().context("start the sender")?);
    wait_for_hosts(&server, args.hosts)?;
    begin_jobs(&server, args.hosts)?;
    println!("{} hosts with {RAILS} ports each, a sample each {} s\n", args.hosts, args.period);
    let mut tests = console::npm(&sources, &["run", "--silent", "speed"]);
    tests.env("FABRICLENS_URL", server.url()).env("FABRICLENS_PID", server.process().id().to_string());
    must(tests)?;
    drop(server);
    empty(&dir)
}

/// Leaves of a rail for each group of hosts, below the spines of the rail.
fn cables(hosts: u64) -> Value {
    let leaf = |group: u64, rail: u64| format!("leaf-{group}-{rail}");
    let spine = |rail: u64, number: u64| format!("spine-{rail}-{number}");
    let groups = hosts.div_ceil(HOSTS_OF_LEAF);
    let down = (0..hosts).flat_map(|host| {
        (0..RAILS).map(move |rail| {
            json!({"a": format!("node{host:04}"), "a_port": format!("mlx5_{rail}/1"), "b": leaf(host / HOSTS_OF_LEAF, rail),
                   "b_port": format!("swp{}", host % HOSTS_OF_LEAF), "rate_gbps": 400, "rail": rail})
        })
    });
    let up = (0..groups * RAILS * SPINES).map(|at| {
        let (group, rail, number) = (at / SPINES / RAILS, at / SPINES % RAILS, at % SPINES);
        json!({"a": leaf(group, rail), "a_port": format!("up{number}"), "b": spine(rail, number),
               "b_port": format!("swp{group}"), "rate_gbps": 400})
    });
    let leaves = (0..groups * RAILS).map(|at| leaf(at / RAILS, at % RAILS));
    let spines = (0..RAILS * SPINES).map(|at| spine(at / SPINES, at % SPINES));
    json!({
        "hosts": (0..hosts).map(|host| json!({"id": format!("node{host:04}")})).collect::<Vec<_>>(),
        "switches": leaves.chain(spines).map(|id| json!({"id": id})).collect::<Vec<_>>(),
        "links": down.chain(up).collect::<Vec<_>>(),
    })
}

fn wait_for_hosts(server: &Server, hosts: u64) -> Result<()> {
    let begin = Instant::now();
    loop {
        let seen = hosts_seen(server).unwrap_or_default();
        if seen == hosts {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "the collector has rates of {seen} of {hosts} hosts");
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Hosts whose rates are known.
fn hosts_seen(server: &Server) -> Option<u64> {
    let request = ureq::get(format!("{}/api/v1/query", server.url()))
        .query("query", "count(count by (host) (rate(fabric_port_io_bytes_total[1m])))");
    let text = request.call().ok()?.body_mut().read_to_string().ok()?;
    let answer: Value = serde_json::from_str(&text).ok()?;
    answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
}

fn begin_jobs(server: &Server, hosts: u64) -> Result<()> {
    for job in 0..hosts / HOSTS_OF_JOB {
        let of_job = (job * HOSTS_OF_JOB..(job + 1) * HOSTS_OF_JOB).map(|host| format!("node{host:04}"));
        let body = json!({"id": job, "user": "ann", "name": "train", "hosts": of_job.collect::<Vec<_>>()});
        let sent = ureq::post(format!("{}/api/v1/jobs", server.url())).send(body.to_string());
        sent.with_context(|| format!("begin job {job}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_has_a_cable_and_every_leaf_its_spines() {
        let all = cables(33);
        let links = all["links"].as_array().unwrap();
        assert_eq!(links.iter().filter(|link| link["a"].as_str().unwrap().starts_with("node")).count(), 33 * 8);
        assert_eq!(links.iter().filter(|link| link["a"] == "leaf-1-7").count(), 8);
        assert_eq!(
            links.iter().filter(|link| link["b"] == "leaf-1-7").count(),
            1,
            "the last host has a leaf of its own"
        );
        assert_eq!(all["switches"].as_array().unwrap().len(), 2 * 8 + 64);
    }
}
