//! Jobs as agents see them: how they merge with schedulers' records, and when they end.

use crate::common;
use fabriclens_jobs::{
    AgentScan, EndDetector, Filter, HostAllocation, HostNames, JobKey, JobRecord, LastSeen, OpenRun, Registry, SeenJob,
    Sighting, Source,
};
use std::collections::BTreeMap;

const SECOND: i64 = 1_000_000_000;

/// A fleet whose agents scan every ten seconds, and the collector's registry.
struct Fleet {
    dir: tempfile::TempDir,
    registry: Option<Registry>,
    end_detector: EndDetector,
    scans: BTreeMap<String, Vec<i64>>,
    /// All sightings of each job: the content of the store.
    seen: Vec<(SeenJob, Vec<i64>)>,
    now: i64,
}

/// Processes of a job on a host: scheduler, cluster, number, host.
type Processes<'a> = (&'a str, &'a str, &'a str, &'a str);

impl Fleet {
    fn new() -> Self {
        let mut fleet = Self {
            dir: tempfile::tempdir().unwrap(),
            registry: None,
            end_detector: EndDetector::default(),
            scans: BTreeMap::new(),
            seen: Vec::new(),
            now: 1_000_000 * SECOND,
        };
        fleet.restart();
        fleet
    }

    fn restart(&mut self) {
        drop(self.registry.take());
        let table = common::table(self.dir.path());
        self.registry = Some(Registry::open(table, fabriclens_jobs::Limits::default()).unwrap());
        self.end_detector = EndDetector::default();
    }

    fn registry(&self) -> &Registry {
        self.registry.as_ref().unwrap()
    }

    fn report(&self, source: Source, key: &JobKey, record: JobRecord) {
        self.registry().begin(source, key, record, self.now).unwrap();
    }

    /// Lets `seconds` pass in which these agents report these processes; the collector updates every ten seconds if it
    /// is `up`.
    fn pass(&mut self, seconds: i64, agents: &[&str], processes: &[Processes<'_>], up: bool) {
        for _ in 0..seconds / 10 {
            self.now += 10 * SECOND;
            for agent in agents {
                self.scans.entry((*agent).to_owned()).or_default().push(self.now);
            }
            for (scheduler, cluster, native, host) in processes {
                assert!(agents.contains(host), "processes need an agent");
                let same = |s: &SeenJob| s.native == *native && s.hosts.contains_key(*host) && s.cluster == *cluster;
                match self.seen.iter_mut().find(|(s, _)| same(s)) {
                    Some((_, times)) => times.push(self.now),
                    None => {
                        let hosts = [((*host).to_owned(), HostAllocation::default())].into();
                        let [scheduler, cluster, native] = [scheduler, cluster, native].map(|t| (*t).to_owned());
                        let task = native.clone();
                        let seen = SeenJob { scheduler, cluster, native, task, hosts, ..SeenJob::default() };
                        self.seen.push((seen, vec![self.now]));
                    }
                }
            }
            if up {
                self.scan();
            }
        }
    }

    fn scan(&mut self) {
        let from = self.now - 300 * SECOND;
        let sight = |(seen, times): &(SeenJob, Vec<i64>)| {
            let times: Vec<i64> = times.iter().copied().filter(|t| *t >= from).collect();
            let seen = SeenJob { first_ns: *times.first()?, last_ns: *times.last()?, ..seen.clone() };
            Some(Sighting { seen, gap_ns: 10 * SECOND })
        };
        let recent =
            |(h, times): (&String, &Vec<i64>)| (h.clone(), times.iter().copied().filter(|t| *t >= from).collect());
        let scan = AgentScan {
            sightings: self.seen.iter().filter_map(sight).collect(),
            scans: self.scans.iter().map(recent).collect(),
        };
        let stored = |job: &OpenRun| {
            let of = self.seen.iter().filter(|(s, _)| job.names.contains(&s.native));
            let last = |(s, t): &(SeenJob, Vec<i64>)| {
                let at_ns = *t.last().unwrap();
                (s.hosts.keys().next().unwrap().clone(), LastSeen { at_ns, gap_ns: 10 * SECOND })
            };
            of.map(last).collect()
        };
        let standalone = |seen: &SeenJob| seen.scheduler != "kubernetes";
        let registry = self.registry.as_ref().unwrap();
        self.end_detector.update(registry, &scan, self.now, &standalone, &stored);
    }

    /// Cluster and id, run, seconds of start and end since the beginning.
    fn jobs(&self) -> Vec<(String, u32, i64, Option<i64>)> {
        let at = |ns: i64| ns / SECOND - 1_000_000;
        let mut all: Vec<_> = self.registry().list(&Filter::default());
        all.sort_by_key(|j| (j.cluster.clone(), j.id.clone(), j.run));
        let name = |cluster: String, id: String| JobKey { cluster, id }.to_string();
        all.into_iter().map(|j| (name(j.cluster, j.id), j.run, at(j.start_ns), j.end_ns.map(at))).collect()
    }

    fn start(&self, seconds: i64) -> Option<i64> {
        Some((1_000_000 + seconds) * SECOND)
    }
}

fn key(cluster: &str, id: &str) -> JobKey {
    JobKey { cluster: cluster.into(), id: id.into() }
}

fn on(hosts: &[&str]) -> BTreeMap<String, HostAllocation> {
    hosts.iter().map(|h| ((*h).to_owned(), HostAllocation::default())).collect()
}

fn job(name: &str, run: u32, start: i64, end: Option<i64>) -> (String, u32, i64, Option<i64>) {
    (name.to_owned(), run, start, end)
}

#[test]
fn agent_only_job_ends_with_its_processes() {
    let mut fleet = Fleet::new();
    fleet.pass(60, &["a", "b"], &[("slurm", "", "7", "a"), ("slurm", "", "7", "b")], true);
    assert_eq!(fleet.jobs(), [job("7", 1, 10, None)]);
    let view = fleet.registry().get(&key("", "7")).unwrap();
    assert_eq!((view.sources.as_slice(), view.labels["scheduler"].as_str()), (&[Source::Agent][..], "slurm"));
    // It continues on one host.
    fleet.pass(100, &["a", "b"], &[("slurm", "", "7", "a")], true);
    assert_eq!(fleet.jobs()[0].3, None);
    // Another job begins a moment after its end, and ends first.
    fleet.pass(20, &["a", "b"], &[("slurm", "", "8", "a")], true);
    fleet.pass(60, &["a", "b"], &[], true);
    assert_eq!(fleet.jobs(), [job("7", 1, 10, Some(160)), job("8", 1, 170, Some(180))]);
}

#[test]
fn silence_and_restart_end_no_job() {
    let mut fleet = Fleet::new();
    let both = [("slurm", "", "7", "a"), ("slurm", "", "7", "b")];
    fleet.pass(60, &["a", "b"], &both, true);
    fleet.pass(600, &[], &[], true);
    assert_eq!(fleet.jobs(), [job("7", 1, 10, None)]);
    // The agents are back; their first reports may not have scanned processes yet.
    fleet.pass(20, &["a", "b"], &[], true);
    fleet.pass(60, &["a", "b"], &both, true);
    assert_eq!(fleet.jobs(), [job("7", 1, 10, None)], "and it is the same run");
    // The collector is back later.
    fleet.pass(3600, &["a", "b"], &both, false);
    fleet.restart();
    fleet.pass(60, &["a", "b"], &both, true);
    assert_eq!(fleet.jobs(), [job("7", 1, 10, None)]);
    // The job ends while the collector is down: the end is that of its last process.
    fleet.pass(600, &["a", "b"], &both[..1], false);
    fleet.pass(3600, &["a", "b"], &[], false);
    fleet.restart();
    fleet.pass(10, &["a", "b"], &[], true);
    assert_eq!(fleet.jobs(), [job("7", 1, 10, Some(5000))]);
    // If a host dies with its job while others saw it end, the end is delayed by some minutes.
    fleet.pass(60, &["a", "b"], &[("slurm", "", "9", "a"), ("slurm", "", "9", "b")], true);
    fleet.pass(200, &["a"], &[], true);
    assert_eq!(fleet.jobs()[1].3, None);
    fleet.pass(200, &["a"], &[], true);
    assert_eq!(fleet.jobs()[1], job("9", 1, 8620, Some(8670)));
    // A job on a host that stays silent ends after a day.
    fleet.pass(30, &["b"], &[("slurm", "", "10", "b")], true);
    fleet.pass(86_000, &[], &[], false);
    fleet.scan();
    assert_eq!(fleet.jobs()[0].3, None);
    fleet.pass(1000, &[], &[], true);
    assert_eq!(fleet.jobs()[0], job("10", 1, 9080, Some(9100)));
}

#[test]
fn job_number_and_task_id_are_one_job() {
    let mut fleet = Fleet::new();
    let slurm = |start| JobRecord {
        name: Some("sweep".into()),
        aliases: vec!["4703".into()],
        start_ns: start,
        hosts: on(&["n1"]),
        ..JobRecord::default()
    };
    let task = key("lab", "4700_3");
    // Agents first, then Slurm: the agents' job is merged into Slurm's.
    fleet.pass(20, &["n1.example", "n2.example"], &[("slurm", "", "4703", "n1.example")], true);
    assert_eq!(fleet.jobs(), [job("4703", 1, 10, None)]);
    fleet.report(Source::Slurm, &task, slurm(fleet.start(5)));
    assert_eq!(fleet.jobs(), [job("lab/4700_3", 1, 5, None)]);
    let mut agents = HostNames::default();
    agents.add_hosts(["n1.example", "n2.example"]);
    fleet.registry().set_host_names(agents);
    // Both are one from now on, and a host that Slurm does not name is reported, but not part of the job.
    let two = [("slurm", "", "4703", "n1.example"), ("slurm", "lab", "4703", "n2.example")];
    fleet.pass(20, &["n1.example", "n2.example"], &two, true);
    let view = fleet.registry().get(&key("lab", "4703")).unwrap();
    assert_eq!((view.id.as_str(), view.aliases.as_slice()), ("4700_3", &["4703".to_owned()][..]));
    assert_eq!(view.hosts.keys().collect::<Vec<_>>(), ["n1.example"], "Slurm's n1 is n1.example");
    let seen = "seen on n2.example, which slurm does not name: not part of the job";
    assert_eq!(view.disagreements, [seen], "five seconds are no difference");
    // Without processes the job runs as long as Slurm lists it (an allocation between two steps).
    fleet.pass(120, &["n1.example", "n2.example"], &[], true);
    assert_eq!(fleet.jobs(), [job("lab/4700_3", 1, 5, None)]);
    // Requeued one second after its end: another run, which agents join.
    fleet.report(Source::Slurm, &task, slurm(fleet.start(161)));
    fleet.pass(20, &["n1.example", "n2.example"], &two[..1], true);
    assert_eq!(fleet.jobs(), [job("lab/4700_3", 1, 5, Some(161)), job("lab/4700_3", 2, 161, None)]);
    let view = fleet.registry().get(&task).unwrap();
    assert_eq!((view.sources.as_slice(), view.hosts.len()), (&[Source::Agent, Source::Slurm][..], 1));
}

#[test]
fn same_number_in_two_clusters_is_two_jobs() {
    let mut fleet = Fleet::new();
    for (cluster, host) in [("east", "e1"), ("west", "w1")] {
        let record = JobRecord { start_ns: fleet.start(0), hosts: on(&[host]), ..JobRecord::default() };
        fleet.report(Source::Slurm, &key(cluster, "7"), record);
    }
    // One host knows its cluster, the other does not, the third is in no record.
    let seen = [
        ("slurm", "", "7", "e1"),
        ("slurm", "west", "7", "w1"),
        ("slurm", "west", "7", "w2"),
        ("slurm", "", "9", "e1"),
    ];
    fleet.pass(30, &["e1", "w1", "w2"], &seen, true);
    assert_eq!(fleet.jobs(), [job("9", 1, 10, None), job("east/7", 1, 0, None), job("west/7", 1, 0, None)]);
    let hosts = |cluster| fleet.registry().get(&key(cluster, "7")).unwrap().hosts.into_keys().collect::<Vec<_>>();
    assert_eq!((hosts("east"), hosts("west")), (vec!["e1".to_owned()], vec!["w1".to_owned()]));
    // Without a cluster and a known host it is a job of its own.
    fleet.pass(30, &["e1", "w1", "w2", "x"], &[("slurm", "", "7", "x")], true);
    assert_eq!(fleet.jobs()[0], job("7", 1, 40, None));
}

#[test]
fn missing_end_comes_from_agents() {
    let mut fleet = Fleet::new();
    fleet.report(
        Source::Http,
        &key("", "7"),
        JobRecord { start_ns: fleet.start(0), hosts: on(&["a"]), ..JobRecord::default() },
    );
    fleet.pass(60, &["a"], &[("slurm", "", "7", "a")], true);
    fleet.pass(60, &["a"], &[], true);
    assert_eq!(fleet.jobs(), [job("7", 1, 0, Some(60))]);
    fleet.registry().end(Source::File, &key("", "7"), fleet.start(200).unwrap()).unwrap();
    let view = fleet.registry().get(&key("", "7")).unwrap();
    assert_eq!(view.disagreements, ["end: agent first, file 140 s later"]);
}

#[test]
fn reappearing_processes_continue_the_run() {
    let mut fleet = Fleet::new();
    fleet.report(
        Source::Http,
        &key("", "7"),
        JobRecord { start_ns: fleet.start(0), hosts: on(&["a"]), ..JobRecord::default() },
    );
    fleet.pass(60, &["a"], &[("slurm", "", "7", "a")], true);
    fleet.pass(60, &["a"], &[], true);
    assert_eq!(fleet.jobs(), [job("7", 1, 0, Some(60))]);
    // No process between two steps: the same run.
    fleet.pass(60, &["a"], &[("slurm", "", "7", "a")], true);
    assert_eq!(fleet.jobs(), [job("7", 1, 0, None)]);
    fleet.pass(3600, &["a"], &[], true);
    fleet.pass(30, &["a"], &[("slurm", "", "7", "a")], true);
    assert_eq!(fleet.jobs(), [job("7", 1, 0, Some(180)), job("7", 2, 3790, None)]);
    // Processes that outlive the reported end are no new run.
    fleet.registry().end(Source::Http, &key("", "7"), fleet.start(3800).unwrap()).unwrap();
    fleet.pass(120, &["a"], &[("slurm", "", "7", "a")], true);
    assert_eq!(fleet.jobs()[1], job("7", 2, 3790, Some(3800)));
}

#[test]
fn pods_need_a_listed_job() {
    let mut fleet = Fleet::new();
    let pods = [("kubernetes", "", "uid-1", "a"), ("kubernetes", "", "uid-2", "b")];
    fleet.pass(30, &["a", "b"], &pods, true);
    assert_eq!(fleet.jobs(), []);
    let record = |pods: &[&str], start| JobRecord {
        aliases: pods.iter().map(|p| (*p).to_owned()).collect(),
        start_ns: start,
        hosts: on(&["a", "b"]),
        ..JobRecord::default()
    };
    let train = key("", "ml/job/train");
    fleet.report(Source::Kubernetes, &train, record(&["uid-1", "uid-2"], fleet.start(5)));
    fleet.pass(30, &["a", "b"], &pods, true);
    assert_eq!(fleet.jobs(), [job("ml/job/train", 1, 5, None)]);
    let view = fleet.registry().get(&train).unwrap();
    assert_eq!(view.hosts.len(), 2);
    assert_eq!(["ml/job/train", "uid-2", "uid-3"].map(|name| view.has_name(name)), [true, true, false]);
    // Kubernetes deletes the first pod, so the list begins later: the run and its start stay.
    fleet.report(Source::Kubernetes, &train, record(&["uid-2"], fleet.start(20)));
    // All pods failed, and the job is retried with others.
    let over = JobRecord { end_ns: fleet.start(70), ..record(&["uid-2"], fleet.start(20)) };
    fleet.report(Source::Kubernetes, &train, over);
    assert_eq!(fleet.jobs(), [job("ml/job/train", 1, 5, Some(70))]);
    fleet.report(Source::Kubernetes, &train, record(&["uid-2", "uid-3"], fleet.start(20)));
    assert_eq!(fleet.jobs(), [job("ml/job/train", 1, 5, None)]);
}
