//! Verdicts on simulations with known truth: the small scenarios of the repository (`cargo xtask scenarios`), and one run
//! of each kind of packet-level simulations, which `FABRICLENS_SCENARIOS` names.

use fabriclens_correlate::recording::{PortSample, ReadAs, Recording};
use fabriclens_correlate::{Severity, Thresholds, backtest};
use fabriclens_testing::{scenarios, simulations};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// In packet-level simulations 1 ms becomes 1 s; committed scenarios have seconds.
const STRETCH: i64 = 1000;
/// Kinds that name each simulated fault correctly.
const RIGHT: [(&str, &[&str]); 9] = [
    ("incast", &["incast"]),
    ("slow_receiver", &["slow_receiver"]),
    ("pfc_storm", &["pfc_storm"]),
    ("degraded_link", &["degraded_link"]),
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
        "host_nic" if element["port"].is_string() => {
            kind == "port" && node == id(&element["host"]) && root["port"] == element["port"]
        }
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

/// Incidents of a run, as JSON.
fn verdicts(run: &Path, stretch: i64) -> Vec<Value> {
    let recording = Recording::open(run, ReadAs { stretch, hosts_only: false }).unwrap();
    let found = backtest(recording, Thresholds::default()).unwrap();
    found.iter().map(|incident| serde_json::to_value(incident).unwrap()).collect()
}

/// Differences between the most confident incident during the fault and the truth; for a run without fault, all
/// incidents.
fn mistakes(truth: &Value, verdicts: &[Value], stretch: i64) -> Vec<String> {
    let kind = truth["kind"].as_str().unwrap();
    let Some((_, right)) = RIGHT.iter().find(|(k, _)| *k == kind) else {
        // Healthy or busy: nothing is broken.
        return verdicts.iter().map(|i| format!("{kind}: {}", i["kind"])).collect();
    };
    let at = |name: &str| truth["fault"][name].as_i64().unwrap() * stretch;
    let during = |i: &&Value| {
        let end = i["end_ns"].as_i64().unwrap_or(i64::MAX);
        i["start_ns"].as_i64().unwrap() <= at("end_ns") && end >= at("start_ns")
    };
    let sure = |i: &Value| i["confidence"].as_f64().unwrap();
    let best = verdicts.iter().filter(during).max_by(|a, b| sure(a).total_cmp(&sure(b)));
    let Some(verdict) = best.filter(|i| right.contains(&i["kind"].as_str().unwrap())) else {
        return vec![format!("{kind}: {:?}", best.map(|i| &i["kind"]))];
    };
    let root = (!names_root(truth, &verdict["root"])).then(|| format!("{kind}: at {}", verdict["root"]));
    let by = (!names_culprit(truth, verdict)).then(|| format!("{kind}: by {}", verdict["culprit_jobs"]));
    root.into_iter().chain(by).collect()
}

#[test]
#[ignore = "needs: simulations"]
fn simulated_faults_are_found() {
    let runs = one_of_each(&simulations());
    let wrong = runs.values().flat_map(|run| mistakes(&truth(run), &verdicts(run, STRETCH), STRETCH));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Truth and incidents of each committed scenario, by kind. Back-tested once, because that takes seconds.
fn committed() -> &'static BTreeMap<String, (Value, Vec<Value>)> {
    static ALL: LazyLock<BTreeMap<String, (Value, Vec<Value>)>> = LazyLock::new(|| {
        let runs = one_of_each(&scenarios()).into_iter();
        runs.map(|(kind, run)| (kind, (truth(&run), verdicts(&run, 1)))).collect()
    });
    &ALL
}

/// Kind, root, culprit, victims, and the time of the fault; nothing else is found.
#[test]
fn committed_scenarios_are_found() {
    let kinds: Vec<&str> = committed().keys().map(String::as_str).collect();
    assert_eq!(kinds, ["degraded_link", "healthy", "incast", "lossy_link", "pfc_storm", "slow_receiver"]);
    for (kind, (truth, found)) in committed() {
        assert_eq!(mistakes(truth, found, 1), [""; 0]);
        let ids = |jobs: &Value, id: fn(&Value) -> &Value| -> BTreeSet<String> {
            jobs.as_array().unwrap().iter().map(|job| id(job).as_str().unwrap().to_owned()).collect()
        };
        let suffer: BTreeSet<String> = found.iter().flat_map(|i| ids(&i["victim_jobs"], |job| job)).collect();
        assert_eq!(suffer, ids(&truth["victims"]["jobs"], |job| &job["job"]), "{kind}");
        let found: Vec<&str> = found.iter().map(|i| i["kind"].as_str().unwrap()).collect();
        let expected: &[&str] = match kind.as_str() {
            "healthy" => &[],
            kind => &[kind],
        };
        assert_eq!(found, expected, "{kind}");
    }
}

#[test]
fn committed_scenarios_have_the_right_times() {
    for (kind, (truth, found)) in committed() {
        for incident in found.iter().filter(|i| i["kind"] == **kind) {
            let late = |of: &str, event: &str| {
                (incident[of].as_i64().unwrap() - truth["fault"][event].as_i64().unwrap()) / 1_000_000_000
            };
            assert!((0..=2).contains(&late("start_ns", "start_ns")), "{incident}");
            // A port that gets many marks for a moment is ordinary, and what is inferred needs two evaluations that agree.
            let soon = if kind == "incast" { 4 } else { 2 };
            assert!((0..=soon).contains(&late("detected_ns", "start_ns")), "{incident}");
            // Loss is counted over twenty seconds.
            assert!((0..=20).contains(&late("end_ns", "end_ns")), "{incident}");
        }
    }
}

/// Each verdict is wrong for the truth of any other kind.
#[test]
fn another_truth_is_a_mistake() {
    for (kind, (truth, _)) in committed() {
        for (other, (_, found)) in committed().iter().filter(|(other, _)| *other != kind) {
            assert_ne!(mistakes(truth, found, 1), [""; 0], "{other} for {kind}");
        }
    }
}

/// Agents sample each in their own phase, every 1, 2 or 5 seconds: faults are found as if they were aligned, and nothing is
/// found where nothing is wrong.
#[test]
#[ignore = "needs: simulations"]
fn unaligned_samples_are_evaluated_as_aligned_ones() {
    let runs = one_of_each(&simulations());
    let wrong = runs.values().flat_map(|run| {
        let recording = Recording::open(run, ReadAs { stretch: STRETCH, hosts_only: false }).unwrap();
        let found = backtest(recording.map_samples(unaligned()), Thresholds::default()).unwrap();
        let found: Vec<Value> = found.iter().map(|incident| serde_json::to_value(incident).unwrap()).collect();
        mistakes(&truth(run), &found, STRETCH)
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.len() <= 1, "{wrong:?}");
}

/// Moves each node's samples to a phase of its own, and keeps one in 1, 2 or 5. Counters are interpolated.
fn unaligned() -> impl FnMut(PortSample) -> Option<PortSample> {
    const GAUGES: [&str; 4] = ["rate_bytes_per_second", "queue", "buffer", "fabric_port_up"];
    let mut last: HashMap<String, (PortSample, u64)> = HashMap::new();
    move |sample| {
        let node = sample.series[0].get("host").to_owned();
        let mut hasher = DefaultHasher::new();
        node.hash(&mut hasher);
        let random = hasher.finish();
        let port = format!("{node},{}", sample.series[0].get("port"));
        let (before, number) = match last.insert(port.clone(), (sample.clone(), 0)) {
            Some((before, number)) => (before, number + 1),
            None => return None,
        };
        last.get_mut(&port).unwrap().1 = number;
        let (period, part) = ([1, 2, 5][(random % 3) as usize], (random >> 8 & 0xff) as f64 / 256.0);
        let gauge = |at: usize| GAUGES.iter().any(|name| sample.series[at].metric().contains(name));
        let between = |(at, (new, old)): (usize, (&f64, &f64))| if gauge(at) { *old } else { old + (new - old) * part };
        let values = sample.values.iter().zip(&before.values).enumerate().map(between).collect();
        let apart = (sample.time_ms - before.time_ms) as f64;
        let time_ms = before.time_ms + (apart * part) as i64;
        (number + random).is_multiple_of(period).then(|| PortSample { series: sample.series.clone(), time_ms, values })
    }
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
        let recording = Recording::open(&run, ReadAs { stretch: STRETCH, hosts_only: false }).unwrap();
        let recording = recording.map_samples(|sample| {
            let mut hasher = DefaultHasher::new();
            (sample.series[0].get("host"), sample.time_ms).hash(&mut hasher);
            (!hasher.finish().is_multiple_of(10)).then_some(sample)
        });
        let found = backtest(recording, Thresholds::default()).unwrap();
        let paged = found.iter().filter(|i| i.severity != Severity::Info);
        wrong.extend(paged.map(|i| format!("{}: {:?}", run.display(), i.kind)));
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
