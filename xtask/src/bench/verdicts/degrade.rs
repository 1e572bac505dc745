//! Copies a simulation with degraded input: ports, samples or cables left out, clocks apart, counters broken.

use super::broken_counters::{BrokenHost, Defect};
use super::ground_truth::Truth;
use super::phases::Phases;
use anyhow::{Context, Result};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
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
    pub const MAIN: [Self; 4] = [
        Self::ALL_PORTS,
        Self { phases: true, ..mode("own phases and periods") },
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
        unwired: false,
        unrelated: false,
        defect: None,
    }
}

/// 200 ms.
const SKEW_NS: i64 = 200_000_000;

/// All modes.
pub const ALL: [Mode; 19] = [
    Mode::ALL_PORTS,
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

/// Writes the degraded copy; gives the number of ports times the observed seconds.
///
/// # Errors
/// When a file cannot be read or written.
pub fn prepare(from: &Path, to: &Path, mode: &Mode, truth: &Truth) -> Result<f64> {
    std::fs::create_dir_all(to).with_context(|| format!("create {}", to.display()))?;
    for file in ["topology.json", "jobs.json"] {
        std::fs::copy(from.join(file), to.join(file)).with_context(|| format!("copy {file} of {}", from.display()))?;
    }
    if mode.unwired {
        let path = to.join("topology.json");
        let mut topology: serde_json::Value = serde_json::from_slice(&std::fs::read(&path)?)?;
        topology["links"] = serde_json::json!([]);
        std::fs::write(path, topology.to_string())?;
    }
    let path = from.join("ports.csv.gz");
    let input = File::open(&path).with_context(|| format!("read {}", path.display()))?;
    let mut lines = BufReader::new(MultiGzDecoder::new(input)).lines();
    let mut output = GzEncoder::new(File::create(to.join("ports.csv.gz"))?, Compression::fast());
    let head = lines.next().context("ports.csv.gz is empty")??;
    let names: Vec<&str> = head.split(',').collect();
    let place = |name: &str| names.iter().position(|n| *n == name).with_context(|| format!("no column {name}"));
    let [tick, node, port, speed] = [place("tick_ns")?, place("node")?, place("port")?, place("speed_gbps")?];
    let plain = |name: &str| !(mode.infiniband && ETHERNET.iter().any(|e| name.contains(e)));
    let kept: Vec<usize> = (0..names.len()).filter(|at| plain(names[*at])).collect();
    let paused: Vec<usize> = (0..names.len()).filter(|at| names[*at].starts_with("rx_pause_ns")).collect();
    let extra = if mode.infiniband { ",xmit_wait_bytes" } else { "" };
    writeln!(output, "{}{extra}", kept.iter().map(|at| names[*at]).collect::<Vec<_>>().join(","))?;
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
        if mode.skew_ns > 0 {
            // The clock of every other node is late.
            let late = cells[node].bytes().last().is_some_and(|b| b % 2 == 1);
            let shifted = cells[tick].parse::<i64>()? + if late { mode.skew_ns / truth.stretch } else { 0 };
            cells[tick] = shifted.to_string();
        }
        let wait = paused.iter().filter_map(|at| cells[*at].parse::<f64>().ok()).fold(0.0, f64::max) * rate;
        let extra = if mode.infiniband { format!(",{wait:.0}") } else { String::new() };
        writeln!(output, "{}{extra}", kept.iter().map(|at| cells[*at].as_str()).collect::<Vec<_>>().join(","))?;
    }
    output.finish()?;
    Ok(rows as f64 * truth.tick_ns as f64 / 1e9)
}
