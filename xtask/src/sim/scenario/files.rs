//! What a tool under test may read of a scenario: `topology.json`, `jobs.json` and `ports.csv.gz`.

use super::Sample;
use crate::sim::fabric::Fabric;
use crate::sim::layout::host_name;
use crate::sim::layout::{HOSTS, LEAVES, LINE, Port, RAILS, SPINES, index, ports};
use crate::sim::nic::Nic;
use crate::sim::switch::{leaf_name, spine_name};
use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// A column of `ports.csv.gz`.
type Column = (&'static str, fn(&Nic) -> f64);
const COLUMNS: &[Column] = &[
    ("tx_bytes", |n| n.tx_bytes),
    ("tx_pkts", Nic::tx_packets),
    ("rx_bytes", |n| n.rx_bytes),
    ("rx_pkts", Nic::rx_packets),
    ("tx_pfc_p3", Nic::tx_pause_frames),
    ("rx_pfc_p3", Nic::rx_pause_frames),
    ("tx_pause_ns_p3", |n| n.tx_pause_s * 1e9),
    ("rx_pause_ns_p3", |n| n.rx_pause_s * 1e9),
    ("np_ecn_marked_pkts", |n| n.ecn_marked),
    ("np_cnp_sent", |n| n.cnp_sent),
    ("rp_cnp_handled", |n| n.cnp_handled),
    ("nack_rcvd", |n| n.packet_seq_err),
    ("out_of_seq", |n| n.out_of_sequence),
    ("rto", |n| n.ack_timeouts),
    ("rx_crc_err", |n| n.crc_errors),
];

/// Nanoseconds between two samples.
pub const TICK_NS: usize = 1_000_000_000;

/// Line rate in Gb/s.
fn line_gbps() -> f64 {
    LINE * 8e-9
}

/// Port of a NIC at its host.
pub fn device((_, rail): Port) -> String {
    format!("mlx5_{rail}")
}

/// Writes the three files.
///
/// # Errors
/// When a file cannot be written.
pub fn write(dir: &Path, run: &[Sample]) -> Result<()> {
    put(dir, "topology.json", &topology())?;
    let hosts = |hosts: &[usize]| hosts.iter().map(|host| host_name(*host)).collect::<Vec<_>>();
    let jobs: Vec<Value> = Fabric::new().jobs.iter().map(|j| json!({"id": j.name, "hosts": hosts(&j.hosts)})).collect();
    put(dir, "jobs.json", &json!({ "jobs": jobs }))?;
    let path = dir.join("ports.csv.gz");
    table(&path, run).with_context(|| format!("write {}", path.display()))
}

/// Writes a JSON file.
///
/// # Errors
/// When it cannot be written.
pub fn put(dir: &Path, name: &str, value: &Value) -> Result<()> {
    let path = dir.join(name);
    std::fs::write(&path, format!("{value:#}\n")).with_context(|| format!("write {}", path.display()))
}

/// Hosts, switches and links.
fn topology() -> Value {
    let rate = line_gbps();
    let leaves: Vec<String> = ports().filter(|(host, _)| host % (HOSTS * RAILS / LEAVES) == 0).map(leaf_name).collect();
    let spines: Vec<String> = (0..SPINES).map(spine_name).collect();
    let down = ports().map(|port| {
        json!({"a": host_name(port.0), "a_port": device(port), "b": leaf_name(port), "b_port": host_name(port.0),
            "rate_gbps": rate})
    });
    let up = leaves.iter().flat_map(|leaf| {
        spines
            .iter()
            .map(move |spine| json!({"a": leaf, "a_port": spine, "b": spine, "b_port": leaf, "rate_gbps": rate}))
    });
    json!({
        "hosts": (0..HOSTS).map(|host| json!({"id": host_name(host)})).collect::<Vec<_>>(),
        "switches": leaves.iter().chain(&spines).map(|name| json!({"id": name})).collect::<Vec<_>>(),
        "links": down.chain(up).collect::<Vec<_>>(),
    })
}

fn table(path: &Path, run: &[Sample]) -> Result<()> {
    let mut table = GzEncoder::new(File::create(path)?, Compression::best());
    let names: Vec<&str> = COLUMNS.iter().map(|c| c.0).collect();
    writeln!(table, "tick_ns,node,port,{},speed_gbps", names.join(","))?;
    for (second, sample) in run.iter().enumerate() {
        for port in ports() {
            let cells: Vec<String> = COLUMNS.iter().map(|c| format!("{:.0}", c.1(&sample.nics[index(port)]))).collect();
            writeln!(
                table,
                "{},{},{},{},{:.0}",
                (second + 1) * TICK_NS,
                host_name(port.0),
                device(port),
                cells.join(","),
                sample.rates[index(port)] * line_gbps()
            )?;
        }
    }
    table.finish()?;
    Ok(())
}
