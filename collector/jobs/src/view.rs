//! One view of a job from all that is said of it.

use crate::facts::{Facts, Key, Place, Source};
use serde::Serialize;
use std::collections::BTreeMap;

/// Times that differ by less are the same: schedulers tell whole seconds, and hooks run for a moment.
const SAME_NS: i64 = 5_000_000_000;

/// A run of a job, as far as it is known.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// `""` where there is one cluster.
    pub cluster: String,
    /// The scheduler's.
    pub id: String,
    /// Which run under this id, from 1: a requeued job runs again, and schedulers give numbers again.
    pub run: u32,
    /// Whose; `""` if nobody says.
    pub user: String,
    /// What its owner calls it; `""` if nobody says.
    pub name: String,
    /// Partition, account, namespace and the like.
    pub labels: BTreeMap<String, String>,
    /// Unix nanoseconds.
    pub start_ns: i64,
    /// Unix nanoseconds; `None`: it runs.
    pub end_ns: Option<i64>,
    /// By host.
    pub hosts: BTreeMap<String, Place>,
    /// Who said something of it.
    pub sources: Vec<Source>,
    /// Where they differ, in words.
    pub disagreements: Vec<String>,
}

impl Job {
    /// Of what was said; the earliest start and the earliest end count, the hosts of all, and of names the later source's.
    pub fn of(key: &Key, run: u32, said: &BTreeMap<Source, Facts>) -> Self {
        let mut job = Self {
            cluster: key.cluster.clone(),
            id: key.id.clone(),
            run,
            user: String::new(),
            name: String::new(),
            labels: BTreeMap::new(),
            start_ns: said.values().filter_map(|f| f.start_ns).min().unwrap_or(0),
            end_ns: end_of(said),
            hosts: BTreeMap::new(),
            sources: said.keys().copied().collect(),
            disagreements: Vec::new(),
        };
        for facts in said.values() {
            facts.user.iter().for_each(|user| job.user.clone_from(user));
            facts.name.iter().for_each(|name| job.name.clone_from(name));
            job.labels.extend(facts.labels.clone());
            for (host, place) in &facts.hosts {
                let there = job.hosts.entry(host.clone()).or_default();
                let (devices, pids) = (&mut there.devices, &mut there.pids);
                devices.extend(place.devices.iter().filter(|d| !devices.contains(d)).cloned().collect::<Vec<_>>());
                pids.extend(place.pids.iter().filter(|p| !pids.contains(p)).copied().collect::<Vec<_>>());
            }
        }
        job.disagreements = disagreements(said);
        job
    }

    /// Whether it ran at a time, Unix nanoseconds.
    pub fn ran_at(&self, ns: i64) -> bool {
        self.start_ns <= ns && self.end_ns.is_none_or(|end| ns < end)
    }
}

/// When a run was over, Unix nanoseconds; `None`: it runs.
pub(crate) fn end_of(said: &BTreeMap<Source, Facts>) -> Option<i64> {
    said.values().filter_map(|f| f.end_ns).min()
}

/// Where two sources say different things.
fn disagreements(said: &BTreeMap<Source, Facts>) -> Vec<String> {
    let mut all = Vec::new();
    let mut differ = |what: &str, values: Vec<(Source, String)>| {
        if values.windows(2).any(|pair| pair[0].1 != pair[1].1) {
            let each: Vec<String> = values.iter().map(|(s, v)| format!("{} says {v}", s.text())).collect();
            all.push(format!("{what}: {}", each.join(", ")));
        }
    };
    let each = |of: fn(&Facts) -> Option<String>| said.iter().filter_map(|(s, f)| Some((*s, of(f)?))).collect();
    differ("user", each(|f| f.user.clone()));
    differ("name", each(|f| f.name.clone()));
    differ("hosts", each(|f| Some(f.hosts.len()).filter(|n| *n > 0).map(|n| n.to_string())));
    let mut times = |what: &str, of: fn(&Facts) -> Option<i64>| {
        let told: Vec<(Source, i64)> = said.iter().filter_map(|(s, f)| Some((*s, of(f)?))).collect();
        let first = told.iter().map(|t| t.1).min().unwrap_or(0);
        if told.iter().any(|t| t.1 - first >= SAME_NS) {
            let seconds = |ns: i64| (ns - first) / 1_000_000_000;
            let each: Vec<String> = told.iter().map(|(s, t)| format!("{} {} s later", s.text(), seconds(*t))).collect();
            all.push(format!("{what}: {}", each.join(", ")));
        }
    };
    times("start", |f| f.start_ns);
    times("end", |f| f.end_ns);
    all
}
