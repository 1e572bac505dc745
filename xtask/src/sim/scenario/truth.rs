//! The answer of a scenario, `truth.json`: the fault, its culprit, and the jobs that lose by it.
//!
//! A job is a victim if less than 0.9 of the bytes of the same run without the fault are delivered to it while the fault
//! lasts; the job that causes the fault is none.

use super::files::{TICK_NS, device, put};
use super::{CALM, FAULT, Sample, Scenario};
use crate::sim::fabric::{Fabric, Fault, Job};
use crate::sim::layout::host_name;
use crate::sim::layout::{Port, RAILS, index};
use crate::sim::switch::{leaf_name, spine_name};
use anyhow::Result;
use serde_json::{Value, json};
use std::path::Path;

/// Below this share of the fault-free bytes a job is a victim.
const VICTIM: f64 = 0.9;
/// Shares for which that is not certain.
const MARGINAL: std::ops::RangeInclusive<f64> = 0.85..=0.95;

/// Writes `truth.json`.
///
/// # Errors
/// When it cannot be written.
pub fn write(dir: &Path, scenario: &Scenario, run: &[Sample], healthy: &[Sample]) -> Result<()> {
    let jobs = Fabric::new().jobs;
    let all: Vec<Value> = jobs.iter().map(|job| share(scenario, job, run, healthy)).collect();
    let suffers = |job: &&Value| job["role"] != "culprit" && job["goodput_ratio"].as_f64().is_some_and(|r| r < VICTIM);
    let victims: Vec<&Value> = all.iter().filter(suffers).collect();
    let truth = json!({
        "scenario": scenario.name,
        "kind": scenario.name,
        "n_ticks": run.len(),
        "tick_ns": TICK_NS,
        "simulator": "xtask/src/sim",
        "fault": scenario.fault.map(|fault| described(scenario, fault)),
        "culprit": scenario.fault.map_or_else(|| json!({"type": "none"}), |fault| culprit(fault, &jobs)),
        "victims": { "jobs": victims },
        "all_jobs": all,
    });
    put(dir, "truth.json", &truth)
}

/// The NIC at which, or above which, a fault is.
fn nic(fault: Fault) -> Port {
    match fault {
        Fault::Incast { to: nic, .. }
        | Fault::Storm { nic }
        | Fault::BadLink { nic }
        | Fault::BadTrunk { below: nic, .. }
        | Fault::SlowReceiver { nic, .. }
        | Fault::SlowLink { nic, .. } => nic,
    }
}

fn described(scenario: &Scenario, fault: Fault) -> Value {
    let port = nic(fault);
    let (host, leaf) = (host_name(port.0), leaf_name(port));
    let element = match fault {
        Fault::Incast { .. } | Fault::Storm { .. } | Fault::SlowReceiver { .. } => {
            json!({"type": "host_nic", "host": host, "port": device(port), "leaf": leaf})
        }
        Fault::BadLink { .. } | Fault::SlowLink { .. } => {
            json!({"type": "link", "a": host, "a_port": device(port), "b": leaf})
        }
        Fault::BadTrunk { spine, .. } => json!({"type": "link", "a": leaf, "b": spine_name(spine)}),
    };
    let params = match fault {
        Fault::SlowReceiver { drain: share, .. } | Fault::SlowLink { rate: share, .. } => {
            json!({"share_of_line_rate": share})
        }
        Fault::Incast { .. } | Fault::Storm { .. } | Fault::BadLink { .. } | Fault::BadTrunk { .. } => json!({}),
    };
    let [start, end] = [CALM, CALM + FAULT].map(|second| second * TICK_NS);
    json!({"kind": scenario.name, "element": element, "start_ns": start, "end_ns": end, "params": params})
}

/// The job that has a host.
fn owner(jobs: &[Job], host: usize) -> Option<&'static str> {
    jobs.iter().find(|job| job.hosts.contains(&host)).map(|job| job.name)
}

fn culprit(fault: Fault, jobs: &[Job]) -> Value {
    let port = nic(fault);
    let (host, owner) = (host_name(port.0), owner(jobs, port.0));
    match fault {
        Fault::Incast { job, .. } => json!({"type": "job", "id": jobs[job].name}),
        Fault::Storm { .. } | Fault::SlowReceiver { .. } => {
            json!({"type": "device", "id": format!("{host}/{}", device(port)), "host": host, "owner_job": owner})
        }
        Fault::BadLink { .. } | Fault::SlowLink { .. } => {
            json!({"type": "link", "id": format!("{host}-{}", leaf_name(port))})
        }
        Fault::BadTrunk { spine, .. } => {
            json!({"type": "link", "id": format!("{}-{}", leaf_name(port), spine_name(spine))})
        }
    }
}

/// What a job got while the fault lasted, against the run without it.
fn share(scenario: &Scenario, job: &Job, run: &[Sample], healthy: &[Sample]) -> Value {
    let delivered = |run: &[Sample]| {
        let nics = || job.hosts.iter().flat_map(|host| (0..RAILS).map(move |rail| index((*host, rail))));
        let until = |second: usize| nics().map(|nic| run[second - 1].nics[nic].delivered).sum::<f64>();
        until(CALM + FAULT) - until(CALM)
    };
    let ratio = delivered(run) / delivered(healthy);
    let role = match scenario.fault {
        Some(Fault::Incast { job: culprit, .. }) if Fabric::new().jobs[culprit].name == job.name => "culprit",
        Some(fault) if job.hosts.contains(&nic(fault).0) => match fault {
            Fault::BadLink { .. } | Fault::BadTrunk { .. } | Fault::SlowLink { .. } => "on_path",
            Fault::Incast { .. } | Fault::Storm { .. } | Fault::SlowReceiver { .. } => "owner_of_faulty_device",
        },
        _ => "collateral",
    };
    json!({
        "job": job.name,
        "role": role,
        "goodput_ratio": (ratio * 1e4).round() / 1e4,
        "label_confidence": if MARGINAL.contains(&ratio) { "marginal" } else { "clear" },
    })
}
