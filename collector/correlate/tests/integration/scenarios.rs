//! Verdicts on packet-level simulations with known truth: one run of each kind, all ports read. Simulations are no part of
//! the repository; `FABRICLENS_SCENARIOS` names their directory.

use fabriclens_correlate::recording::{ReadAs, Recording};
use fabriclens_correlate::{Thresholds, backtest};
use fabriclens_testing::simulations;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

/// 1 ms of simulated time becomes 1 s.
const STRETCH: i64 = 1000;
/// Kinds that name each simulated fault correctly.
const RIGHT: [(&str, &[&str]); 8] = [
    ("incast", &["incast"]),
    ("slow_receiver", &["slow_receiver"]),
    ("pfc_storm", &["pfc_storm"]),
    ("degraded_uplink", &["degraded_link"]),
    ("lossy_link", &["lossy_link"]),
    ("ecmp_collision", &["ecmp_collision"]),
    ("ecn_misconfig", &["ecn_misconfigured"]),
    ("storage_burst", &["noisy_neighbour", "incast"]),
];

/// The first run of each kind.
fn one_of_each(dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut runs = BTreeMap::new();
    let mut dirs: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    dirs.sort();
    for run in dirs.into_iter().filter(|d| d.join("truth.json").is_file()) {
        runs.entry(truth(&run)["kind"].as_str().unwrap().to_owned()).or_insert(run);
    }
    runs
}

/// Whether a verdict names the faulty element, or the job that causes it.
fn names_root(truth: &Value, root: &Value) -> bool {
    let element = &truth["fault"]["element"];
    let id = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let ids = |name: &str| element[name].as_array().map_or_else(Vec::new, |all| all.iter().map(id).collect());
    let (kind, node) = (root["type"].as_str().unwrap(), id(&root["node"]));
    if truth["culprit"]["type"] == "job" && kind == "job" {
        return root["job"] == truth["culprit"]["id"];
    }
    match element["type"].as_str().unwrap() {
        "host" | "host_nic" => ["port", "host"].contains(&kind) && node == id(&element["host"]),
        "hosts" => ["port", "host"].contains(&kind) && ids("hosts").contains(&node),
        "link" => {
            let ends = |of: &Value| BTreeSet::from([id(&of["a"]), id(&of["b"])]);
            kind == "link" && ends(root) == ends(element)
        }
        "switch" => kind == "switch" && node == id(&element["switch"]),
        "switches" => kind == "fabric" || (kind == "switch" && ids("switches").contains(&node)),
        "job" => kind == "job" && root["job"] == element["job"],
        other => panic!("{other} is no element"),
    }
}

/// Whether the culprits are right: the job that causes it, or else only the job of the element.
fn names_culprit(truth: &Value, verdict: &Value) -> bool {
    let culprit = &truth["culprit"];
    let accused: Vec<&Value> = verdict["culprit_jobs"].as_array().unwrap().iter().collect();
    if culprit["type"] == "job" {
        return accused == [&culprit["id"]];
    }
    let share = culprit["jobs"].as_array().map_or(&[][..], Vec::as_slice);
    let fair = |job: &&Value| {
        share.contains(job) || **job == culprit["owner_job"] || **job == truth["fault"]["element"]["job"]
    };
    accused.iter().all(fair)
}

fn truth(run: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(run.join("truth.json")).unwrap()).unwrap()
}

#[test]
#[ignore = "needs: simulations"]
fn simulated_faults_are_found() {
    let dir = simulations();
    let mut wrong = Vec::new();
    for (kind, run) in one_of_each(&dir) {
        let found = backtest(
            Recording::read(&run, ReadAs { stretch: STRETCH, hosts_only: false }).unwrap(),
            Thresholds::default(),
        )
        .unwrap();
        let told = serde_json::to_value(&found).unwrap();
        let told = told.as_array().unwrap();
        let Some((_, right)) = RIGHT.iter().find(|(k, _)| *k == kind) else {
            // Healthy or busy: nothing is broken.
            wrong.extend(told.iter().map(|i| format!("{kind}: {}", i["kind"])));
            continue;
        };
        let truth = truth(&run);
        let fault = &truth["fault"];
        let at = |name: &str| fault[name].as_i64().unwrap() * STRETCH;
        let during = |i: &&Value| {
            let end = i["end_ns"].as_i64().unwrap_or(i64::MAX);
            i["start_ns"].as_i64().unwrap() <= at("end_ns") && end >= at("start_ns")
        };
        let surest =
            |a: &&Value, b: &&Value| a["confidence"].as_f64().unwrap().total_cmp(&b["confidence"].as_f64().unwrap());
        match told.iter().filter(during).max_by(surest) {
            Some(verdict) if right.contains(&verdict["kind"].as_str().unwrap()) => {
                if !names_root(&truth, &verdict["root"]) {
                    wrong.push(format!("{kind}: at {}", verdict["root"]));
                }
                if !names_culprit(&truth, verdict) {
                    wrong.push(format!("{kind}: by {}", verdict["culprit_jobs"]));
                }
            }
            other => wrong.push(format!("{kind}: {:?}", other.map(|i| &i["kind"]))),
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// A tenth of the samples of each node is lost: a missing sample is no loss of traffic, and the last one does not count
/// twice.
#[test]
#[ignore = "needs: simulations"]
fn lost_samples_are_no_incident() {
    let dir = simulations();
    let mut wrong = Vec::new();
    for run in std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).filter(|d| d.join("truth.json").is_file()) {
        let kind = truth(&run)["kind"].as_str().unwrap().to_owned();
        if !["healthy", "busy"].contains(&kind.as_str()) {
            continue;
        }
        let mut recording = Recording::read(&run, ReadAs { stretch: STRETCH, hosts_only: false }).unwrap();
        for one in &mut recording.memory.0 {
            let comes = |time: &i64| {
                let mut hasher = DefaultHasher::new();
                (one.labels.get("host"), time).hash(&mut hasher);
                !hasher.finish().is_multiple_of(10)
            };
            let kept = one.times.iter().copied().zip(one.values.iter().copied()).filter(|(time, _)| comes(time));
            (one.times, one.values) = kept.unzip();
        }
        let found = backtest(recording, Thresholds::default()).unwrap();
        wrong.extend(found.iter().map(|i| format!("{}: {:?}", run.display(), i.kind)));
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
