//! Jobs of recorded hosts, and of this host with real control groups and processes.

use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_samplers::target::SamplingTarget;
use fabriclens_agent_samplers::{Sampler, by_name};
use fabriclens_agent_workload::cgroup::of_process;
use fabriclens_agent_workload::environ::of_environment;
use fabriclens_agent_workload::mounts::hierarchies;
use fabriclens_testing::eventually;
use fabriclens_wire::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Recorded control groups and processes of Slurm hosts.
fn recorded(name: &str) -> PathBuf {
    fabriclens_testing::recordings().join("workload").join(name)
}

fn opened(roots: Roots) -> Box<dyn Sampler> {
    let target = SamplingTarget::host(&Arc::new(roots), &Arc::from("h"), &Arc::default());
    (by_name("workload").unwrap().open)(&target).unwrap()
}

/// Labels and value of each series of one sample.
fn sampled(sampler: &mut dyn Sampler) -> Vec<(BTreeMap<String, String>, u64)> {
    let mut batch = Batch::default();
    sampler.sample(&[], &mut batch).unwrap();
    let facts = batch.facts.iter().filter(|(column, _)| column.metric.name == "fabric.job.processes");
    facts
        .map(|(column, value)| {
            let Value::Int(count) = value else { panic!("{value:?} is no count") };
            (column.labels.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(), *count)
        })
        .collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
#[ignore = "needs: recordings"]
fn recorded_cgroups_parse() {
    let from = recorded("cgroup_exporter-slurm-cgroup-v1-v2");
    let host = |mounts: &str, groups: &[&str]| {
        let tree = tempfile::tempdir().unwrap();
        for group in groups {
            copy(&from.join(group), &tree.path().join("sys/fs/cgroup").join(group));
        }
        fs::create_dir_all(tree.path().join("proc")).unwrap();
        fs::write(tree.path().join("proc/mounts"), mounts).unwrap();
        let series = sampled(&mut *opened(Roots::new(Some(tree.path().to_owned()))));
        let told = |(labels, count): (BTreeMap<String, String>, u64)| {
            let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
            format!("{} {} {} {} {count}", label("scheduler"), label("job"), label("user"), label("cgroup"))
        };
        series.into_iter().map(told).collect::<Vec<_>>()
    };
    let controllers = ["cpuacct", "cpuset", "memory"];
    let old = controllers.map(|c| format!("cgroup /sys/fs/cgroup/{c} cgroup rw,{c} 0 0\n")).concat();
    assert_eq!(host(&old, &controllers), ["slurm 10 20821  2", "slurm 11 20821  6"]);
    let scope = "slurm 4  /system.slice/slurmstepd.scope/job_4";
    let new = [
        format!("{scope}/step_0/slurm 1"),
        format!("{scope}/step_0/user/task_0 2"),
        format!("{scope}/step_extern/slurm 1"),
        format!("{scope}/step_extern/user/task_0 1"),
    ];
    assert_eq!(host("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", &["system.slice"]), new);
}

#[test]
#[ignore = "needs: recordings"]
fn recorded_processes_parse() {
    let dir = recorded("ceems-proc-slurm-k8s-pids");
    let (mut groups, mut environments) = (0, 0);
    for entry in fs::read_dir(dir.join("proc")).unwrap().flatten() {
        if let Ok(lines) = fs::read_to_string(entry.path().join("cgroup")) {
            let place = of_process(&lines).unwrap_or_else(|| panic!("{}: no job in {lines}", entry.path().display()));
            let unified = lines.starts_with("0::");
            let want = if unified { ("slurm", "1320003", None) } else { ("slurm", "4824887", Some(1000)) };
            assert_eq!((place.scheduler, &*place.job, place.uid), want);
            groups += 1;
        }
        if let Ok(bytes) = fs::read(entry.path().join("environ")) {
            let text = String::from_utf8(bytes.clone()).unwrap();
            let want = text.split('\0').find_map(|pair| pair.strip_prefix("SLURM_JOB_ID="));
            let told = of_environment(&bytes);
            assert_eq!(told.as_ref().map(|told| &*told.job), want, "{}", entry.path().display());
            environments += 1;
        }
    }
    assert!(groups >= 15 && environments >= 20, "{groups} groups, {environments} environments");
}

#[test]
fn opaque_host_delays_nothing() {
    let tree = tempfile::tempdir().unwrap();
    let roots = Arc::new(Roots::new(Some(tree.path().to_owned())));
    let target = SamplingTarget::host(&roots, &Arc::from("h"), &Arc::default());
    let opened = (by_name("workload").unwrap().open)(&target);
    assert!(matches!(opened, Err(SampleError::Absent(_))));
    target.jobs.wait(Duration::from_secs(3600));
}

/// A waiting process in a control group of its own; both are removed when dropped.
struct Running {
    child: std::process::Child,
    group: PathBuf,
}

impl Running {
    #[expect(clippy::disallowed_methods, reason = "a test sets up what it measures; the agent starts no process")]
    fn new(group: &Path, environment: &[(&str, &str)]) -> Self {
        fs::create_dir_all(group).unwrap();
        let mut command = std::process::Command::new("sleep");
        let child = command.arg("1000").envs(environment.iter().copied()).spawn().unwrap();
        // The kernel returns before the program has its environment.
        let environ = format!("/proc/{}/environ", child.id());
        eventually("the program has its environment", Duration::from_secs(20), || {
            !fs::read(&environ).unwrap().is_empty()
        });
        fs::write(group.join("cgroup.procs"), child.id().to_string()).unwrap();
        Self { child, group: group.to_owned() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
        _ = fs::remove_dir(&self.group);
    }
}

/// Removes the empty directories that a test created below the mount.
struct Below(PathBuf);

impl Drop for Below {
    fn drop(&mut self) {
        fn remove(dir: &Path) {
            let below = fs::read_dir(dir).into_iter().flatten().flatten();
            below.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir())).for_each(|e| remove(&e.path()));
            _ = fs::remove_dir(dir);
        }
        remove(&self.0);
    }
}

#[test]
#[ignore = "needs: cgroup2"]
fn local_jobs_start_and_end() {
    let mount = hierarchies(&Roots::new(None)).into_iter().find(|hierarchy| hierarchy.unified);
    let mount = mount.expect("control groups of version 2 are mounted");
    let name = "fabriclens-workload-test";
    let below = Below(mount.mount.join(name));
    let scope = below.0.join("here_slurmstepd.scope");
    fs::create_dir_all(&scope).unwrap();
    let mut sampler = opened(Roots::new(None));
    let mut seen = |what: &str| -> Vec<(String, String, u64)> {
        let mine = sampled(&mut *sampler)
            .into_iter()
            .filter(|(labels, _)| labels.get("cgroup").is_some_and(|c| c.contains(name)));
        let told = mine.map(|(labels, count)| (labels["task"].clone(), labels["cgroup"].clone(), count)).collect();
        println!("{what}: {told:?}");
        told
    };
    assert_eq!(seen("no job"), []);

    let group = scope.join("job_4703/step_0/user/task_0");
    let array = [("SLURM_JOB_ID", "4703"), ("SLURM_ARRAY_JOB_ID", "4700"), ("SLURM_ARRAY_TASK_ID", "3")];
    let first = Running::new(&group, &array);
    let path = format!("/{name}/here_slurmstepd.scope/job_4703/step_0/user/task_0");
    assert_eq!(seen("a task of an array begins"), [("4700_3".to_owned(), path.clone(), 1)]);
    let second = Running::new(&scope.join("job_4704/step_0"), &[("SLURM_JOB_ID", "4704")]);
    assert_eq!(seen("another job").len(), 2);
    drop(second);
    fs::remove_dir(scope.join("job_4704")).unwrap();
    assert_eq!(seen("which ends").len(), 1);

    // The same job is requeued between two samples: its series ends and begins again.
    drop(first);
    for dir in ["job_4703/step_0/user", "job_4703/step_0", "job_4703"] {
        fs::remove_dir(scope.join(dir)).unwrap();
    }
    let again = Running::new(&group, &array);
    assert_eq!(seen("its namesake ends"), []);
    assert_eq!(seen("requeued"), [("4700_3".to_owned(), path, 1)]);
    drop(again);
    assert_eq!(seen("a group without processes"), []);
}
