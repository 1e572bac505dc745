//! The registry's public interface: runs, differing sources, restarts.

use crate::common;
use fabriclens_jobs::{Filter, HostAllocation, JobKey, JobRecord, Registry, RegistryError, Source};
use std::collections::BTreeMap;

const SECOND: i64 = 1_000_000_000;

fn open(path: &std::path::Path) -> Registry {
    Registry::open(common::table(path), fabriclens_jobs::Limits::default()).unwrap()
}

fn key(id: &str) -> JobKey {
    JobKey { cluster: String::new(), id: id.into() }
}

fn record(start: Option<i64>, hosts: &[&str]) -> JobRecord {
    let hosts = hosts.iter().map(|h| ((*h).to_owned(), HostAllocation::default())).collect();
    JobRecord { start_ns: start.map(|s| s * SECOND), hosts, ..JobRecord::default() }
}

fn span(registry: &Registry, id: &str) -> Vec<(u32, i64, Option<i64>)> {
    let mut all = registry.list(&Filter::default());
    all.retain(|j| j.id == id);
    all.iter().map(|j| (j.run, j.start_ns / SECOND, j.end_ns.map(|e| e / SECOND))).collect()
}

#[test]
fn requeue_is_a_new_run_but_retried_hook_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    let (job, now) = (key("7"), 1000 * SECOND);
    r.begin(Source::Http, &job, record(None, &["a"]), now).unwrap();
    r.begin(Source::Http, &job, record(None, &["a"]), now + 9 * SECOND).unwrap();
    assert_eq!(span(&r, "7"), [(1, 1000, None)]);
    r.end(Source::Http, &job, 1010 * SECOND).unwrap();
    r.end(Source::Http, &job, 1020 * SECOND).unwrap();
    assert_eq!(span(&r, "7"), [(1, 1000, Some(1010))], "the first end stands");
    // Requeued one second later; the hook is late, and its retry later still.
    for _ in 0..2 {
        r.begin(Source::Http, &job, record(Some(1011), &["b"]), 1015 * SECOND).unwrap();
    }
    assert_eq!(span(&r, "7"), [(2, 1011, None), (1, 1000, Some(1010))]);
    // Its end is never reported.
    r.begin(Source::Http, &job, record(Some(1050), &["b"]), 1050 * SECOND).unwrap();
    assert_eq!(span(&r, "7"), [(3, 1050, None), (2, 1011, Some(1050)), (1, 1000, Some(1010))]);
    r.end(Source::Http, &job, 1060 * SECOND).unwrap();
    let e = r.begin(Source::Http, &job, record(Some(1055), &["b"]), 1070 * SECOND).unwrap_err();
    assert!(matches!(e, RegistryError::Overlap { .. }), "{e}");
    // The same id in another cluster is another job.
    let other = JobKey { cluster: "west".into(), id: "7".into() };
    assert_eq!(r.begin(Source::Http, &other, record(None, &["a"]), now).unwrap().run, 1);
    assert_eq!(r.list(&Filter { cluster: Some("west".into()), ..Filter::default() }).len(), 1);
}

#[test]
fn slash_in_id_or_cluster_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    let west = JobKey { cluster: "west".into(), id: "ml/7".into() };
    r.begin(Source::Http, &west, record(None, &["a"]), SECOND).unwrap();
    r.begin(Source::Http, &key("ml/7"), record(None, &["b"]), SECOND).unwrap();
    assert_eq!((r.parse_key("west/ml/7"), r.parse_key("ml/7")), (west, key("ml/7")));
    assert_eq!(r.parse_key("east/9"), key("east/9"), "unknown cluster");
}

#[test]
fn sources_merge_and_disagreements_show() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    let job = key("train");
    let records = JobRecord { user: Some("ann".into()), name: Some("bert".into()), ..record(Some(100), &["a", "b"]) };
    r.begin(Source::File, &job, records, 0).unwrap();
    let device = |d: &str| HostAllocation { devices: vec![d.into()], pids: vec![4] };
    let hosts = BTreeMap::from([("b".to_owned(), device("mlx5_0")), ("c".to_owned(), device("mlx5_1"))]);
    let records = JobRecord { user: Some("bob".into()), hosts, ..record(Some(103), &[]) };
    let view = r.begin(Source::Http, &job, records, 0).unwrap();
    assert_eq!((view.user.as_str(), view.name.as_str(), view.run), ("bob", "bert", 1));
    assert_eq!(view.hosts.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(view.hosts["b"], device("mlx5_0"));
    assert_eq!(view.disagreements, ["user: file says ann, http says bob"], "three seconds are no difference");
    r.amend(Source::Http, &job, record(Some(160), &["a", "b", "c", "d"])).unwrap();
    r.end(Source::Http, &job, 300 * SECOND).unwrap();
    r.end(Source::File, &job, 200 * SECOND).unwrap();
    let view = r.get(&job).unwrap();
    assert_eq!((view.start_ns, view.end_ns), (100 * SECOND, Some(200 * SECOND)));
    assert_eq!(
        view.disagreements[1..],
        ["hosts: file says 2, http says 4", "start: file first, http 60 s later", "end: file first, http 100 s later"]
    );
}

#[test]
fn restart_keeps_jobs_and_expiry_drops_old_ones() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    for (id, start) in [("1", 10), ("2", 20), ("3", 30)] {
        r.begin(Source::Http, &key(id), record(Some(start), &["a", id]), 0).unwrap();
    }
    r.end(Source::Http, &key("1"), 40 * SECOND).unwrap();
    r.end(Source::Http, &key("2"), 60 * SECOND).unwrap();
    let before = r.list(&Filter::default());
    drop(r);
    let r = open(dir.path());
    assert_eq!(r.list(&Filter::default()), before);
    assert_eq!(before.iter().map(|j| j.id.as_str()).collect::<Vec<_>>(), ["3", "2", "1"]);
    let ids = |filter: Filter| r.list(&filter).into_iter().map(|j| j.id).collect::<Vec<_>>();
    assert_eq!(ids(Filter { running: Some(true), ..Filter::default() }), ["3"]);
    assert_eq!(ids(Filter { from_ns: Some(50 * SECOND), to_ns: Some(70 * SECOND), ..Filter::default() }), ["3", "2"]);
    assert_eq!(ids(Filter { to_ns: Some(15 * SECOND), ..Filter::default() }), ["1"]);
    assert_eq!(ids(Filter { host: Some("2".into()), ..Filter::default() }), ["2"]);
    let revision = r.revision();
    assert_eq!((r.expire(0).unwrap(), r.revision()), (0, revision));
    assert_eq!(r.expire(50 * SECOND).unwrap(), 1);
    assert_ne!(r.revision(), revision);
    assert_eq!(ids(Filter::default()), ["3", "2"]);
    drop(r);
    assert_eq!(open(dir.path()).list(&Filter::default()).len(), 2);
}

#[test]
fn invalid_records_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    let refused = |id: &str, f: JobRecord| r.begin(Source::Http, &key(id), f, 0).unwrap_err().to_string();
    assert_eq!(
        refused("a\0b", JobRecord::default()),
        "job a\0b: id \"a\\0b\" is not a name: give 1 to 512 bytes without control characters"
    );
    assert!(refused("", JobRecord::default()).contains("id \"\" is not a name"));
    let backwards = JobRecord { end_ns: Some(5 * SECOND), ..record(Some(9), &["a"]) };
    assert_eq!(refused("1", backwards.clone()), "job 1: it would end 4 s before it starts");
    assert_eq!(
        refused("1", record(None, &["h\n"])),
        "job 1: host \"h\\n\" is not a name: give 1 to 512 bytes without control characters"
    );
    let pids =
        BTreeMap::from([("h".to_owned(), HostAllocation { pids: (0..5000).collect(), ..HostAllocation::default() })]);
    assert_eq!(
        refused("1", JobRecord { hosts: pids, ..JobRecord::default() }),
        "job 1: 5000 pids of a host are more than 4096"
    );
    assert!(r.list(&Filter::default()).is_empty());
    assert!(matches!(r.end(Source::Http, &key("1"), 0), Err(RegistryError::Unknown(_))));
    r.begin(Source::Http, &key("1"), record(Some(9), &["a"]), 0).unwrap();
    assert!(r.end(Source::Http, &key("1"), 3 * SECOND).is_err());
    let early = JobRecord { end_ns: Some(SECOND), ..JobRecord::default() };
    assert!(r.amend(Source::Http, &key("1"), early).is_err());
    assert_eq!(span(&r, "1"), [(1, 9, None)]);
    r.end(Source::Http, &key("1"), 8 * SECOND).unwrap();
    assert_eq!(span(&r, "1"), [(1, 9, Some(9))], "clocks differ by a second");
}

#[test]
fn node_hook_number_resolves_to_the_task() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    let task = |start, hosts: &[&str]| JobRecord { aliases: vec!["17".into(), "18".into()], ..record(start, hosts) };
    r.begin(Source::Http, &key("17"), record(Some(10), &["n1"]), 0).unwrap();
    r.end(Source::Http, &key("17"), 20 * SECOND).unwrap();
    // A node first, then the controller, then another node; then an end by number.
    r.begin(Source::Http, &key("17"), record(None, &["n1"]), 101 * SECOND).unwrap();
    let view = r.begin(Source::Http, &key("14_1"), task(Some(100), &["n1", "n2"]), 0).unwrap();
    assert_eq!((view.id.as_str(), view.aliases.as_slice()), ("14_1", &["17".to_owned(), "18".to_owned()][..]));
    assert_eq!(span(&r, "17"), [(1, 10, Some(20))], "an earlier one of that number stays");
    let view = r.begin(Source::Http, &key("17"), record(None, &["n3"]), 102 * SECOND).unwrap();
    assert_eq!((view.id.as_str(), view.run, view.hosts.len()), ("14_1", 1, 3));
    r.end(Source::Http, &key("17"), 110 * SECOND).unwrap();
    r.end(Source::Http, &key("17"), 111 * SECOND).unwrap();
    assert_eq!(span(&r, "14_1"), [(1, 100, Some(110))]);
    // Later another job has the number, and Slurm lists it so.
    r.begin(Source::Http, &key("17"), record(Some(500), &["n9"]), 0).unwrap();
    assert_eq!((span(&r, "17")[0], span(&r, "14_1").len()), ((2, 500, None), 1));
    // Ids that Slurm lists are taken as they are.
    r.begin(Source::Slurm, &key("20_1"), JobRecord { aliases: vec!["22".into()], ..record(Some(600), &["n1"]) }, 0)
        .unwrap();
    r.begin(Source::Slurm, &key("22"), record(Some(601), &["n2"]), 0).unwrap();
    assert_eq!(r.list(&Filter::default()).len(), 5);
}

#[test]
fn ended_runs_are_listed_by_their_end() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    for (id, start, end) in [("late", 10, Some(90)), ("early", 20, Some(30)), ("runs", 5, None)] {
        let record = JobRecord { user: Some("ann".into()), ..record(Some(start), &["a"]) };
        r.begin(Source::Http, &key(id), record, start * SECOND).unwrap();
        end.map(|end| r.end(Source::Http, &key(id), end * SECOND).unwrap());
    }
    let ids = |most, from: i64| {
        let found = r.ended_runs(most, |_, run, [_, end]| run == 1 && end >= from * SECOND);
        found.into_iter().map(|run| (run.key.id, run.start_ns / SECOND, run.user)).collect::<Vec<_>>()
    };
    let [early, late] = [("early", 20), ("late", 10)].map(|(id, start)| (id.to_owned(), start, "ann".to_owned()));
    assert_eq!(ids(9, 0), [early.clone(), late.clone()]);
    assert_eq!((ids(1, 0), ids(9, 31)), (vec![early], vec![late]));
}
