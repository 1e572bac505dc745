//! `topology.json` and `jobs.json`.

use super::RecordingError;
use crate::topology::{End, Link, Node, Role, Topology};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;

/// A node id or a port, given as number or text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Number(u64),
    Text(String),
}

impl Id {
    fn text(self) -> String {
        match self {
            Self::Number(n) => n.to_string(),
            Self::Text(t) => t,
        }
    }
}

#[derive(Deserialize)]
struct TopologyFile {
    hosts: Vec<HostRow>,
    switches: Vec<SwitchRow>,
    links: Vec<LinkRow>,
}

#[derive(Deserialize)]
struct HostRow {
    #[serde(alias = "node")]
    id: Id,
}

#[derive(Deserialize)]
struct SwitchRow {
    #[serde(alias = "node")]
    id: Id,
}

#[derive(Deserialize)]
struct LinkRow {
    a: Id,
    a_port: Id,
    b: Id,
    b_port: Id,
    rate_gbps: Option<f64>,
}

#[derive(Deserialize)]
struct JobsFile {
    jobs: Vec<JobRow>,
}

#[derive(Deserialize)]
struct JobRow {
    id: Id,
    hosts: Vec<Id>,
}

fn json<T: serde::de::DeserializeOwned>(dir: &Path, name: &str) -> Result<T, RecordingError> {
    let path = dir.join(name);
    let shown = path.display().to_string();
    let text = std::fs::read(&path).map_err(|error| RecordingError::Read { path: shown.clone(), error })?;
    serde_json::from_slice(&text).map_err(|error| RecordingError::Json { path: shown, error })
}

/// The fabric. A switch with a host on one of its ports is a leaf, whatever it is called.
pub(super) fn topology(dir: &Path) -> Result<Topology, RecordingError> {
    let file: TopologyFile = json(dir, "topology.json")?;
    let mut nodes: Vec<Node> = file.hosts.into_iter().map(|h| Node { name: h.id.text(), role: Role::Host }).collect();
    nodes.extend(file.switches.into_iter().map(|s| Node { name: s.id.text(), role: Role::Spine }));
    let index: HashMap<String, usize> = nodes.iter().enumerate().map(|(i, n)| (n.name.clone(), i)).collect();
    let mut links = Vec::new();
    for row in file.links {
        let (a, b) = (row.a.text(), row.b.text());
        let (Some(a), Some(b)) = (index.get(&a), index.get(&b)) else { continue };
        for (near, far) in [(*a, *b), (*b, *a)] {
            if nodes[near].role == Role::Host && nodes[far].role == Role::Spine {
                nodes[far].role = Role::Leaf;
            }
        }
        let ends = [End { node: *a, port: row.a_port.text() }, End { node: *b, port: row.b_port.text() }];
        links.push(Link { ends, rate: row.rate_gbps.map(|g| g * 1.25e8) });
    }
    Ok(Topology::new(nodes, links))
}

/// Jobs and their hosts.
pub(super) fn jobs(dir: &Path) -> Result<Vec<(String, Vec<String>)>, RecordingError> {
    let file: JobsFile = json(dir, "jobs.json")?;
    Ok(file.jobs.into_iter().map(|j| (j.id.text(), j.hosts.into_iter().map(Id::text).collect())).collect())
}
