//! Switches that a collector reads by gNMI as SONiC answers it: tables as JSON, numbers as text. One process answers for all.

use super::Args;
use crate::bench::scrape::scrape;
use crate::bench::store::empty;
use crate::bench::store::server::{Kind, Server};
use crate::demo::Binaries;
use crate::demo::switches::{Spines, Values};
use crate::process::Process;
use crate::sim::layout::FRAME;
use crate::sim::link::Link;
use crate::sim::switch::{Switch, SwitchPort};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// Seconds before the measurement: connections and new series.
const WARM_UP: u64 = 30;
/// Switches that get new values in one second: one of so many.
const SHARE: u64 = 10;
/// Values that a port tells in a second: 18 of the stream of ports, which the test program extends by the tables of queues and
/// watchdog, 2 of the watchdog, and each 10 s 4 of its queue and 4 of its state.
const VALUES: f64 = 20.8;
/// Messages of a switch in a second: ports and watchdog, and each 10 s queues and state.
const MESSAGES: f64 = 2.2;
/// Bytes that a port sends and receives in a second. It tells ten seconds at once, which must be possible at its line rate.
const RATE: f64 = 2e9;

/// The process of the switches, killed on drop.
struct Targets(Child);

impl Drop for Targets {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Totals of the collector and processor time, ns.
struct Totals {
    values: f64,
    bytes: f64,
    collector: u64,
    targets: u64,
}

/// Measures a collector that reads all targets each second.
///
/// # Errors
/// When a program does not start, or not all targets are read.
pub(super) fn run(args: &Args, binaries: &Binaries, dir: &Path) -> Result<()> {
    let (count, ports) = (args.targets, args.target_ports);
    println!("\ngNMI: {count} switches with {ports} ports, each second; a tenth of them has new values");
    empty(dir)?;
    std::fs::create_dir_all(dir).context("create the directory")?;
    let mut links = vec![Link::default(); ports];
    grow(&mut links, 1.0);
    let Spines { process, mut values, config } = Spines::start(&binaries.gnmi_target, switches(count, ports), &links)?;
    let targets = Targets(process);
    let file = dir.join("collector.toml");
    std::fs::write(&file, config).context("write the collector's configuration")?;
    let server = Server::start_with(Kind::Fabriclens, &binaries.collector, dir, Some(&file))?;
    change(&mut values, &mut links, WARM_UP)?;
    let (at, before) = (Instant::now(), totals(&server, &targets)?);
    change(&mut values, &mut links, args.seconds)?;
    let (took, after) = (at.elapsed().as_secs_f64(), totals(&server, &targets)?);
    let metrics = scrape(&format!("{}/metrics", server.url()))?;
    let streams: Vec<f64> = numbers(&metrics, "fabriclens_gnmi_streams{").collect();
    let read = streams.iter().filter(|streams| **streams > 0.0).count();
    ensure!(read == count, "{read} of {count} switches are read; the collector's log: {}/log", dir.display());
    let rate = (after.values - before.values) / took;
    let due = rate / (VALUES * (count * ports) as f64);
    let cores = |from: u64, to: u64| (to - from) as f64 / 1e9 / took;
    let collector = cores(before.collector, after.collector);
    let size = server.process().size()?;
    for (what, value) in [
        ("streams", format!("{:.0}", streams.iter().sum::<f64>())),
        ("values a second", format!("{rate:.0}")),
        ("share of the values that were due", format!("{:.0} %", due * 100.0)),
        ("messages a second, calculated", format!("{:.0}", due * MESSAGES * count as f64)),
        ("bytes a second", format!("{:.1} MB", (after.bytes - before.bytes) / took / 1e6)),
        ("dropped values", format!("{:.0}", numbers(&metrics, "fabriclens_gnmi_dropped_values_total").sum::<f64>())),
        ("collector", format!("{:.1} % of a core", collector * 100.0)),
        ("collector, for a switch", format!("{:.3} % of a core", collector * 100.0 / count as f64)),
        ("collector, for a value", format!("{:.2} us", collector * 1e6 / rate)),
        ("collector, RSS", format!("{:.0} MB", size.rss as f64 / 1e6)),
        ("process of the switches", format!("{:.1} % of a core", cores(before.targets, after.targets) * 100.0)),
    ] {
        println!("{what:<48}{value:>22}");
    }
    Ok(())
}

/// Switches whose ports have the same links.
fn switches(count: usize, ports: usize) -> Vec<Switch> {
    let port = |switch: usize, at: usize| SwitchPort {
        name: format!("Ethernet{}", at * 8),
        egress: at,
        ingress: at,
        neighbor: (format!("host-{switch:04}"), format!("eth{at}")),
    };
    let switch = |n| Switch { name: format!("target-{n:04}"), ports: (0..ports).map(|at| port(n, at)).collect() };
    (0..count).map(switch).collect()
}

fn grow(links: &mut [Link], seconds: f64) {
    for (at, link) in links.iter_mut().enumerate() {
        let bytes = RATE * seconds * (1.0 - at as f64 / 200.0);
        link.bytes += bytes;
        link.marks += bytes / FRAME / 1000.0;
        link.pause_s += seconds / 1000.0;
    }
}

/// Changes the values of one part of the switches each second.
fn change(values: &mut Values, links: &mut [Link], seconds: u64) -> Result<()> {
    let begin = Instant::now();
    for second in 0..seconds {
        grow(links, 1.0);
        let bound = |part: u64| values.len() * part as usize / SHARE as usize;
        let part = second % SHARE;
        values.write(bound(part)..bound(part + 1), links)?;
        std::thread::sleep((begin + Duration::from_secs(second + 1)).saturating_duration_since(Instant::now()));
    }
    Ok(())
}

fn totals(server: &Server, targets: &Targets) -> Result<Totals> {
    let text = scrape(&format!("{}/metrics", server.url()))?;
    Ok(Totals {
        values: numbers(&text, "fabriclens_gnmi_values_total").sum(),
        bytes: numbers(&text, "fabriclens_gnmi_bytes_total").sum(),
        collector: server.process().cpu_total_ns()?,
        targets: Process::cpu_total_of(targets.0.id())?,
    })
}

/// Values of the series whose lines begin with `name`.
fn numbers(text: &str, name: &str) -> impl Iterator<Item = f64> {
    text.lines().filter(move |line| line.starts_with(name)).filter_map(|line| line.rsplit_once(' ')?.1.parse().ok())
}
