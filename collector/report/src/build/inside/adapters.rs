//! GPUs and the adapters that they should use: those whose nearest adapter is farther than that of the others or carried nothing,
//! and those whose ranks use farther ones.

use super::{Gpu, at_end, finding, gpu, name};
use crate::build::ReportContext;
use crate::build::ports::Counter;
use crate::build::ranks::{Rank, Ranks};
use crate::model::{Finding, Grade, Severity};
use fabriclens_model::Labels;
use fabriclens_promql::QueryError;
use std::collections::{BTreeMap, BTreeSet};

/// An adapter counts as idle below this share of the bytes that the adapters of the host's other GPUs carried (their median).
const NOTHING: f64 = 0.01;
/// Distances in NVML's numbers, and their names.
const DISTANCES: [(f64, &str); 5] = [(10.0, "PIX"), (20.0, "PXB"), (30.0, "PHB"), (40.0, "NODE"), (50.0, "SYS")];
/// From this distance on a transfer crosses a host bridge.
const HOST_BRIDGE: f64 = 30.0;

/// What is wrong between these GPUs and their adapters.
pub(super) fn adapters(context: &ReportContext<'_>, gpus: &[Gpu]) -> Result<Vec<Finding>, QueryError> {
    let affinity = Affinity::read(context)?;
    if affinity.nearest.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = far(&affinity.nearest);
    let farther = farther(&affinity, gpus, context.ranks()?);
    let is_told = |place: &str| farther.iter().any(|finding| finding.place == place);
    found.extend(idle(context, &affinity.nearest).into_iter().filter(|finding| !is_told(&finding.place)));
    found.extend(farther);
    Ok(found)
}

/// Distances of GPUs and adapters of the same host.
struct Affinity {
    of: BTreeMap<(Gpu, String), f64>,
    /// The adapter that each GPU should use, and its distance.
    nearest: BTreeMap<Gpu, (String, f64)>,
}

impl Affinity {
    fn read(context: &ReportContext<'_>) -> Result<Self, QueryError> {
        let pair = |labels: &Labels| (gpu(labels), labels.get("device").to_owned());
        let of: BTreeMap<(Gpu, String), f64> = at_end(context, "fabric_gpu_nic_distance")?
            .iter()
            .map(|(labels, distance)| (pair(labels), *distance))
            .collect();
        let chosen = at_end(context, "fabric_gpu_nic_nearest")?;
        let near = |(labels, _): &(Labels, f64)| {
            let (gpu, device) = pair(labels);
            let distance = *of.get(&(gpu.clone(), device.clone()))?;
            Some((gpu, (device, distance)))
        };
        let nearest = chosen.iter().filter_map(near).collect();
        Ok(Self { of, nearest })
    }
}

fn word(distance: f64) -> &'static str {
    DISTANCES.iter().find(|(number, _)| *number == distance).map_or("?", |(_, word)| *word)
}

/// GPUs whose nearest adapter is farther than that of most GPUs of the job.
fn far(near: &BTreeMap<Gpu, (String, f64)>) -> Vec<Finding> {
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

/// GPUs whose rank has queue pairs, but none on an adapter that is as near as the nearest.
fn farther(affinity: &Affinity, gpus: &[Gpu], ranks: &Ranks) -> Vec<Finding> {
    let certain = certain_ranks(gpus, ranks);
    let of = |(gpu, rank): (&Gpu, &&Rank)| {
        let (nearest, least) = affinity.nearest.get(gpu)?;
        // Storage has queue pairs too, on adapters that no GPU should use.
        let is_for_gpus = |device: &&str| affinity.nearest.iter().any(|(g, (d, _))| g.0 == gpu.0 && d == device);
        let distance = |device| Some((*affinity.of.get(&(gpu.clone(), String::from(device)))?, device));
        let used: BTreeSet<&str> = ranks.devices(rank).filter(is_for_gpus).collect();
        let (used, device) = used.into_iter().filter_map(distance).min_by(|a, b| a.0.total_cmp(&b.0))?;
        if used <= *least {
            return None;
        }
        let (is, near) = (word(used), word(*least));
        let text = format!(
            "its rank {} has queue pairs on {device} ({is} away) and none on {nearest} ({near} away)",
            rank.rank
        );
        let action = "check which adapters the library may use (NCCL_IB_HCA) and the order of the job's GPUs and ranks";
        let severity = if used >= HOST_BRIDGE && *least < HOST_BRIDGE { Severity::Warning } else { Severity::Info };
        Some(finding(severity, name(gpu), text, action))
    };
    certain.iter().filter_map(of).collect()
}

/// The rank of each GPU, of hosts where ranks and GPUs are numbered alike and each process has one GPU. In a container that sees
/// some of the GPUs the library counts only these; if it names as many as the host has, it sees all.
fn certain_ranks<'a>(gpus: &[Gpu], ranks: &'a Ranks) -> BTreeMap<Gpu, &'a Rank> {
    let mut named: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut of_process: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for rank in ranks.iter().filter(|rank| !rank.gpu.is_empty()) {
        named.entry(&rank.host).or_default().insert(&rank.gpu);
        of_process.entry((&rank.host, &rank.pid)).or_default().insert(&rank.gpu);
    }
    let mut present: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (host, gpu) in gpus {
        present.entry(host).or_default().insert(gpu);
    }
    let is_certain = |rank: &&Rank| {
        let host = rank.host.as_str();
        named.get(host) == present.get(host)
            && of_process.get(&(host, rank.pid.as_str())).is_some_and(|gpus| gpus.len() == 1)
    };
    ranks.iter().filter(is_certain).map(|rank| ((rank.host.clone(), rank.gpu.clone()), rank)).collect()
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
