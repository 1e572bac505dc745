//! Copies a simulation with degraded input: ports, samples or cables left out, clocks apart, counters broken.

use super::broken_counters::{BrokenHost, Defect};
use super::ground_truth::{self, Truth};
use super::phases::Phases;
use super::renaming::Renaming;
use super::row_writer::RowWriter;
use super::scale;
use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

/// A mode of degradation.
pub struct Mode {
    /// Row name of the table.
    pub name: &'static str,
    hosts_only: bool,
    /// Keeps one of so many samples.
    pub every: usize,
    missing: bool,
    /// Clocks of every other node are so late, in real nanoseconds.
    skew_ns: i64,
    /// Each node samples in its own phase, every 1, 2 or 5 samples.
    phases: bool,
    infiniband: bool,
    /// Nodes, ports and jobs get other names, and the ports of an instant another order.
    renamed: bool,
    /// Links and what they carry are so many times as fast.
    faster: f64,
    /// Cables are left out and must be inferred.
    unwired: bool,
    /// An unrelated simulation runs in another part of the fabric.
    pub unrelated: bool,
    defect: Option<Defect>,
}

impl Mode {
    /// Complete input.
    pub const ALL_PORTS: Self = mode("all ports");
    /// The modes that are measured for each set.
    pub const MAIN: [Self; 8] = [
        Self::ALL_PORTS,
        Self { renamed: true, ..mode("other names and order") },
        Self { faster: 4.0, ..mode("links four times as fast") },
        Self { faster: 0.25, ..mode("links a quarter as fast") },
        Self { phases: true, ..mode("own phases and periods") },
        Self { every: 5, ..mode("each five seconds") },
        Self { hosts_only: true, ..mode("host ports") },
        Self { phases: true, hosts_only: true, ..mode("host ports, own phases") },
    ];
}

const fn mode(name: &'static str) -> Mode {
    Mode {
        name,
        hosts_only: false,
        every: 1,
        missing: false,
        skew_ns: 0,
        phases: false,
        infiniband: false,
        renamed: false,
        faster: 1.0,
        unwired: false,
        unrelated: false,
        defect: None,
    }
}

/// 200 ms.
const SKEW_NS: i64 = 200_000_000;

/// All modes.
pub const ALL: [Mode; 23] = [
    Mode::ALL_PORTS,
    Mode { renamed: true, ..mode("other names and order") },
    Mode { faster: 4.0, ..mode("links four times as fast") },
    Mode { faster: 0.25, ..mode("links a quarter as fast") },
    Mode { every: 5, ..mode("each five seconds") },
    Mode { unwired: true, ..mode("cables inferred") },
    Mode { unwired: true, skew_ns: SKEW_NS, ..mode("the same, clocks apart") },
    Mode { phases: true, ..mode("own phases and periods") },
    Mode { hosts_only: true, ..mode("host ports") },
    Mode { phases: true, hosts_only: true, ..mode("host ports, own phases") },
    Mode { every: 10, ..mode("each ten seconds") },
    Mode { hosts_only: true, every: 10, ..mode("host ports, each ten") },
    Mode { hosts_only: true, unwired: true, ..mode("host ports, no cables") },
    Mode { unrelated: true, ..mode("another fault elsewhere") },
    Mode { unrelated: true, hosts_only: true, ..mode("the same, host ports") },
    Mode { missing: true, ..mode("a quarter of hosts missing") },
    Mode { skew_ns: SKEW_NS, ..mode("clocks 200 ms apart") },
    Mode { defect: Some(Defect::Stuck(usize::MAX / 2)), ..mode("a host stuck") },
    Mode { defect: Some(Defect::Stuck(40)), ..mode("the same for 40 s") },
    Mode { defect: Some(Defect::Twice), ..mode("a host counts twice") },
    Mode { defect: Some(Defect::Pauses), ..mode("a host says it pauses") },
    Mode { infiniband: true, ..mode("InfiniBand's counters") },
    Mode { infiniband: true, hosts_only: true, ..mode("InfiniBand's, host ports") },
];

/// Parts of column names that InfiniBand does not have.
const ETHERNET: [&str; 6] = ["_pfc_", "_pause_", "ecn_marked", "cnp_", "q_", "sw_shared"];

/// Selects a quarter of the hosts, by a hash of the name.
fn is_missing(host: &str) -> bool {
    host.bytes().fold(7u32, |hash, b| hash.wrapping_mul(31).wrapping_add(u32::from(b))) % 4 == 0
}

/// What a degraded copy is.
pub struct Prepared {
    /// Number of ports times the observed seconds.
    pub port_seconds: f64,
    /// Other names, if it has some.
    pub renaming: Renaming,
}

/// Writes the degraded copy.
///
/// # Errors
/// When a file cannot be read or written.
pub fn prepare(from: &Path, to: &Path, mode: &Mode, truth: &Truth) -> Result<Prepared> {
    std::fs::create_dir_all(to).with_context(|| format!("create {}", to.display()))?;
    let read = |file: &str| ground_truth::read::<Value>(&from.join(file));
    let (mut topology, mut jobs) = (read("topology.json")?, read("jobs.json")?);
    let mut renaming = Renaming::default();
    if mode.renamed {
        renaming.change(&mut topology, &mut jobs);
    }
    scale::change_links(&mut topology, mode.faster);
    if mode.unwired {
        topology["links"] = serde_json::json!([]);
    }
    for (file, content) in [("topology.json", topology), ("jobs.json", jobs)] {
        std::fs::write(to.join(file), content.to_string())?;
    }
    let path = from.join("ports.csv.gz");
    let input = File::open(&path).with_context(|| format!("read {}", path.display()))?;
    let mut lines = BufReader::new(MultiGzDecoder::new(input)).lines();
    let head = lines.next().context("ports.csv.gz is empty")??;
    let names: Vec<&str> = head.split(',').collect();
    let place = |name: &str| names.iter().position(|n| *n == name).with_context(|| format!("no column {name}"));
    let [tick, node, port, speed] = [place("tick_ns")?, place("node")?, place("port")?, place("speed_gbps")?];
    let plain = |name: &str| !(mode.infiniband && ETHERNET.iter().any(|e| name.contains(e)));
    let kept: Vec<usize> = (0..names.len()).filter(|at| plain(names[*at])).collect();
    let paused: Vec<usize> = (0..names.len()).filter(|at| names[*at].starts_with("rx_pause_ns")).collect();
    let order = mode.renamed.then_some([tick, node, port]);
    let extra = if mode.infiniband { ",xmit_wait_bytes" } else { "" };
    let mut output = RowWriter::create(&to.join("ports.csv.gz"), &names, kept, extra, order)?;
    let hosts: HashSet<&str> = truth.hosts.iter().map(String::as_str).collect();
    let faulty = truth.nodes();
    let mut rates: HashMap<(String, String), f64> = HashMap::new();
    let (mut ticks, mut last, mut rows) = (0, String::new(), 0);
    let mut broken = mode.defect.and_then(|defect| BrokenHost::new(defect, &truth.hosts, &faulty));
    let mut phases = mode.phases.then(Phases::default);
    for line in lines {
        let line = line?;
        let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
        if cells[tick] != last {
            ticks += 1;
            last.clone_from(&cells[tick]);
        }
        if let Some(phases) = &mut phases
            && !phases.change(&names, &mut cells, [tick, node, port])
        {
            continue;
        }
        rows += 1;
        let is_host = hosts.contains(cells[node].as_str());
        let gone = mode.missing && is_host && is_missing(&cells[node]) && !faulty.contains(&cells[node]);
        if (ticks - 1) % mode.every != 0 || (mode.hosts_only && !is_host) || gone {
            continue;
        }
        if let Some(broken) = &mut broken {
            broken.change(&names, &mut cells, node, ticks - 1, truth.tick_ns)?;
        }
        // Bytes per nanosecond at the first rate of the port: a counter must not fall when a link gets slower.
        let first = || cells[speed].parse::<f64>().unwrap_or(0.0) / 8.0;
        let rate = *rates.entry((cells[node].clone(), cells[port].clone())).or_insert_with(first);
        let wait = paused.iter().filter_map(|at| cells[*at].parse::<f64>().ok()).fold(0.0, f64::max) * rate;
        let extra = if mode.infiniband { format!(",{wait:.0}") } else { String::new() };
        if mode.skew_ns > 0 {
            // The clock of every other node is late.
            let late = cells[node].bytes().last().is_some_and(|b| b % 2 == 1);
            let shifted = cells[tick].parse::<i64>()? + if late { mode.skew_ns / truth.stretch } else { 0 };
            cells[tick] = shifted.to_string();
        }
        scale::change(&names, &mut cells, mode.faster);
        if mode.renamed {
            cells[port] = renaming.renamed("p", &cells[port], &cells[node]);
            cells[node] = renaming.renamed("n", &cells[node], "");
        }
        output.write(&cells, &extra)?;
    }
    output.finish()?;
    Ok(Prepared { port_seconds: rows as f64 * truth.tick_ns as f64 / 1e9, renaming })
}
