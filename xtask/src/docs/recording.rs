//! Writes a recording of the demo's fabric, a calm minute and then a pause storm, for the pages that back-test one.

use crate::sim::fabric::{Fabric, Fault};
use crate::sim::layout::host_name;
use crate::sim::layout::{HOSTS, RAILS, index};
use crate::sim::nic::Nic;
use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// Seconds before the storm, and of the whole recording.
const CALM: u64 = 60;
const LASTS: u64 = 90;
/// Simulator steps per second.
const STEPS: u64 = 10;

/// A column of `ports.csv.gz`.
type Column = (&'static str, fn(&Nic) -> f64);
const COLUMNS: &[Column] = &[
    ("tx_bytes", |n| n.tx_bytes),
    ("rx_bytes", |n| n.rx_bytes),
    ("tx_pkts", Nic::tx_packets),
    ("rx_pkts", Nic::rx_packets),
    ("np_ecn_marked_pkts", |n| n.ecn_marked),
    ("np_cnp_sent", |n| n.cnp_sent),
    ("rp_cnp_handled", |n| n.cnp_handled),
    ("tx_pfc_p3", Nic::tx_pause_frames),
    ("rx_pfc_p3", Nic::rx_pause_frames),
    ("tx_pause_ns_p3", |n| n.tx_pause_s * 1e9),
    ("rx_pause_ns_p3", |n| n.rx_pause_s * 1e9),
];

fn device(rail: usize) -> String {
    format!("mlx5_{rail}")
}

/// Writes topology (one leaf per pod and rail), jobs and one row per second and port into `dir`.
///
/// # Errors
/// When a file cannot be written.
pub fn write(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut fabric = Fabric::new();
    let leaf = |host: usize, rail: usize| format!("leaf-{}-{rail}", host / (HOSTS / 2));
    let ports = || (0..HOSTS).flat_map(|host| (0..RAILS).map(move |rail| (host, rail)));
    let id = |id: String| json!({"id": id});
    let link = |(host, rail): (usize, usize)| json!({"a": host_name(host), "a_port": device(rail), "b": leaf(host, rail), "b_port": host_name(host), "rate_gbps": 400});
    let pods = [0, HOSTS - 1].into_iter();
    let switches: Vec<Value> = pods.flat_map(|host| (0..RAILS).map(move |rail| id(leaf(host, rail)))).collect();
    let topology = json!({
        "hosts": (0..HOSTS).map(|h| id(host_name(h))).collect::<Vec<_>>(),
        "switches": switches,
        "links": ports().map(link).collect::<Vec<_>>(),
    });
    let hosts = |hosts: &[usize]| hosts.iter().map(|h| Value::from(host_name(*h))).collect::<Vec<_>>();
    let jobs: Vec<Value> = fabric.jobs.iter().map(|j| json!({"id": j.name, "hosts": hosts(&j.hosts)})).collect();
    std::fs::write(dir.join("topology.json"), topology.to_string())?;
    std::fs::write(dir.join("jobs.json"), json!({"jobs": jobs}).to_string())?;

    let mut table = GzEncoder::new(File::create(dir.join("ports.csv.gz"))?, Compression::fast());
    let names: Vec<&str> = COLUMNS.iter().map(|c| c.0).collect();
    writeln!(table, "tick_ns,node,port,{}", names.join(","))?;
    for second in 1..=LASTS {
        fabric.fault = (second > CALM).then_some(Fault::Storm { nic: (12, 2) });
        (0..STEPS).for_each(|_| fabric.step(1.0 / STEPS as f64));
        for (host, rail) in ports() {
            let nic = &fabric.nics[index((host, rail))];
            let cells: Vec<String> = COLUMNS.iter().map(|c| format!("{:.0}", c.1(nic))).collect();
            writeln!(table, "{},{},{},{}", second * 1_000_000_000, host_name(host), device(rail), cells.join(","))?;
        }
    }
    table.finish()?;
    Ok(())
}
