//! A simulated run, and what a back-test finds in it.

use super::agent::Agents;
use super::form::Form;
use fabriclens_correlate::recording::{PortSample, ReadAs, Recording};
use fabriclens_correlate::topology::Role;
use fabriclens_correlate::{Incident, Severity, Thresholds, backtest};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A millisecond of a simulation is a second.
const READ: ReadAs = ReadAs { stretch: 1000, hosts_only: false };

/// A run with its files.
pub struct Run {
    /// Its directory.
    pub dir: PathBuf,
    /// Hosts of each job.
    pub jobs: BTreeMap<String, Vec<String>>,
    switches: BTreeSet<String>,
}

/// Kinds and locations of incidents; those of observations are in brackets.
pub type Verdicts = BTreeSet<String>;

/// The verdicts of incidents, without incidents that were merged into another.
pub fn verdicts<'a>(incidents: impl Iterator<Item = &'a Incident>) -> Verdicts {
    let own = incidents.filter(|incident| incident.merged_into.is_none());
    let text = |incident: &Incident| {
        let root = serde_json::to_value(&incident.root).expect("a location is JSON");
        let part = |name: &str| root[name].as_str().map(str::to_owned);
        let place: Vec<String> = ["node", "port", "a", "b", "job"].into_iter().filter_map(part).collect();
        let text = format!("{:?} {}", incident.kind, place.join("-"));
        if incident.severity == Severity::Info { format!("({text})") } else { text }
    };
    own.map(text).collect()
}

impl Run {
    /// Opens a directory.
    pub fn open(dir: &Path) -> Self {
        let json = |name: &str| -> serde_json::Value {
            serde_json::from_slice(&std::fs::read(dir.join(name)).unwrap()).unwrap()
        };
        let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let list = |value: &serde_json::Value| value.as_array().unwrap().iter().map(text).collect::<Vec<String>>();
        let jobs = json("jobs.json")["jobs"].as_array().unwrap().clone();
        let described = std::fs::read_to_string(dir.join("topology.json")).unwrap();
        let nodes = fabriclens_correlate::topology::parse("topology.json", &described).unwrap().nodes;
        Self {
            dir: dir.to_owned(),
            jobs: jobs.iter().map(|job| (text(&job["id"]), list(&job["hosts"]))).collect(),
            switches: nodes.into_iter().filter(|(_, role)| *role != Role::Host).map(|(name, _)| name).collect(),
        }
    }

    /// Whether a node is a switch.
    pub fn is_switch(&self, node: &str) -> bool {
        self.switches.contains(node)
    }

    /// Names of the switches.
    pub fn switches(&self) -> impl Iterator<Item = &str> {
        self.switches.iter().map(String::as_str)
    }

    /// What a back-test finds, and the samples that it reads: of switches what the form carries, or with `None` all that
    /// agents send.
    pub fn backtest(&self, form: Option<&'static Form>) -> (Verdicts, Vec<PortSample>) {
        let read = Rc::new(RefCell::new(Vec::new()));
        let (copy, switches) = (read.clone(), self.switches.clone());
        let recording = Recording::open(&self.dir, READ).unwrap().map_samples(move |sample| {
            let of_switch = switches.contains(sample.series[0].get("host"));
            let carried = match form.filter(|_| of_switch) {
                Some(form) => form.carried(sample)?,
                None => Agents::carried(sample),
            };
            copy.borrow_mut().push(carried.clone());
            Some(carried)
        });
        let found = backtest(recording, Thresholds::default()).unwrap();
        (verdicts(found.iter()), read.take())
    }
}
