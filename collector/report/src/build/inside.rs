//! What is wrong inside the hosts at the end of the job: GPUs with fewer PCIe lanes, adapters that do not reach GPU memory,
//! NVLinks that are down, GPUs whose nearest adapter is farther than that of the others or carried nothing.

use super::ReportContext;
use super::ports::Counter;
use crate::model::{Finding, Grade, Inside, Severity};
use fabriclens_model::Labels;
use fabriclens_promql::QueryError;
use std::collections::{BTreeMap, HashSet};

/// Maximum number of listed findings.
const LISTED: usize = 60;
/// An adapter carried nothing if it carried less than this share of the median of those that are near to other GPUs.
const NOTHING: f64 = 0.01;
/// Distances in NVML's numbers, and their names.
const DISTANCES: [(f64, &str); 5] = [(10.0, "PIX"), (20.0, "PXB"), (30.0, "PHB"), (40.0, "NODE"), (50.0, "SYS")];

/// A GPU: host and index.
type Gpu = (String, String);
/// An adapter: host and device.
type Adapter = (String, String);

pub(super) fn inside(context: &ReportContext<'_>) -> Result<Inside, QueryError> {
    let gpus = by_gpu(context, "fabric_gpu_info")?.len();
    if gpus == 0 {
        return Ok(Inside::default());
    }
    let mut findings = lanes(context)?;
    findings.extend(states(context)?);
    findings.extend(links_down(context)?);
    findings.extend(unreachable(context)?);
    let near = nearest(context)?;
    findings.extend(far(&near));
    findings.extend(idle(context, &near));
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.place.cmp(&b.place)));
    findings.truncate(LISTED);
    Ok(Inside { gpus, findings })
}

fn finding(severity: Severity, place: String, text: String, action: &str) -> Finding {
    Finding { severity, place, text, action: action.to_owned() }
}

fn name((host, gpu): &Gpu) -> String {
    format!("{host} GPU {gpu}")
}

fn gpu(labels: &Labels) -> Gpu {
    (labels.get("host").to_owned(), labels.get("gpu").to_owned())
}

fn at_end(context: &ReportContext<'_>, metric: &str) -> Result<Vec<(Labels, f64)>, QueryError> {
    let samples = context.source.at(&context.source.selector(metric, ""), context.source.end_ms)?;
    Ok(samples.into_iter().map(|sample| (sample.labels, sample.value)).collect())
}

fn by_gpu(context: &ReportContext<'_>, metric: &str) -> Result<BTreeMap<Gpu, f64>, QueryError> {
    Ok(at_end(context, metric)?.into_iter().map(|(labels, value)| (gpu(&labels), value)).collect())
}

/// GPUs with fewer PCIe lanes than they can have. Their speed says nothing: an idle GPU lowers it.
fn lanes(context: &ReportContext<'_>) -> Result<Vec<Finding>, QueryError> {
    let best = by_gpu(context, "fabric_gpu_pcie_width_max")?;
    let now = by_gpu(context, "fabric_gpu_pcie_width")?;
    let of = |(gpu, lanes): (&Gpu, &f64)| {
        let best = best.get(gpu).filter(|best| *lanes < **best)?;
        let text = format!("its PCIe link has {lanes:.0} of {best:.0} lanes");
        Some(finding(Severity::Warning, name(gpu), text, "reseat the GPU; check slot, riser and BIOS settings"))
    };
    Ok(now.iter().filter_map(of).collect())
}

/// GPUs that the driver has lost, and GPUs whose NVLink domain is not healthy.
fn states(context: &ReportContext<'_>) -> Result<Vec<Finding>, QueryError> {
    let mut findings = Vec::new();
    for (gpu, _) in by_gpu(context, "fabric_gpu_lost")?.iter().filter(|(_, lost)| **lost > 0.0) {
        let text = "the driver has lost it".to_owned();
        findings.push(finding(Severity::Critical, name(gpu), text, "look for Xid in the kernel log; restart the host"));
    }
    for (gpu, health) in by_gpu(context, "fabric_nvlink_domain_health")?.iter().filter(|(_, health)| **health > 1.0) {
        let is = if *health > 2.0 { "has limited capacity" } else { "is not healthy" };
        let action = "see fabric_nvlink_domain_problem; check the fabric manager";
        findings.push(finding(Severity::Warning, name(gpu), format!("its NVLink domain {is}"), action));
    }
    Ok(findings)
}

fn links_down(context: &ReportContext<'_>) -> Result<Vec<Finding>, QueryError> {
    let mut down: BTreeMap<Gpu, Vec<String>> = BTreeMap::new();
    for (labels, _) in at_end(context, "fabric_nvlink_down")?.iter().filter(|(_, value)| *value > 0.0) {
        down.entry(gpu(labels)).or_default().push(labels.get("link").to_owned());
    }
    let of = |(gpu, mut links): (Gpu, Vec<String>)| {
        links.sort_by_key(|link| link.parse::<u32>().unwrap_or(u32::MAX));
        let text = format!("NVLinks that were active are down: {}", links.join(", "));
        finding(
            Severity::Critical,
            name(&gpu),
            text,
            "look for NVLink errors in the kernel log; check the fabric manager",
        )
    };
    Ok(down.into_iter().map(of).collect())
}

/// Adapters of the job that reach no GPU memory.
fn unreachable(context: &ReportContext<'_>) -> Result<Vec<Finding>, QueryError> {
    let own: HashSet<(&str, &str)> = context.ports.iter().map(|p| (p.host.as_str(), p.device.as_str())).collect();
    let mut methods: BTreeMap<Adapter, f64> = BTreeMap::new();
    for (labels, value) in at_end(context, "fabric_gpudirect_available")? {
        let (host, device) = (labels.get("host"), labels.get("device"));
        if own.contains(&(host, device)) {
            let best = methods.entry((host.to_owned(), device.to_owned())).or_default();
            *best = best.max(value);
        }
    }
    let of = |((host, device), _): (Adapter, f64)| {
        let text = "it does not reach GPU memory (GPUDirect RDMA): data of GPUs goes through host memory".to_owned();
        let action = "load nvidia_peermem, or use NVIDIA's open kernel module and a driver with dma-buf";
        finding(Severity::Warning, format!("{host} {device}"), text, action)
    };
    Ok(methods.into_iter().filter(|(_, best)| *best == 0.0).map(of).collect())
}

/// The adapter that each GPU should use, and its distance.
fn nearest(context: &ReportContext<'_>) -> Result<BTreeMap<Gpu, (String, f64)>, QueryError> {
    let pair = |labels: &Labels| (gpu(labels), labels.get("device").to_owned());
    let distances: BTreeMap<(Gpu, String), f64> = at_end(context, "fabric_gpu_nic_distance")?
        .iter()
        .map(|(labels, distance)| (pair(labels), *distance))
        .collect();
    let chosen = at_end(context, "fabric_gpu_nic_nearest")?;
    let of = |(labels, _): &(Labels, f64)| {
        let (gpu, device) = pair(labels);
        let distance = *distances.get(&(gpu.clone(), device.clone()))?;
        Some((gpu, (device, distance)))
    };
    Ok(chosen.iter().filter_map(of).collect())
}

/// GPUs whose nearest adapter is farther than that of most GPUs of the job.
fn far(near: &BTreeMap<Gpu, (String, f64)>) -> Vec<Finding> {
    let word = |distance: f64| DISTANCES.iter().find(|(number, _)| *number == distance).map_or("?", |(_, word)| *word);
    let mut count: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for (_, distance) in near.values() {
        let entry = count.entry(word(*distance)).or_insert((0, *distance));
        entry.0 += 1;
    }
    let Some((usual, (many, least))) = count.iter().max_by_key(|(_, (many, _))| *many) else { return Vec::new() };
    if *many * 2 <= near.len() {
        return Vec::new();
    }
    let of = |(gpu, (device, distance)): (&Gpu, &(String, f64))| {
        let text = format!(
            "its nearest adapter {device} is {} away, and that of {many} other GPUs of this job {usual}",
            word(*distance)
        );
        let action =
            "check in which slots GPU and adapter are: `lspci -t` of a host that is right shows the difference";
        (distance > least).then(|| finding(Severity::Warning, name(gpu), text, action))
    };
    near.iter().filter_map(of).collect()
}

/// GPUs whose nearest adapter carried nothing, while those of other GPUs of the host did. Only on hosts of the job alone.
fn idle(context: &ReportContext<'_>, near: &BTreeMap<Gpu, (String, f64)>) -> Vec<Finding> {
    let mut carried: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for port in context.ports.iter().filter(|port| port.grade == Grade::Exclusive) {
        if let (Some(sent), Some(received)) = (port.total(Counter::Sent), port.total(Counter::Received)) {
            *carried.entry((&port.host, &port.device)).or_default() += sent + received;
        }
    }
    let of = |(gpu, (device, _)): (&Gpu, &(String, f64))| {
        let is = *carried.get(&(gpu.0.as_str(), device.as_str()))?;
        let others = near.iter().filter(|(other, (theirs, _))| other.0 == gpu.0 && theirs != device);
        let mut others: Vec<f64> = others
            .filter_map(|(other, (theirs, _))| carried.get(&(other.0.as_str(), theirs.as_str())).copied())
            .collect();
        others.sort_by(f64::total_cmp);
        let usual = others.get(others.len() / 2).copied().filter(|bytes| *bytes > 1e9)?;
        let text = format!(
            "its nearest adapter {device} carried nothing; if the GPU took part, its data went through one that is farther"
        );
        let action = "check which adapters the library uses (NCCL_IB_HCA), and in which order";
        (is < NOTHING * usual).then(|| finding(Severity::Info, name(gpu), text, action))
    };
    near.iter().filter_map(of).collect()
}
