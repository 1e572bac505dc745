//! `fabriclens-load herd`: thousands of real agent uplinks in one process, each with ring, spool and connection, for outages
//! of a collector.

use crate::otlp::Shape;
use crate::workload::{Hosts, Rails, host_name};
use anyhow::{Context as _, Result};
use fabriclens_agent::config::{self, Overrides};
use fabriclens_agent_uplink::ring::{Reader, Ring};
use fabriclens_agent_uplink::{Counters, State, Uplink};
use fabriclens_wire::Section;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::time::interval;

/// Seconds of samples that a host keeps in memory, as agents of 8 ports do.
const RING: usize = 120;
/// Simulated seconds per second until the samples have caught up with the present.
const PACE: u32 = 60;

/// Options of `herd`.
#[derive(clap::Args)]
pub struct Args {
    /// Address of the collector's OTLP/gRPC
    #[arg(long)]
    to: SocketAddr,
    /// Number of agents with 8 ports each, at most 5,000
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=5000))]
    hosts: u64,
    /// Directory of the spools
    #[arg(long)]
    dir: PathBuf,
    /// Starts with samples from this many seconds ago, at 60 seconds per second
    #[arg(long, default_value_t = 0)]
    past: u64,
    /// Seconds between two reports (lines of JSON)
    #[arg(long, default_value_t = 10)]
    every: u64,
}

/// Counters of one agent.
struct Agent {
    counters: Arc<Counters>,
    ring: Reader<Section>,
    points_of_second: u64,
}

/// Samples and sends until the process is killed, and prints reports.
///
/// # Errors
/// When an uplink cannot be started.
pub fn run(args: &Args) -> Result<()> {
    let to = Overrides { collector: Some(format!("http://{}", args.to)), ..Overrides::default() };
    let mut config = config::load(None, [], &to, &[])?;
    let mut seconds = RING;
    if args.past > 0 {
        // Seconds in memory are minutes of simulated time.
        config.spool.after = Duration::ZERO;
        seconds *= PACE as usize;
    }
    let collector = config.collector.context("no collector")?;
    let rails = Rails::new(true)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        // Never dropped, so that the agents do not stop.
        let (_running, stop) = watch::channel(false);
        let mut agents = Vec::new();
        for number in 0..args.hosts as usize {
            let (name, ports) = (host_name(number), Hosts::new(&rails, number, 1, false));
            let ring = Arc::new(Ring::new(seconds * ports.ports.len(), 1));
            let uplink = Uplink::new(collector.clone(), &name, ring.reader(0), None)?;
            let uplink = uplink.with_spool(&args.dir.join(&name), &config.spool);
            let points_of_second = ports.ports.iter().map(|p| p.values.len() as u64).sum();
            agents.push(Agent { counters: uplink.counters(), ring: ring.reader(0), points_of_second });
            tokio::spawn(uplink.run(stop.clone()));
            let moment = Duration::from_millis(number as u64 * 1000 / args.hosts);
            tokio::spawn(sample(ports, ring, moment, Duration::from_secs(args.past)));
        }
        let mut every = interval(Duration::from_secs(args.every.max(1)));
        loop {
            every.tick().await;
            print(&agents);
        }
    })
}

/// Samples all ports each second at the agent's phase; samples of the past first, and fast.
async fn sample(mut ports: Hosts, ring: Arc<Ring<Section>>, moment: Duration, past: Duration) {
    const SECOND: Duration = Duration::from_secs(1);
    let wall = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut clock = wall() - past;
    let shape = |p| Shape::new(p, &ports.ports[0].host, clock.as_millis() as u64);
    let shapes: Vec<Shape> = ports.ports.iter().map(shape).collect();
    let mut step = |time: Duration| {
        ports.step();
        for (port, shape) in ports.ports.iter().zip(&shapes) {
            ring.push(shape.section(port, time.as_nanos() as u64));
        }
    };
    tokio::time::sleep(moment).await;
    let mut fast = interval(SECOND / PACE);
    while clock + SECOND < wall() {
        fast.tick().await;
        step(clock);
        clock += SECOND;
    }
    let mut second = interval(SECOND);
    loop {
        second.tick().await;
        step(wall());
    }
}

fn print(agents: &[Agent]) {
    let (mut up, mut behind, mut retries) = (0, 0.0_f64, 0);
    let [mut taken, mut acked, mut rejected, mut dropped, mut spooled, mut off] = [0; 6];
    for agent in agents {
        let (a, ring) = (agent.counters.accounts(), agent.ring.account());
        up += u64::from(agent.counters.state() == State::Up);
        behind = behind.max((ring.waiting + a.in_flight) as f64 / agent.points_of_second as f64);
        retries += agent.counters.retries();
        taken += a.taken + ring.waiting + ring.dropped;
        acked += a.acked;
        rejected += a.rejected;
        dropped += a.dropped + ring.dropped;
        spooled += a.spooled;
        off += a.unaccounted;
    }
    println!(
        "{}",
        json!({
            "up": up, "taken": taken, "acked": acked, "rejected": rejected, "dropped": dropped, "spooled": spooled,
            "unaccounted": off, "retries": retries, "behind_s": behind,
        })
    );
}
