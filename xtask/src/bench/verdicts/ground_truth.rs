//! Ground truth of a simulation: the injected fault, its culprit and its victims.

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// An injected fault.
pub struct Fault {
    /// Kind, as the simulator names it.
    pub kind: String,
    /// Begin and end in nanoseconds, stretched.
    pub time_ns: [i64; 2],
    /// Where it is.
    pub element: Value,
    culprit: Value,
}

/// Ground truth of one recording.
pub struct Truth {
    /// Kind of the run, as the simulator names it.
    pub kind: String,
    /// Sample interval in nanoseconds, stretched.
    pub tick_ns: i64,
    /// Factor of times.
    pub stretch: i64,
    /// Empty for a healthy run.
    pub faults: Vec<Fault>,
    /// Jobs that certainly suffer.
    pub victims: BTreeSet<String>,
    /// Jobs that may or may not suffer; not scored.
    pub marginal: BTreeSet<String>,
    /// Other end of each port, by node and port.
    pub peers: HashMap<(String, String), (String, String)>,
    /// Names of the hosts.
    pub hosts: Vec<String>,
}

/// Reads a JSON file.
///
/// # Errors
/// When it cannot be read, or is not of that form.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("understand {}", path.display()))
}

/// Name of a node or port, which is a number or a text.
pub fn name(value: &Value) -> String {
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
    pub fn read(dir: &Path, stretch: i64) -> Result<Self> {
        let truth: Value = read(&dir.join("truth.json"))?;
        let topology: Value = read(&dir.join("topology.json"))?;
        let mut peers = HashMap::new();
        for link in topology["links"].as_array().into_iter().flatten() {
            let end = |node: &str, port: &str| (name(&link[node]), name(&link[port]));
            let (a, b) = (end("a", "a_port"), end("b", "b_port"));
            peers.insert(a.clone(), b.clone());
            peers.insert(b, a);
        }
        let time = |value: &Value| value.as_i64().context("a time in truth.json is no number").map(|t| t * stretch);
        let list = |list: &Value| -> Vec<Value> { list.as_array().cloned().unwrap_or_default() };
        // A run with one fault names it beside its kind and culprit.
        let mut all = list(&truth["faults"]);
        if all.is_empty() && !truth["fault"].is_null() {
            let mut only = truth["fault"].clone();
            (only["kind"], only["culprit"]) = (truth["kind"].clone(), truth["culprit"].clone());
            all.push(only);
        }
        let fault = |fault: Value| {
            Ok(Fault {
                kind: name(&fault["kind"]),
                time_ns: [time(&fault["start_ns"])?, time(&fault["end_ns"])?],
                element: fault["element"].clone(),
                culprit: fault["culprit"].clone(),
            })
        };
        let marginal = |j: &&Value| j["label_confidence"] == "marginal";
        let marginal: BTreeSet<String> =
            list(&truth["all_jobs"]).iter().filter(marginal).map(|j| name(&j["job"])).collect();
        let victims: BTreeSet<String> = list(&truth["victims"]["jobs"]).iter().map(|j| name(&j["job"])).collect();
        let id = |host: &Value| name(host.get("id").unwrap_or(&host["node"]));
        Ok(Self {
            kind: name(&truth["kind"]),
            tick_ns: time(&truth["tick_ns"])?,
            stretch,
            faults: all.into_iter().map(fault).collect::<Result<_>>()?,
            victims: victims.difference(&marginal).cloned().collect(),
            marginal,
            peers,
            hosts: topology["hosts"].as_array().into_iter().flatten().map(id).collect(),
        })
    }

    /// Whether no job suffers; then a fault need not be detected.
    pub fn harmless(&self) -> bool {
        self.victims.is_empty() && self.marginal.is_empty()
    }

    /// Nodes of the faults.
    pub fn nodes(&self) -> BTreeSet<String> {
        let of = |fault: &Fault| {
            let one = ["host", "a", "b"].iter().filter_map(|k| fault.element.get(k)).map(name);
            one.chain(names(&fault.element["hosts"])).chain(names(&fault.element["switches"])).collect::<Vec<_>>()
        };
        self.faults.iter().flat_map(of).collect()
    }

    /// Whether a location is that of a fault.
    pub fn is_root(&self, fault: &Fault, root: &Value) -> bool {
        let (element, what) = (&fault.element, root["type"].as_str().unwrap_or_default());
        let node = name(&root["node"]);
        if fault.culprit["type"] == "job" && what == "job" && root["job"] == fault.culprit["id"] {
            return true;
        }
        let at_port = what == "port" || what == "host";
        match element["type"].as_str().unwrap_or_default() {
            "host" | "host_nic" | "port" => {
                let rail = element.get("rail").is_some() && what == "port";
                let host = name(element.get("host").unwrap_or(&element["node"]));
                at_port && node == host && (!rail || name(&root["port"]) == name(&element["port"]))
            }
            "link" => {
                let ends = [name(&element["a"]), name(&element["b"])];
                let named = [name(&root["a"]), name(&root["b"])];
                let peer = self.peers.get(&(node.clone(), name(&root["port"])));
                (what == "link" && named.iter().all(|n| ends.contains(n)) && named[0] != named[1])
                    || (what == "port" && ends.contains(&node) && peer.is_some_and(|p| ends.contains(&p.0)))
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

    /// Whether these jobs are the culprits of a fault: for a device, a link or a setting, no job but its owner.
    pub fn is_culprit(fault: &Fault, jobs: &BTreeSet<String>, root_right: bool) -> bool {
        let Fault { element, culprit, .. } = fault;
        if culprit["type"] == "job" {
            return jobs.len() == 1 && jobs.contains(&name(&culprit["id"]));
        }
        let fair = |job: &String| {
            name(&culprit["owner_job"]) == *job
                || names(&culprit["jobs"]).any(|j| j == *job)
                || name(&element["job"]) == *job
        };
        root_right && jobs.iter().all(fair)
    }
}
