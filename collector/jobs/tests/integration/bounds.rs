//! Bounds of the registry: one job, one sender, all; jobs of hosts with credentials of their own; deletion.

use crate::common;
use fabriclens_jobs::{
    Cursor, Filter, HostAllocation, JobKey, JobRecord, Limits, Registry, RegistryError, Reporter, SeenJob, Sighting,
    Source,
};

const SECOND: i64 = 1_000_000_000;

/// A registry with the smallest bounds: 32 MiB, 8 MiB for a caller, 512 KiB for a host.
fn open(path: &std::path::Path) -> Registry {
    Registry::open(common::table(path), Limits::of_memory(0)).unwrap()
}

fn key(id: &str) -> JobKey {
    JobKey { cluster: String::new(), id: id.into() }
}

fn on(hosts: &[&str]) -> JobRecord {
    let hosts = hosts.iter().map(|h| ((*h).to_owned(), HostAllocation::default())).collect();
    JobRecord { hosts, ..JobRecord::default() }
}

fn bound(host: &str) -> Reporter {
    Reporter::bound([host.to_owned()].into())
}

fn seen(host: &str, id: &str, at: i64) -> Sighting {
    let seen = SeenJob {
        scheduler: "slurm".into(),
        native: id.into(),
        task: id.into(),
        hosts: [(host.to_owned(), HostAllocation::default())].into(),
        first_ns: at * SECOND,
        last_ns: at * SECOND,
        ..SeenJob::default()
    };
    Sighting { seen, gap_ns: SECOND }
}

/// Posts jobs until one is refused; returns how many were kept and the refusal.
fn fill(r: &Registry, by: &Reporter, prefix: &str, hosts: &[&str]) -> (usize, String) {
    for n in 0..100_000 {
        if let Err(error) = r.begin(by.clone(), &key(&format!("{prefix}{n}")), on(hosts), SECOND) {
            assert!(matches!(error, RegistryError::Full { .. }), "{error}");
            return (n, error.to_string());
        }
    }
    panic!("{prefix}: no bound");
}

#[test]
fn a_sender_at_its_bound_leaves_room_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    let (kept, error) = fill(&r, &bound("n9"), "mine", &["n9"]);
    assert!((100..400).contains(&kept), "{kept}");
    assert!(error.starts_with(&format!("job mine{kept} is not kept: sender host/n9 may take 524288 bytes")), "{error}");
    // The same bound holds after a restart.
    drop(r);
    let r = open(dir.path());
    assert!(matches!(r.begin(bound("n9"), &key("x"), on(&["n9"]), SECOND), Err(RegistryError::Full { .. })));
    // Ended runs of the same sender make room, oldest first.
    r.end(bound("n9"), &key("mine0"), 2 * SECOND).unwrap();
    r.end(bound("n9"), &key("mine1"), 3 * SECOND).unwrap();
    r.begin(bound("n9"), &key("x"), on(&["n9"]), SECOND).unwrap();
    assert!(r.get(&key("mine0")).is_none() && r.get(&key("x")).is_some());
    // Many hosts together leave room for schedulers and callers.
    let mut refused = String::new();
    for n in 0..100 {
        let host = format!("h{n}");
        refused = fill(&r, &bound(&host), &format!("{host}-"), &[&host]).1;
    }
    assert!(refused.contains("all hosts may take 8388608 bytes"), "{refused}");
    r.begin(Source::Slurm, &key("4711"), on(&["n1"]), SECOND).unwrap();
    r.begin(Reporter::caller("ann"), &key("4712"), on(&["n1"]), SECOND).unwrap();
}

#[test]
fn jobs_that_one_host_claims_to_see_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    let all: Vec<Sighting> = (0..5_000).map(|n| seen("n9", &format!("invented{n}"), 1)).collect();
    r.observe(&all, &|_| true);
    let kept = r.list(&Filter::default()).len();
    assert!((100..400).contains(&kept), "{kept}");
    r.observe(&[seen("n1", "real", 1)], &|_| true);
    assert!(r.get(&key("real")).is_some());
}

#[test]
fn large_jobs_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    let name = "x".repeat(400);
    let many: Vec<String> = (0..40_000).map(|n| format!("{name}{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let error = r.begin(Source::Http, &key("1"), on(&many), SECOND).unwrap_err().to_string();
    assert!(error.contains("more than 16777216 for one job"), "{error}");
    // Nor does it grow by corrections.
    r.begin(Source::Http, &key("1"), on(&many[..10_000]), SECOND).unwrap();
    r.amend(Source::Http, &key("1"), on(&many[10_000..20_000])).unwrap();
    assert!(r.amend(Source::Http, &key("1"), on(&many[20_000..40_000])).is_err());
    assert!(r.begin(Source::Http, &key("1"), on(&many[20_000..40_000]), SECOND).is_err());
    assert_eq!(r.get(&key("1")).unwrap().hosts.len(), 20_000);
}

#[test]
fn a_bound_host_reports_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    let text = |e: Result<fabriclens_jobs::Job, RegistryError>| e.unwrap_err().to_string();
    r.begin(Reporter::caller("ann"), &key("4711"), JobRecord { aliases: vec!["4703".into()], ..on(&["n1"]) }, SECOND)
        .unwrap();
    let error = text(r.begin(bound("n9"), &key("1"), on(&["n9", "n1"]), SECOND));
    assert!(error.contains("is bound to n9 and cannot report a job on n1"), "{error}");
    let aliased = JobRecord { aliases: vec!["4711".into()], ..on(&["n9"]) };
    assert!(text(r.begin(bound("n9"), &key("1"), aliased.clone(), SECOND)).contains("cannot give aliases"));
    // Neither by its id, its alias, a correction, nor its end.
    for id in ["4711", "4703"] {
        for error in [
            text(r.begin(bound("n9"), &key(id), on(&["n9"]), 2 * SECOND)),
            text(r.amend(bound("n9"), &key(id), on(&["n9"]))),
            text(r.end(bound("n9"), &key(id), 2 * SECOND)),
        ] {
            assert!(error.starts_with("job 4711 was reported by others"), "{error}");
        }
    }
    assert!(r.amend(bound("n9"), &key("4711"), aliased).is_err());
    let job = r.get(&key("4711")).unwrap();
    assert_eq!((job.hosts.len(), job.end_ns, job.run), (1, None, 1));
    // Its own job it may change and end.
    r.begin(bound("N9"), &key("own"), on(&["n9"]), SECOND).unwrap();
    r.observe(&[seen("n9", "own", 2)], &|_| true);
    r.amend(bound("n9"), &key("own"), JobRecord { name: Some("test".into()), ..on(&[]) }).unwrap();
    assert_eq!(r.end(bound("n9"), &key("own"), 3 * SECOND).unwrap().reported_by, ["host/n9"]);
    // Another host's job is not its own either.
    assert!(text(r.begin(bound("n8"), &key("own"), on(&["n8"]), 2 * SECOND)).contains("was reported by others"));
}

#[test]
fn a_job_that_a_host_announced_first_stays_apart() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    for id in ["4711", "4712", "4713"] {
        r.begin(bound("n9"), &key(id), on(&["n9"]), SECOND).unwrap();
    }
    // The scheduler, a caller and an agent begin runs of their own.
    let job = r.begin(Source::Slurm, &key("4711"), on(&["n1"]), 2 * SECOND).unwrap();
    assert_eq!((job.run, job.hosts.into_keys().collect::<Vec<_>>()), (2, vec!["n1".to_owned()]));
    let job = r.begin(Reporter::caller("ann"), &key("4712"), on(&["n1"]), 2 * SECOND).unwrap();
    assert_eq!((job.run, job.hosts.len()), (2, 1));
    r.observe(&[seen("n1", "4713", 2)], &|_| true);
    let job = r.get(&key("4713")).unwrap();
    assert_eq!((job.run, job.hosts.into_keys().collect::<Vec<_>>()), (2, vec!["n1".to_owned()]));
    assert!(r.begin(bound("n9"), &key("4713"), on(&["n9"]), 3 * SECOND).is_err());
    let running = r.list(&Filter { running: Some(true), ..Filter::default() });
    assert!(running.iter().all(|job| !job.hosts.contains_key("n9")), "{running:?}");
    // An alias that the scheduler gives does not bring the host in.
    r.begin(bound("n9"), &key("4799"), on(&["n9"]), SECOND).unwrap();
    let task = JobRecord { aliases: vec!["4799".into()], ..on(&["n1"]) };
    assert_eq!(r.begin(Source::Slurm, &key("4700_1"), task, 2 * SECOND).unwrap().hosts.len(), 1);
}

#[test]
fn deleted_jobs_stay_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    for (id, by) in [("1", bound("n9")), ("2", bound("n9")), ("3", Reporter::caller("ann"))] {
        r.begin(by, &key(id), on(&["n9"]), SECOND).unwrap();
    }
    // A job of a version without bounds is not read, but can be deleted.
    let huge = vec![b' '; 33 << 20];
    drop(r);
    common::table(dir.path()).put(b"\0huge\0\0\0\0\x01", huge).unwrap();
    let r = open(dir.path());
    assert_eq!(r.list(&Filter::default()).len(), 3);
    assert_eq!(r.remove(&key("huge")).unwrap(), 1);
    assert!(matches!(r.remove(&key("huge")), Err(RegistryError::Unknown(_))));
    assert_eq!(r.remove(&key("1")).unwrap(), 1);
    let of = |sender: &str| r.list(&Filter { sender: Some(sender.into()), ..Filter::default() }).len();
    assert_eq!((of("host/n9"), of("caller/ann")), (1, 1));
    assert_eq!((r.remove_sender("host/n9").unwrap(), r.remove_sender("host/n9").unwrap()), (1, 0));
    drop(r);
    let ids: Vec<String> = open(dir.path()).list(&Filter::default()).into_iter().map(|job| job.id).collect();
    assert_eq!(ids, ["3"]);
}

#[test]
fn deletion_of_a_sender_spares_jobs_that_others_report() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    r.begin(Reporter::caller("mallory"), &key("1"), on(&["n1"]), SECOND).unwrap();
    r.begin(Source::Slurm, &key("1"), on(&["n1"]), SECOND).unwrap();
    r.begin(Reporter::caller("mallory"), &key("2"), on(&["n1"]), SECOND).unwrap();
    assert_eq!(r.remove_sender("caller/mallory").unwrap(), 1);
    let ids: Vec<String> = r.list(&Filter::default()).into_iter().map(|job| job.id).collect();
    assert_eq!(ids, ["1"]);
}

#[test]
fn lists_are_paged_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let r = open(dir.path());
    for n in 0..25 {
        let record = JobRecord { start_ns: Some(n / 3 * SECOND), ..on(&["n1"]) };
        r.begin(Source::Http, &JobKey { cluster: "a:b".into(), id: n.to_string() }, record, 0).unwrap();
    }
    let all: Vec<String> = r.list(&Filter::default()).into_iter().map(|job| job.id).collect();
    let (mut paged, mut after) = (Vec::new(), None::<Cursor>);
    loop {
        let page = r.page(&Filter::default(), after.as_ref(), 10, usize::MAX);
        paged.extend(page.jobs.into_iter().map(|job| job.id));
        let Some(next) = page.next else { break };
        after = Some(next.to_string().parse().unwrap());
    }
    assert_eq!((paged.len(), paged), (25, all));
    assert_eq!(r.page(&Filter::default(), None, 10, 1).jobs.len(), 1, "a page has at least one job");
    for bad in ["", "1:2:3", "1:2:9:x", "a:1:0:x"] {
        assert!(bad.parse::<Cursor>().is_err(), "{bad}");
    }
}
