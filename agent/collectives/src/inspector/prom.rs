//! Prometheus form of the Inspector: means over the last 30 s, by GPU, communicator, operation and range of sizes.
//!
//! Its versions name things differently: the first one has the communicator's hash, the rank and the host (`comm_id`, `rank`,
//! `hostname`), later ones its name, the GPU and the node; and a mean is written as such, or as a sum and a count.

use super::{Observation, SizeClass, label};
use crate::model::CommunicatorId;
use crate::ras::{hexadecimal, is_operation};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most lines of a file, and longest one, bytes.
const LINES: usize = 20_000;
const LONGEST: usize = 4096;

/// Means of a file, and the number of lines that could not be read. A mean without its duration is left out.
pub fn observations(text: &str) -> (Vec<Observation>, u64) {
    let mut bandwidths: BTreeMap<String, f64> = BTreeMap::new();
    let mut counts: BTreeMap<String, f64> = BTreeMap::new();
    let (mut found, mut sums, mut lost) = (BTreeMap::new(), Vec::new(), 0);
    for line in text.lines().take(LINES).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let parsed = if line.len() > LONGEST { None } else { sample(line) };
        let Some((name, labels, value)) = parsed else {
            lost += 1;
            continue;
        };
        let own = labels.iter().filter(|(name, _)| !["version", "percentile_samples"].contains(name));
        let key = format!("{:?}", own.collect::<Vec<_>>());
        match name {
            "nccl_bus_bandwidth_gbs" | "nccl_p2p_bus_bandwidth_gbs" => _ = bandwidths.insert(key, value * 1e9),
            "nccl_collective_exec_time_microseconds" | "nccl_p2p_exec_time_microseconds" => {
                match observation(&labels, value / 1e6) {
                    Some(observation) => _ = found.insert(key, observation),
                    None => lost += 1,
                }
            }
            "nccl_collective_count" | "nccl_p2p_count" => _ = counts.insert(key, value),
            "nccl_collective_exec_time_sum_microseconds" | "nccl_p2p_exec_time_sum_microseconds" => {
                match observation(&labels, value / 1e6) {
                    Some(observation) => sums.push((key, observation)),
                    None => lost += 1,
                }
            }
            _ => {}
        }
    }
    for (key, mut sum) in sums {
        if let Some(count) = counts.get(&key).filter(|count| **count >= 1.0) {
            sum.seconds /= count;
            found.entry(key).or_insert(sum);
        }
    }
    let with = |(key, mut observation): (String, Observation)| {
        observation.bus_bandwidth = bandwidths.get(&key).copied().filter(|bandwidth| *bandwidth > 0.0);
        observation
    };
    (found.into_iter().map(with).collect(), lost)
}

type Labels<'a> = Vec<(&'a str, String)>;

fn observation(labels: &Labels<'_>, seconds: f64) -> Option<Observation> {
    let get = |name: &str| labels.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_str());
    let known = |name: &str| get(name).filter(|value| *value != "unknown").and_then(label);
    let operation = get("collective").or_else(|| get("p2p_operation")).filter(|name| is_operation(name))?;
    let hash = get("comm_id").and_then(hexadecimal);
    let communicator = match hash {
        Some(hash) => CommunicatorId { hash, secondary: 0 }.to_string().into(),
        None => label(get("comm_name")?)?,
    };
    let number = |name: &str| get(name).and_then(|text| text.parse::<u32>().ok());
    // Without a name or one of the numbers, the line may be of any number of communicators: their members are not compared.
    let most_members = || {
        let each = number("nranks").zip(number("n_nodes").filter(|nodes| *nodes > 0));
        each.filter(|_| known("comm_name").is_some()).map_or(1, |(ranks, nodes)| ranks.div_ceil(nodes))
    };
    let member = known("rank").or_else(|| known("gpu")).or_else(|| known("gpu_device_id"));
    Some(Observation {
        communicator,
        host: known("node").or_else(|| known("hostname")).unwrap_or_default(),
        pid: None,
        slurm_job: known("slurm_job_id"),
        member: member.unwrap_or_else(|| Arc::from("")),
        operation: operation.into(),
        size: SizeClass::of_range(get("message_size")?)?,
        seconds: Some(seconds).filter(|seconds| *seconds >= 0.0)?,
        bus_bandwidth: None,
        is_mean: true,
        most_members: if hash.is_some() { None } else { Some(most_members()) },
    })
}

/// Name, labels and finite value of a line.
fn sample(line: &str) -> Option<(&str, Labels<'_>, f64)> {
    let (name, rest) = line.split_once('{')?;
    let mut labels = Vec::new();
    let mut rest = rest;
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(value) = rest.strip_prefix('}') {
            let value = value.split_whitespace().next()?.parse::<f64>().ok().filter(|value| value.is_finite())?;
            return Some((name.trim(), labels, value));
        }
        let (label, after) = rest.split_once("=\"")?;
        let (mut value, mut escaped, mut end) = (String::new(), false, None);
        for (at, c) in after.char_indices() {
            match c {
                _ if escaped => {
                    value.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => {
                    end = Some(at + 1);
                    break;
                }
                c => value.push(c),
            }
        }
        labels.push((label.trim(), value));
        rest = &after[end?..];
    }
}
