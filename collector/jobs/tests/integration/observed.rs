//! Jobs as agents see them: how they join what schedulers say, and when they are over.

use crate::common;
use fabriclens_jobs::{
    Agents, Facts, Filter, Key, LastSeen, Look, Observed, Place, Registry, Seen, Sighting, Source, Watch,
};
use std::collections::BTreeMap;

const SECOND: i64 = 1_000_000_000;

/// A fleet whose agents look each ten seconds, and the collector's registry.
struct Lab {
    dir: tempfile::TempDir,
    registry: Option<Registry>,
    watch: Watch,
    looked: BTreeMap<String, Vec<i64>>,
    /// Where each job was ever seen, and when: what is in the store.
    seen: Vec<(Seen, Vec<i64>)>,
    now: i64,
}

/// Processes of a job on a host: scheduler, cluster, number, host.
type Processes<'a> = (&'a str, &'a str, &'a str, &'a str);

impl Lab {
    fn new() -> Self {
        let mut lab = Self {
            dir: tempfile::tempdir().unwrap(),
            registry: None,
            watch: Watch::default(),
            looked: BTreeMap::new(),
            seen: Vec::new(),
            now: 1_000_000 * SECOND,
        };
        lab.restart();
        lab
    }

    fn restart(&mut self) {
        drop(self.registry.take());
        let tree = common::database(self.dir.path()).open_tree("jobs").unwrap();
        self.registry = Some(Registry::open(tree).unwrap());
        self.watch = Watch::default();
    }

    fn registry(&self) -> &Registry {
        self.registry.as_ref().unwrap()
    }

    fn tell(&self, source: Source, key: &Key, facts: Facts) {
        self.registry().begin(source, key, facts, self.now).unwrap();
    }

    /// For some seconds these agents report these processes; the collector looks each ten seconds if it is `up`.
    fn pass(&mut self, seconds: i64, agents: &[&str], processes: &[Processes<'_>], up: bool) {
        for _ in 0..seconds / 10 {
            self.now += 10 * SECOND;
            for agent in agents {
                self.looked.entry((*agent).to_owned()).or_default().push(self.now);
            }
            for (scheduler, cluster, native, host) in processes {
                assert!(agents.contains(host), "who reports has an agent");
                let same = |s: &Seen| s.native == *native && s.hosts.contains_key(*host) && s.cluster == *cluster;
                match self.seen.iter_mut().find(|(s, _)| same(s)) {
                    Some((_, times)) => times.push(self.now),
                    None => {
                        let hosts = [((*host).to_owned(), Place::default())].into();
                        let [scheduler, cluster, native] = [scheduler, cluster, native].map(|t| (*t).to_owned());
                        let task = native.clone();
                        let seen = Seen { scheduler, cluster, native, task, hosts, ..Seen::default() };
                        self.seen.push((seen, vec![self.now]));
                    }
                }
            }
            if up {
                self.look();
            }
        }
    }

    fn look(&mut self) {
        let from = self.now - 300 * SECOND;
        let sight = |(seen, times): &(Seen, Vec<i64>)| {
            let times: Vec<i64> = times.iter().copied().filter(|t| *t >= from).collect();
            let seen = Seen { first_ns: *times.first()?, last_ns: *times.last()?, ..seen.clone() };
            Some(Sighting { seen, gap_ns: 10 * SECOND })
        };
        let recent =
            |(h, times): (&String, &Vec<i64>)| (h.clone(), times.iter().copied().filter(|t| *t >= from).collect());
        let look = Look {
            sightings: self.seen.iter().filter_map(sight).collect(),
            looked: self.looked.iter().map(recent).collect(),
        };
        let stored = |job: &Observed| {
            let of = self.seen.iter().filter(|(s, _)| job.names.contains(&s.native));
            let last = |(s, t): &(Seen, Vec<i64>)| {
                let at_ns = *t.last().unwrap();
                (s.hosts.keys().next().unwrap().clone(), LastSeen { at_ns, gap_ns: 10 * SECOND })
            };
            of.map(last).collect()
        };
        let alone = |seen: &Seen| seen.scheduler != "kubernetes";
        let registry = self.registry.as_ref().unwrap();
        self.watch.round(registry, &look, self.now, &alone, &stored);
    }

    /// Cluster, id, run, seconds of start and end since the beginning.
    fn jobs(&self) -> Vec<(String, u32, i64, Option<i64>)> {
        let at = |ns: i64| ns / SECOND - 1_000_000;
        let mut all: Vec<_> = self.registry().list(&Filter::default());
        all.sort_by_key(|j| (j.cluster.clone(), j.id.clone(), j.run));
        let name = |cluster: String, id: String| Key { cluster, id }.to_string();
        all.into_iter().map(|j| (name(j.cluster, j.id), j.run, at(j.start_ns), j.end_ns.map(at))).collect()
    }

    fn start(&self, seconds: i64) -> Option<i64> {
        Some((1_000_000 + seconds) * SECOND)
    }
}

fn key(cluster: &str, id: &str) -> Key {
    Key { cluster: cluster.into(), id: id.into() }
}

fn on(hosts: &[&str]) -> BTreeMap<String, Place> {
    hosts.iter().map(|h| ((*h).to_owned(), Place::default())).collect()
}

fn job(name: &str, run: u32, start: i64, end: Option<i64>) -> (String, u32, i64, Option<i64>) {
    (name.to_owned(), run, start, end)
}

#[test]
fn a_job_that_only_agents_see_is_a_job_and_ends_with_its_processes() {
    let mut lab = Lab::new();
    lab.pass(60, &["a", "b"], &[("slurm", "", "7", "a"), ("slurm", "", "7", "b")], true);
    assert_eq!(lab.jobs(), [job("7", 1, 10, None)]);
    let view = lab.registry().get(&key("", "7")).unwrap();
    assert_eq!((view.sources.as_slice(), view.labels["scheduler"].as_str()), (&[Source::Agent][..], "slurm"));
    // On one host it goes on.
    lab.pass(100, &["a", "b"], &[("slurm", "", "7", "a")], true);
    assert_eq!(lab.jobs()[0].3, None);
    // Another begins a moment after its end, and ends first: two jobs.
    lab.pass(20, &["a", "b"], &[("slurm", "", "8", "a")], true);
    lab.pass(60, &["a", "b"], &[], true);
    assert_eq!(lab.jobs(), [job("7", 1, 10, Some(160)), job("8", 1, 170, Some(180))]);
}

#[test]
fn an_agent_that_is_silent_ends_no_job_and_neither_does_a_restart() {
    let mut lab = Lab::new();
    let both = [("slurm", "", "7", "a"), ("slurm", "", "7", "b")];
    lab.pass(60, &["a", "b"], &both, true);
    lab.pass(600, &[], &[], true);
    assert_eq!(lab.jobs(), [job("7", 1, 10, None)]);
    // Agents are there again; their first reports may not have looked at processes yet.
    lab.pass(20, &["a", "b"], &[], true);
    lab.pass(60, &["a", "b"], &both, true);
    assert_eq!(lab.jobs(), [job("7", 1, 10, None)], "and it is the same run");
    // So is the collector, later than that.
    lab.pass(3600, &["a", "b"], &both, false);
    lab.restart();
    lab.pass(60, &["a", "b"], &both, true);
    assert_eq!(lab.jobs(), [job("7", 1, 10, None)]);
    // It ends while the collector is away: the end is that of its last process.
    lab.pass(600, &["a", "b"], &both[..1], false);
    lab.pass(3600, &["a", "b"], &[], false);
    lab.restart();
    lab.pass(10, &["a", "b"], &[], true);
    assert_eq!(lab.jobs(), [job("7", 1, 10, Some(5000))]);
    // A host that died with its job is waited for some minutes, when others saw it go.
    lab.pass(60, &["a", "b"], &[("slurm", "", "9", "a"), ("slurm", "", "9", "b")], true);
    lab.pass(200, &["a"], &[], true);
    assert_eq!(lab.jobs()[1].3, None);
    lab.pass(200, &["a"], &[], true);
    assert_eq!(lab.jobs()[1], job("9", 1, 8620, Some(8670)));
    // A host of which nothing is heard any more has no job for ever.
    lab.pass(30, &["b"], &[("slurm", "", "10", "b")], true);
    lab.pass(86_000, &[], &[], false);
    lab.look();
    assert_eq!(lab.jobs()[0].3, None);
    lab.pass(1000, &[], &[], true);
    assert_eq!(lab.jobs()[0], job("10", 1, 9080, Some(9100)));
}

#[test]
fn what_hosts_call_by_number_is_the_job_that_slurm_calls_by_task_whoever_tells_first() {
    let mut lab = Lab::new();
    let slurm = |start| Facts {
        name: Some("sweep".into()),
        aliases: vec!["4703".into()],
        start_ns: start,
        hosts: on(&["n1"]),
        ..Facts::default()
    };
    let task = key("lab", "4700_3");
    // Agents first, then Slurm: what was a job of its own is taken over.
    lab.pass(20, &["n1.example", "n2.example"], &[("slurm", "", "4703", "n1.example")], true);
    assert_eq!(lab.jobs(), [job("4703", 1, 10, None)]);
    lab.tell(Source::Slurm, &task, slurm(lab.start(5)));
    assert_eq!(lab.jobs(), [job("lab/4700_3", 1, 5, None)]);
    let mut agents = Agents::default();
    agents.add(["n1.example", "n2.example"]);
    lab.registry().set_agents(agents);
    // From then on both are one, and a host that Slurm does not name is told.
    let two = [("slurm", "", "4703", "n1.example"), ("slurm", "lab", "4703", "n2.example")];
    lab.pass(20, &["n1.example", "n2.example"], &two, true);
    let view = lab.registry().get(&key("lab", "4703")).unwrap();
    assert_eq!((view.id.as_str(), view.aliases.as_slice()), ("4700_3", &["4703".to_owned()][..]));
    assert_eq!(view.hosts.keys().collect::<Vec<_>>(), ["n1.example", "n2.example"], "Slurm's n1 is n1.example");
    assert_eq!(view.disagreements, ["seen on n2.example, which slurm does not name"], "five seconds are no difference");
    // Its processes go, and Slurm says that it runs: it does (an allocation between two steps).
    lab.pass(120, &["n1.example", "n2.example"], &[], true);
    assert_eq!(lab.jobs(), [job("lab/4700_3", 1, 5, None)]);
    // It is requeued a second after its end: another run, which agents join.
    lab.tell(Source::Slurm, &task, slurm(lab.start(161)));
    lab.pass(20, &["n1.example", "n2.example"], &two[..1], true);
    assert_eq!(lab.jobs(), [job("lab/4700_3", 1, 5, Some(161)), job("lab/4700_3", 2, 161, None)]);
    let view = lab.registry().get(&task).unwrap();
    assert_eq!((view.sources.as_slice(), view.hosts.len()), (&[Source::Agent, Source::Slurm][..], 1));
}

#[test]
fn the_same_number_in_two_clusters_is_two_jobs_and_a_node_may_be_in_both() {
    let mut lab = Lab::new();
    for (cluster, host) in [("east", "e1"), ("west", "w1")] {
        let facts = Facts { start_ns: lab.start(0), hosts: on(&[host]), ..Facts::default() };
        lab.tell(Source::Slurm, &key(cluster, "7"), facts);
    }
    // One host knows its cluster, the other does not, a third is told by nobody.
    let seen = [
        ("slurm", "", "7", "e1"),
        ("slurm", "west", "7", "w1"),
        ("slurm", "west", "7", "w2"),
        ("slurm", "", "9", "e1"),
    ];
    lab.pass(30, &["e1", "w1", "w2"], &seen, true);
    assert_eq!(lab.jobs(), [job("9", 1, 10, None), job("east/7", 1, 0, None), job("west/7", 1, 0, None)]);
    let hosts = |cluster| lab.registry().get(&key(cluster, "7")).unwrap().hosts.into_keys().collect::<Vec<_>>();
    assert_eq!((hosts("east"), hosts("west")), (vec!["e1".to_owned()], vec!["w1".to_owned(), "w2".to_owned()]));
    // Where nothing tells whose it is, it is nobody's.
    lab.pass(30, &["e1", "w1", "w2", "x"], &[("slurm", "", "7", "x")], true);
    assert_eq!(lab.jobs()[0], job("7", 1, 40, None));
}

#[test]
fn a_hook_that_never_told_the_end_is_put_right() {
    let mut lab = Lab::new();
    lab.tell(Source::Http, &key("", "7"), Facts { start_ns: lab.start(0), hosts: on(&["a"]), ..Facts::default() });
    lab.pass(60, &["a"], &[("slurm", "", "7", "a")], true);
    lab.pass(60, &["a"], &[], true);
    assert_eq!(lab.jobs(), [job("7", 1, 0, Some(60))]);
    lab.registry().end(Source::File, &key("", "7"), lab.start(200).unwrap()).unwrap();
    let view = lab.registry().get(&key("", "7")).unwrap();
    assert_eq!(view.disagreements, ["end: agent 0 s later, file 140 s later"]);
}

#[test]
fn processes_that_come_back_are_of_the_same_run_for_a_while() {
    let mut lab = Lab::new();
    lab.tell(Source::Http, &key("", "7"), Facts { start_ns: lab.start(0), hosts: on(&["a"]), ..Facts::default() });
    lab.pass(60, &["a"], &[("slurm", "", "7", "a")], true);
    lab.pass(60, &["a"], &[], true);
    assert_eq!(lab.jobs(), [job("7", 1, 0, Some(60))]);
    // Between two steps there was no process: the same run.
    lab.pass(60, &["a"], &[("slurm", "", "7", "a")], true);
    assert_eq!(lab.jobs(), [job("7", 1, 0, None)]);
    lab.pass(3600, &["a"], &[], true);
    lab.pass(30, &["a"], &[("slurm", "", "7", "a")], true);
    assert_eq!(lab.jobs(), [job("7", 1, 0, Some(180)), job("7", 2, 3790, None)]);
    // Processes that outlive a told end for a while are no new run.
    lab.registry().end(Source::Http, &key("", "7"), lab.start(3800).unwrap()).unwrap();
    lab.pass(120, &["a"], &[("slurm", "", "7", "a")], true);
    assert_eq!(lab.jobs()[1], job("7", 2, 3790, Some(3800)));
}

#[test]
fn pods_are_of_the_job_that_kubernetes_names_and_none_without_it() {
    let mut lab = Lab::new();
    let pods = [("kubernetes", "", "uid-1", "a"), ("kubernetes", "", "uid-2", "b")];
    lab.pass(30, &["a", "b"], &pods, true);
    assert_eq!(lab.jobs(), []);
    let facts = |pods: &[&str], start| Facts {
        aliases: pods.iter().map(|p| (*p).to_owned()).collect(),
        start_ns: start,
        hosts: on(&["a"]),
        ..Facts::default()
    };
    let train = key("", "ml/job/train");
    lab.tell(Source::Kubernetes, &train, facts(&["uid-1", "uid-2"], lab.start(5)));
    lab.pass(30, &["a", "b"], &pods, true);
    assert_eq!(lab.jobs(), [job("ml/job/train", 1, 5, None)]);
    let view = lab.registry().get(&train).unwrap();
    assert_eq!(view.hosts.len(), 2);
    assert_eq!(["ml/job/train", "uid-2", "uid-3"].map(|name| view.is_called(name)), [true, true, false]);
    // The first pod is forgotten, the list begins later: the same run, whose start stays.
    lab.tell(Source::Kubernetes, &train, facts(&["uid-2"], lab.start(20)));
    // All its pods failed, and it tries again with others.
    let over = Facts { end_ns: lab.start(70), ..facts(&["uid-2"], lab.start(20)) };
    lab.tell(Source::Kubernetes, &train, over);
    assert_eq!(lab.jobs(), [job("ml/job/train", 1, 5, Some(70))]);
    lab.tell(Source::Kubernetes, &train, facts(&["uid-2", "uid-3"], lab.start(20)));
    assert_eq!(lab.jobs(), [job("ml/job/train", 1, 5, None)]);
}
