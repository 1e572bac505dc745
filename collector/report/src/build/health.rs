//! Problems at the job's ports: errors, links and PCIe below their maximum speed, and settings that differ between
//! hosts of the job.

use super::ReportContext;
use super::ports::{Counter, Port, sum};
use super::settings;
use crate::model::{Finding, Health, Severity, Unit};
use fabriclens_model::Labels;
use fabriclens_promql::QueryError;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Maximum number of listed findings.
const LISTED: usize = 60;
/// Maximum number of ports that a finding names.
const NAMED: usize = 6;

/// An error counter that should not increase.
struct Fault {
    counter: Counter,
    /// Minimum count for a finding.
    least: f64,
    severity: Severity,
    text: fn(f64) -> String,
    action: &'static str,
}

const FAULTS: [Fault; 4] = [
    Fault {
        counter: Counter::Downs,
        least: 1.0,
        severity: Severity::Critical,
        text: |n| format!("the link went down {n:.0} times"),
        action: "check cable, transceiver and switch port",
    },
    Fault {
        counter: Counter::LinkErrors,
        least: 10.0,
        severity: Severity::Warning,
        text: |n| format!("{n:.0} link errors: frames arrive corrupted"),
        action: "clean or replace cable and transceiver; compare the optical power at both ends",
    },
    Fault {
        counter: Counter::Uncorrectable,
        least: 1.0,
        severity: Severity::Warning,
        text: |n| format!("{n:.0} blocks that forward error correction could not correct"),
        action: "clean or replace cable and transceiver",
    },
    Fault {
        counter: Counter::Discards,
        least: 1.0,
        severity: Severity::Warning,
        text: |n| format!("{n:.0} packets dropped at the port"),
        action: "on RoCE: check that PFC and ECN are enabled for the RDMA priority on host and switch",
    },
];

/// A speed and its possible maximum.
struct SpeedCheck {
    now: &'static str,
    best: &'static str,
    text: &'static str,
    action: &'static str,
}

const SPEED_CHECKS: [SpeedCheck; 2] = [
    SpeedCheck {
        now: "fabric_port_rate_bytes_per_second",
        best: "fabric_port_rate_max_bytes_per_second",
        text: "the link runs below the maximum speed of the port",
        action: "check the cable and the speed of the switch port",
    },
    SpeedCheck {
        now: "fabric_pcie_rate_bytes_per_second",
        best: "fabric_pcie_rate_max_bytes_per_second",
        text: "PCIe runs below the maximum speed of both ends",
        action: "reseat the adapter; check slot, riser and BIOS settings",
    },
];

/// Settings that should be equal on all ports of a job, with their names in findings.
const SETTINGS: [(&str, &str); 9] = [
    ("fabric_pfc_enabled", "PFC"),
    ("fabric_ecn_enabled", "ECN"),
    ("fabric_dcb_trust", "the trusted priority field"),
    ("fabric_dcb_app_priority", "DSCP to priority"),
    ("fabric_roce_tos", "the RoCE type of service"),
    ("fabric_ecn_setting", "the congestion notification setting"),
    ("fabric_port_mtu_bytes", "the RDMA MTU"),
    ("fabric_port_rate_bytes_per_second", "the link speed"),
    ("fabric_pcie_rate_bytes_per_second", "the PCIe speed"),
];

pub(super) fn health(context: &ReportContext<'_>) -> Result<Health, QueryError> {
    let devices = context.ports.iter().map(|p| (p.host.as_str(), p.device.as_str())).collect();
    let mut findings = Vec::new();
    for port in &context.ports {
        for fault in &FAULTS {
            if let Some(n) = port.total(fault.counter).filter(|n| *n >= fault.least) {
                findings.push(found(fault.severity, port.name(), (fault.text)(n), fault.action));
            }
        }
    }
    for check in &SPEED_CHECKS {
        findings.extend(slow(context, &devices, check)?);
    }
    for (metric, setting) in SETTINGS {
        findings.extend(differing(context, &devices, metric, setting)?);
    }
    findings.extend(settings::settings(context)?);
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.place.cmp(&b.place)));
    findings.truncate(LISTED);
    let ports = &context.ports;
    let all = |counter| sum(Unit::Count, ports, counter);
    Ok(Health {
        findings,
        link_errors: all(Counter::LinkErrors),
        link_downs: all(Counter::Downs),
        discards: all(Counter::Discards),
        uncorrectable: all(Counter::Uncorrectable),
        retransmits: all(Counter::Retransmits),
    })
}

fn found(severity: Severity, place: String, text: String, action: &str) -> Finding {
    Finding { severity, place, text, action: action.to_owned() }
}

/// Port name of a series, such as `gpu-07 mlx5_3`.
fn place(labels: &Labels) -> String {
    let port = Port {
        host: labels.get("host").into(),
        device: labels.get("device").into(),
        port: labels.get("port").into(),
        rail: String::new(),
        on_rail: false,
        grade: crate::model::Grade::Shared,
        rate: None,
        gap_ms: 0,
        counted: Default::default(),
    };
    port.name()
}

/// Host and device of the job's ports.
type Devices<'a> = HashSet<(&'a str, &'a str)>;

/// Whether a series belongs to a device of the job.
fn own(devices: &Devices<'_>, labels: &Labels) -> bool {
    devices.contains(&(labels.get("host"), labels.get("device")))
}

fn slow(context: &ReportContext<'_>, devices: &Devices<'_>, check: &SpeedCheck) -> Result<Vec<Finding>, QueryError> {
    let at = context.source.end_ms;
    let best = context.source.at(&context.source.selector(check.best, ""), at)?;
    let best: BTreeMap<String, f64> = best.iter().map(|s| (place(&s.labels), s.value)).collect();
    let mut now = context.source.at(&context.source.selector(check.now, ""), at)?;
    now.retain(|s| own(devices, &s.labels));
    let finding = |s: &fabriclens_promql::Sample| {
        let best = *best.get(&place(&s.labels))?;
        // Line encodings round speeds by less than 5 %.
        (s.value < 0.95 * best).then(|| {
            let text = format!("{}: {:.0} of {:.0} Gb/s", check.text, s.value * 8e-9, best * 8e-9);
            found(Severity::Warning, place(&s.labels), text, check.action)
        })
    };
    Ok(now.iter().filter_map(finding).collect())
}

/// Ports whose setting differs from that of most ports of the job.
fn differing(
    context: &ReportContext<'_>,
    devices: &Devices<'_>,
    metric: &str,
    setting: &str,
) -> Result<Vec<Finding>, QueryError> {
    let samples = context.source.at(&context.source.selector(metric, ""), context.source.end_ms)?;
    // By further labels (such as the priority), then by value: the ports with that value.
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
            let text = format!("{setting}{of} is {value} here and {usual} at {many} other ports of this job");
            findings.push(found(Severity::Warning, named.join(", "), text, "configure all hosts of the job alike"));
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
