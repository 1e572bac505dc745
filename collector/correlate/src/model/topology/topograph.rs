//! The output of NVIDIA's topograph with its `graph` engine: the switches above each instance, nearest first. Its other
//! engines write Slurm's formats.

use super::source::{Cable, CableEnd, FormatError, TopologySource};
use super::types::{Provenance, Role};
use serde::Deserialize;
use std::collections::HashSet;

#[derive(Deserialize)]
struct Graph {
    instances: Vec<Instance>,
}

#[derive(Deserialize)]
struct Instance {
    id: String,
    #[serde(default)]
    network_layers: Vec<String>,
}

pub(super) fn fits(text: &str) -> bool {
    text.trim_start().starts_with('{') && text.contains("\"instances\"")
}

pub(super) fn read(text: &str, out: &mut TopologySource) -> Result<(), FormatError> {
    let graph: Graph = serde_json::from_str(text).map_err(|e| (e.line(), e.to_string()))?;
    let mut told = HashSet::new();
    for (n, instance) in graph.instances.into_iter().enumerate() {
        if instance.network_layers.iter().all(String::is_empty) {
            out.complain_at(format_args!("instance {}", n + 1), format_args!("{} has no switch", instance.id));
            continue;
        }
        out.nodes.push((instance.id.clone(), Role::Host));
        let mut below = instance.id;
        for layer in instance.network_layers.into_iter().filter(|l| !l.is_empty()) {
            if told.insert((below.clone(), layer.clone())) {
                let side = |node: &str| CableEnd { node: node.to_owned(), ..CableEnd::default() };
                let sides = [side(&below), side(&layer)];
                out.cable(n + 1, Cable { sides, rate: None, rail: None, known: Provenance::Scheduler });
            }
            below = layer;
        }
    }
    Ok(())
}
