//! Ground truth of a simulation: the injected fault, its culprit and its victims.

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// One simulated millisecond stands for a second.
pub const STRETCH: i64 = 1000;

/// The injected fault.
pub struct Fault {
    /// Begin and end in nanoseconds, stretched.
    pub time_ns: [i64; 2],
    element: Value,
}

/// Ground truth of one simulation.
pub struct Truth {
    /// Kind of fault, as the simulator names it.
    pub kind: String,
    /// Sample interval in nanoseconds, stretched.
    pub tick_ns: i64,
    /// None for a healthy run.
    pub fault: Option<Fault>,
    culprit: Value,
    /// Jobs that certainly suffer.
    pub victims: BTreeSet<String>,
    /// Jobs that may or may not suffer; not scored.
    pub marginal: BTreeSet<String>,
    peers: HashMap<(String, String), String>,
    /// Names of the hosts.
    pub hosts: Vec<String>,
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("understand {}", path.display()))
}

/// Name of a node or port, which is a number or a text.
fn name(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn names(value: &Value) -> impl Iterator<Item = String> + '_ {
    value.as_array().into_iter().flatten().map(name)
}

impl Truth {
    /// Reads `truth.json`, and from `topology.json` the cables and hosts.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(dir: &Path) -> Result<Self> {
        let truth: Value = read(&dir.join("truth.json"))?;
        let topology: Value = read(&dir.join("topology.json"))?;
        let mut peers = HashMap::new();
        for link in topology["links"].as_array().into_iter().flatten() {
            let end = |node: &str, port: &str| (name(&link[node]), name(&link[port]));
            let (a, b) = (end("a", "a_port"), end("b", "b_port"));
            peers.insert(a.clone(), b.0.clone());
            peers.insert(b, a.0);
        }
        let time = |value: &Value| value.as_i64().context("a time in truth.json is no number").map(|t| t * STRETCH);
        let fault = match &truth["fault"] {
            Value::Null => None,
            fault => Some(Fault {
                time_ns: [time(&fault["start_ns"])?, time(&fault["end_ns"])?],
                element: fault["element"].clone(),
            }),
        };
        let jobs = |list: &Value| -> Vec<Value> { list.as_array().cloned().unwrap_or_default() };
        let marginal = |j: &&Value| j["label_confidence"] == "marginal";
        let marginal: BTreeSet<String> =
            jobs(&truth["all_jobs"]).iter().filter(marginal).map(|j| name(&j["job"])).collect();
        let victims: BTreeSet<String> = jobs(&truth["victims"]["jobs"]).iter().map(|j| name(&j["job"])).collect();
        let id = |host: &Value| name(host.get("id").unwrap_or(&host["node"]));
        Ok(Self {
            kind: name(&truth["kind"]),
            tick_ns: time(&truth["tick_ns"])?,
            fault,
            culprit: truth["culprit"].clone(),
            victims: victims.difference(&marginal).cloned().collect(),
            marginal,
            peers,
            hosts: topology["hosts"].as_array().into_iter().flatten().map(id).collect(),
        })
    }

    /// Whether no job suffers; then the fault need not be detected.
    pub fn harmless(&self) -> bool {
        self.victims.is_empty() && self.marginal.is_empty()
    }

    /// Nodes of the fault.
    pub fn nodes(&self) -> BTreeSet<String> {
        let Some(fault) = &self.fault else { return BTreeSet::new() };
        let one = ["host", "a", "b"].iter().filter_map(|k| fault.element.get(k)).map(name);
        one.chain(names(&fault.element["hosts"])).chain(names(&fault.element["switches"])).collect()
    }

    /// Whether a location is that of the fault.
    pub fn is_root(&self, root: &Value) -> bool {
        let Some(fault) = &self.fault else { return false };
        let (element, what) = (&fault.element, root["type"].as_str().unwrap_or_default());
        let node = name(&root["node"]);
        if self.culprit["type"] == "job" && what == "job" && root["job"] == self.culprit["id"] {
            return true;
        }
        let at_port = what == "port" || what == "host";
        match element["type"].as_str().unwrap_or_default() {
            "host" | "host_nic" => at_port && node == name(&element["host"]),
            "link" => {
                let ends = [name(&element["a"]), name(&element["b"])];
                let named = [name(&root["a"]), name(&root["b"])];
                let peer = self.peers.get(&(node.clone(), name(&root["port"])));
                (what == "link" && named.iter().all(|n| ends.contains(n)) && named[0] != named[1])
                    || (what == "port" && ends.contains(&node) && peer.is_some_and(|p| ends.contains(p)))
            }
            "hosts" => {
                (at_port && names(&element["hosts"]).any(|h| h == node))
                    || (what == "job" && root["job"] == element["job"])
            }
            "switch" | "switches" => {
                let mut switches: Vec<String> = names(&element["switches"]).collect();
                switches.extend(element.get("switch").map(name));
                ((what == "switch" || what == "port") && switches.contains(&node))
                    || (what == "fabric" && switches.len() > 1)
            }
            "job" => root["job"] == element["job"],
            _ => false,
        }
    }

    /// Whether the named culprit jobs are right, given whether the location is right.
    pub fn is_culprit(&self, jobs: &BTreeSet<String>, root_right: bool) -> bool {
        if self.culprit["type"] == "job" {
            return jobs.len() == 1 && jobs.contains(&name(&self.culprit["id"]));
        }
        let element = self.fault.as_ref().map_or(&Value::Null, |f| &f.element);
        let fair = |job: &String| {
            name(&self.culprit["owner_job"]) == *job
                || names(&self.culprit["jobs"]).any(|j| j == *job)
                || name(&element["job"]) == *job
        };
        root_right && jobs.iter().all(fair)
    }
}
