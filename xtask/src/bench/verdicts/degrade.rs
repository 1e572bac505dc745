//! Copies a simulation with degraded input: ports, samples or cables left out, clocks apart, counters broken.

use super::ground_truth::{self, Truth};
use super::modes::Mode;
use super::renaming::{self, Renaming};
use super::row::{Columns, Row, RowChange};
use super::row_writer::RowWriter;
use super::{broken_counters, infiniband, left_out, phases, scale};
use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;
use serde_json::Value;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

/// What a degraded copy is.
pub struct Prepared {
    /// Number of ports times the observed seconds, before anything was left out.
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
    let renaming = write_topology_and_jobs(from, to, mode)?;
    let path = from.join("ports.csv.gz");
    let input = File::open(&path).with_context(|| format!("read {}", path.display()))?;
    let mut lines = BufReader::new(MultiGzDecoder::new(input)).lines();
    let mut head = lines.next().context("ports.csv.gz is empty")??;
    if mode.infiniband {
        head += &format!(",{}", infiniband::WAIT);
    }
    let columns = Columns::parse(&head)?;
    let kept = columns.places(|name| !mode.infiniband || infiniband::has(name));
    let mut output = RowWriter::create(&to.join("ports.csv.gz"), &columns, kept, mode.renamed)?;
    let mut changes = changes(mode, &columns, truth);
    for file in mode.routes {
        std::fs::copy(from.join(file), to.join(file)).with_context(|| format!("copy {file}"))?;
    }
    let (interval_ns, mut first_ns, mut rows) = (truth.tick_ns / truth.stretch, None, 0);
    for line in lines {
        let mut cells: Vec<String> = line?.split(',').map(str::to_owned).collect();
        cells.resize(columns.names.len(), String::new());
        let tick_ns: i64 = cells[columns.tick].parse().context("a tick_ns is no number")?;
        let since_ns = (tick_ns - *first_ns.get_or_insert(tick_ns)).max(0);
        // By time, because rows may be in the order of ports, and samples may be missing or a little early.
        let instant = ((since_ns + interval_ns / 2) / interval_ns) as usize;
        rows += 1;
        let mut row = Row { columns: &columns, cells, instant };
        let mut kept = true;
        for change in &mut changes {
            kept = kept && change(&mut row)?;
        }
        if kept {
            output.write(&row)?;
        }
    }
    output.finish()?;
    Ok(Prepared { port_seconds: f64::from(rows) * truth.tick_ns as f64 / 1e9, renaming })
}

fn write_topology_and_jobs(from: &Path, to: &Path, mode: &Mode) -> Result<Renaming> {
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
    Ok(renaming)
}

/// What a mode does to each row, in this order.
fn changes(mode: &Mode, columns: &Columns, truth: &Truth) -> Vec<RowChange> {
    let hosts = || -> HashSet<String> { truth.hosts.iter().cloned().collect() };
    let broken = mode.defect.and_then(|defect| broken_counters::broken_host(defect, truth));
    [
        mode.phases.then(phases::own_phases),
        (mode.every > 1).then(|| left_out::each(mode.every)),
        (mode.switches_every > 1).then(|| left_out::switches_each(mode.switches_every, hosts())),
        mode.hosts_only.then(|| left_out::switches(hosts())),
        mode.half_of_switches.then(|| left_out::half_of_switches(hosts())),
        mode.missing.then(|| left_out::quarter_of_hosts(hosts(), truth.nodes())),
        broken,
        mode.infiniband.then(|| infiniband::waits(columns)),
        (mode.skew_ns > 0).then(|| left_out::late_clocks(mode.skew_ns / truth.stretch)),
        (mode.faster != 1.0).then(|| scale::faster(columns, mode.faster)),
        mode.renamed.then(renaming::other_names),
    ]
    .into_iter()
    .flatten()
    .collect()
}
