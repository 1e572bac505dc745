//! What is not as it should be at the job's ports: errors, links and PCIe below what they can do, settings that differ
//! between hosts of one job.

use super::Scene;
use super::ports::{Port, What, sum};
use crate::model::{Finding, Health, Severity, Unit};
use fabriclens_model::Labels;
use fabriclens_promql::QueryError;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Findings that are listed.
const LISTED: usize = 60;
/// Places that a finding names.
const NAMED: usize = 6;

/// A counter that should stand.
struct Fault {
    what: What,
    /// From so many on.
    least: f64,
    severity: Severity,
    text: fn(f64) -> String,
    action: &'static str,
}

const FAULTS: [Fault; 4] = [
    Fault {
        what: What::Downs,
        least: 1.0,
        severity: Severity::Critical,
        text: |n| format!("the link went down {n:.0} times"),
        action: "look at cable, transceiver and switch port",
    },
    Fault {
        what: What::LinkErrors,
        least: 10.0,
        severity: Severity::Warning,
        text: |n| format!("{n:.0} link errors: frames arrive broken"),
        action: "clean or replace cable and transceiver; compare the optical power at both ends",
    },
    Fault {
        what: What::Uncorrectable,
        least: 1.0,
        severity: Severity::Warning,
        text: |n| format!("{n:.0} blocks that forward error correction could not repair"),
        action: "clean or replace cable and transceiver",
    },
    Fault {
        what: What::Discards,
        least: 1.0,
        severity: Severity::Warning,
        text: |n| format!("{n:.0} packets dropped at the port"),
        action: "on RoCE: check that PFC and ECN are on for the priority of RDMA, on host and switch",
    },
];

/// A value beside the one that it could be.
struct Below {
    now: &'static str,
    best: &'static str,
    text: &'static str,
    action: &'static str,
}

const BELOW: [Below; 2] = [
    Below {
        now: "fabric_port_rate_bytes_per_second",
        best: "fabric_port_rate_max_bytes_per_second",
        text: "the link runs below what the port can do",
        action: "look at cable, and at the speed of the switch port",
    },
    Below {
        now: "fabric_pcie_rate_bytes_per_second",
        best: "fabric_pcie_rate_max_bytes_per_second",
        text: "PCIe runs below what both ends can do",
        action: "reseat the adapter; look at slot, riser and BIOS settings",
    },
];

/// Settings that all ports of a job should agree on.
const SETTINGS: [(&str, &str); 9] = [
    ("fabric_pfc_enabled", "PFC"),
    ("fabric_ecn_enabled", "ECN"),
    ("fabric_dcb_trust", "the field that gives the priority"),
    ("fabric_dcb_app_priority", "DSCP to priority"),
    ("fabric_roce_tos", "the type of service of RoCE"),
    ("fabric_ecn_setting", "the setting of congestion notification"),
    ("fabric_port_mtu_bytes", "the MTU of RDMA"),
    ("fabric_port_rate_bytes_per_second", "the speed of the link"),
    ("fabric_pcie_rate_bytes_per_second", "the speed of PCIe"),
];

pub(super) fn health(scene: &Scene<'_>) -> Result<Health, QueryError> {
    let devices = scene.ports.iter().map(|p| (p.host.as_str(), p.device.as_str())).collect();
    let mut findings = Vec::new();
    for port in &scene.ports {
        for fault in &FAULTS {
            if let Some(n) = port.total(fault.what).filter(|n| *n >= fault.least) {
                findings.push(found(fault.severity, port.name(), (fault.text)(n), fault.action));
            }
        }
    }
    for below in &BELOW {
        findings.extend(slow(scene, &devices, below)?);
    }
    for (metric, what) in SETTINGS {
        findings.extend(differing(scene, &devices, metric, what)?);
    }
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.place.cmp(&b.place)));
    findings.truncate(LISTED);
    let ports = &scene.ports;
    let all = |what| sum(Unit::Count, ports, what);
    Ok(Health {
        findings,
        link_errors: all(What::LinkErrors),
        link_downs: all(What::Downs),
        discards: all(What::Discards),
        uncorrectable: all(What::Uncorrectable),
        retransmits: all(What::Retransmits),
    })
}

fn found(severity: Severity, place: String, text: String, action: &str) -> Finding {
    Finding { severity, place, text, action: action.to_owned() }
}

/// `gpu-07 mlx5_3` of any series.
fn place(labels: &Labels) -> String {
    let port = Port {
        host: labels.get("host").into(),
        device: labels.get("device").into(),
        port: labels.get("port").into(),
        rail: String::new(),
        on_rail: false,
        grade: crate::model::Grade::Shared,
        rate: None,
        hole_ms: 0,
        counted: Default::default(),
    };
    port.name()
}

/// The devices of the job's ports, by host.
type Devices<'a> = HashSet<(&'a str, &'a str)>;

/// Whether a series is of a device that the job has.
fn own(devices: &Devices<'_>, labels: &Labels) -> bool {
    devices.contains(&(labels.get("host"), labels.get("device")))
}

fn slow(scene: &Scene<'_>, devices: &Devices<'_>, below: &Below) -> Result<Vec<Finding>, QueryError> {
    let at = scene.source.end_ms;
    let best = scene.source.at(&scene.source.selector(below.best, ""), at)?;
    let best: BTreeMap<String, f64> = best.iter().map(|s| (place(&s.labels), s.value)).collect();
    let mut now = scene.source.at(&scene.source.selector(below.now, ""), at)?;
    now.retain(|s| own(devices, &s.labels));
    let finding = |s: &fabriclens_promql::Sample| {
        let best = *best.get(&place(&s.labels))?;
        // Within the rounding of line codes.
        (s.value < 0.95 * best).then(|| {
            let text = format!("{}: {:.0} of {:.0} Gb/s", below.text, s.value * 8e-9, best * 8e-9);
            found(Severity::Warning, place(&s.labels), text, below.action)
        })
    };
    Ok(now.iter().filter_map(finding).collect())
}

/// Where ports of one job have another setting than most of them.
fn differing(scene: &Scene<'_>, devices: &Devices<'_>, metric: &str, what: &str) -> Result<Vec<Finding>, QueryError> {
    let samples = scene.source.at(&scene.source.selector(metric, ""), scene.source.end_ms)?;
    // By what is set (priority and the like), then by value: the places that have it.
    let mut set: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for s in samples.iter().filter(|s| own(devices, &s.labels)) {
        let identity = ["__name__", "host", "device", "port"];
        let of: Vec<String> =
            s.labels.iter().filter(|l| !identity.contains(&l.0)).map(|l| format!("{} {}", l.0, l.1)).collect();
        set.entry(of.join(", ")).or_default().entry(value(metric, s.value)).or_default().insert(place(&s.labels));
    }
    let mut findings = Vec::new();
    for (of, values) in set.iter().filter(|(_, values)| values.len() > 1) {
        let Some((usual, most)) = values.iter().max_by_key(|(_, places)| places.len()) else { continue };
        let many = most.len();
        for (value, places) in values.iter().filter(|(v, _)| *v != usual) {
            let mut named: Vec<&str> = places.iter().take(NAMED).map(String::as_str).collect();
            let more = format!("{} more", places.len().saturating_sub(NAMED));
            if places.len() > NAMED {
                named.push(&more);
            }
            let of = if of.is_empty() { String::new() } else { format!(" ({of})") };
            let text = format!("{what}{of} is {value}, and {usual} at {many} other ports of this job");
            findings.push(found(Severity::Warning, named.join(", "), text, "make all hosts of a job alike"));
        }
    }
    Ok(findings)
}

fn value(metric: &str, value: f64) -> String {
    match metric {
        m if m.ends_with("_enabled") => if value > 0.0 { "on" } else { "off" }.to_owned(),
        m if m.ends_with("_bytes_per_second") => format!("{:.0} Gb/s", value * 8e-9),
        m if m.ends_with("_bytes") => format!("{value} bytes"),
        _ => value.to_string(),
    }
}
