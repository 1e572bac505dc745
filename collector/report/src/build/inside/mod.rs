//! What is wrong inside the hosts at the end of the job: GPUs with fewer PCIe lanes, adapters that do not reach GPU memory,
//! NVLinks that are down, and adapters that are not the nearest ones (`adapters.rs`).

mod adapters;

use super::ReportContext;
use crate::model::{Finding, Inside, Severity};
use fabriclens_model::Labels;
use fabriclens_promql::QueryError;
use std::collections::{BTreeMap, HashSet};

/// Maximum number of listed findings.
const LISTED: usize = 60;

/// A GPU: host and index.
type Gpu = (String, String);
/// An adapter: host and device.
type Adapter = (String, String);

pub(super) fn inside(context: &ReportContext<'_>) -> Result<Inside, QueryError> {
    let gpus: Vec<Gpu> = by_gpu(context, "fabric_gpu_info")?.into_keys().collect();
    if gpus.is_empty() {
        return Ok(Inside::default());
    }
    let mut findings = lanes(context)?;
    findings.extend(states(context)?);
    findings.extend(links_down(context)?);
    findings.extend(unreachable(context)?);
    findings.extend(adapters::adapters(context, &gpus)?);
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.place.cmp(&b.place)));
    findings.truncate(LISTED);
    Ok(Inside { gpus: gpus.len(), findings })
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
