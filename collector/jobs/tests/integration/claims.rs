//! A host says things of its own host only: it does not join a job that others report, by whatever it sends.

use crate::common;
use fabriclens_jobs::{
    Filter, HostAllocation, Job, JobKey, JobRecord, Limits, Registry, Reporter, SeenJob, Sighting, Source,
};

const SECOND: i64 = 1_000_000_000;

fn open(path: &std::path::Path) -> Registry {
    Registry::open(common::table(path), Limits::default()).unwrap()
}

fn key(id: &str) -> JobKey {
    JobKey { cluster: String::new(), id: id.into() }
}

fn on(hosts: &[&str], start: i64) -> JobRecord {
    let hosts = hosts.iter().map(|h| ((*h).to_owned(), HostAllocation::default())).collect();
    JobRecord { hosts, start_ns: Some(start * SECOND), ..JobRecord::default() }
}

/// Processes of task `task` with job number `native` on a host, in these seconds.
fn seen(host: &str, [task, native]: [&str; 2], (first, last): (i64, i64)) -> Sighting {
    let at = HostAllocation { devices: vec!["mlx5_0".into()], ..HostAllocation::default() };
    let seen = SeenJob {
        scheduler: "slurm".into(),
        native: native.into(),
        task: task.into(),
        user: format!("user-{host}"),
        hosts: [(host.to_owned(), at)].into(),
        first_ns: first * SECOND,
        last_ns: last * SECOND,
        ..SeenJob::default()
    };
    Sighting { seen, gap_ns: SECOND }
}

fn hosts(job: &Job) -> Vec<&str> {
    job.hosts.keys().map(String::as_str).collect()
}

#[test]
fn a_host_does_not_join_a_reported_job() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    for reporter in [Source::Slurm.into(), Source::File.into(), Reporter::caller("ann")] {
        r.begin(reporter, &key("7"), on(&["n1", "n2.example"], 100), SECOND).unwrap();
        // n1 has no processes yet; n9 names the job, another name of it, and an early start.
        let keys = r.observe(&[seen("n2", ["7", "7"], (101, 110)), seen("n9", ["7", "8"], (90, 110))], &|_| true);
        assert_eq!(keys, [Some(key("7")), None], "n9 does not keep the job running either");
        let job = r.get(&key("7")).unwrap();
        assert_eq!(hosts(&job), ["n1", "n2", "n2.example"], "the agent of n2 uses its short name");
        assert_eq!((job.start_ns, job.user.as_str(), job.aliases.len()), (100 * SECOND, "user-n2", 0));
        assert!(job.disagreements.iter().any(|d| d.starts_with("seen on n9, which ")), "{:?}", job.disagreements);
        assert_eq!(r.open_runs(111 * SECOND)[0].hosts, ["n2"]);
        // Once the job is reported there, it is.
        r.amend(Source::File, &key("7"), on(&["n9"], 100)).unwrap();
        assert_eq!(r.observe(&[seen("n9", ["7", "7"], (100, 120))], &|_| true), [Some(key("7"))]);
        let job = r.get(&key("7")).unwrap();
        assert_eq!(job.hosts["n9"].devices, ["mlx5_0"]);
        assert!(job.disagreements.iter().all(|d| !d.starts_with("seen on")), "{:?}", job.disagreements);
        r.remove(&key("7")).unwrap();
    }
}

#[test]
fn a_host_that_was_first_is_taken_out_of_a_reported_job() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    let early = [seen("n1", ["7", "7"], (100, 110)), seen("n9", ["7", "8"], (10, 110))];
    r.observe(&early, &|_| true);
    assert_eq!(hosts(&r.get(&key("7")).unwrap()), ["n1", "n9"], "without a scheduler, hosts are the only source");
    let job = r.begin(Source::Slurm, &key("7"), on(&["n1"], 99), SECOND).unwrap();
    assert_eq!((hosts(&job), job.start_ns, job.aliases.len()), (vec!["n1"], 99 * SECOND, 0));
    assert_eq!(job.hosts["n1"].devices, ["mlx5_0"], "what n1 said of itself stays");
    drop(r);
    let r = open(dir.path());
    let job = r.get(&key("7")).unwrap();
    assert_eq!((hosts(&job), job.disagreements.len()), (vec!["n1"], 1), "{:?}", job.disagreements);
    assert_eq!(r.list(&Filter { host: Some("n9".into()), ..Filter::default() }), []);
}

#[test]
fn claims_are_few_and_of_this_run() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    r.begin(Source::Slurm, &key("7"), on(&["n1"], 100), SECOND).unwrap();
    // The hosts of the run before.
    r.observe(&[seen("n2", ["7", "7"], (90, 100))], &|_| true);
    assert_eq!(r.get(&key("7")).unwrap().disagreements.len(), 0);
    for n in 100..1000 {
        r.observe(&[seen(&format!("n{n}"), ["7", "7"], (110, 120))], &|_| true);
    }
    let said = &r.get(&key("7")).unwrap().disagreements[0];
    assert_eq!(said, "seen on n100, n101, n102 and 13 more, which slurm does not name: not part of the job");
}
