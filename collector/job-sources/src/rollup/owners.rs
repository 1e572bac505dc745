//! Whose a value is: from its labels to the jobs that it belongs to, how surely, and to which rail.

use std::collections::HashMap;
use std::sync::Arc;

use fabriclens_jobs::{Attribution, Job, Occupancy};
use fabriclens_model::Labels;
use fabriclens_promql::Sample;

use super::table::By;

/// What is known at one round.
pub(super) struct Owners<'a> {
    on: Occupancy<'a>,
    /// By host and control group, where agents see jobs: the job's place in the list.
    cgroups: HashMap<(String, String), usize>,
    /// Hosts and the jobs whose processes the agent sees there.
    seen: std::collections::HashSet<(String, usize)>,
    /// By host and device, where the agent knows it.
    /// By host and device.
    rails: HashMap<String, HashMap<String, Arc<str>>>,
}

impl<'a> Owners<'a> {
    /// `processes` are samples of `fabric_job_processes`, `ports` those of `fabric_port_info` that have a rail.
    pub(super) fn new(jobs: &'a [Job], processes: &[Sample], ports: &[Sample]) -> Self {
        let on = Occupancy::new(jobs);
        let (mut cgroups, mut seen) = (HashMap::new(), std::collections::HashSet::new());
        for s in processes {
            let l = |name| s.labels.get(name);
            let fits = |n: &usize| is(&jobs[*n], l("cluster"), l("job"), l("task"));
            let Some(job) = on.on_host(l("host")).find(fits) else { continue };
            seen.insert((l("host").to_owned(), job));
            if !l("cgroup").is_empty() {
                cgroups.insert((l("host").to_owned(), l("cgroup").to_owned()), job);
            }
        }
        let mut rails: HashMap<String, HashMap<String, Arc<str>>> = HashMap::new();
        for l in ports.iter().map(|s| &s.labels) {
            rails.entry(l.get("host").to_owned()).or_default().insert(l.get("device").to_owned(), l.get("rail").into());
        }
        Self { on, cgroups, seen, rails }
    }

    /// The jobs to which a value with these labels belongs, and how surely.
    pub(super) fn of(&self, by: By, labels: &Labels) -> (Attribution, Vec<usize>) {
        let host = labels.get("host");
        match by {
            By::Port => {
                let device = labels.get("device");
                (self.on.device(host, device), self.on.on_device(host, device).collect())
            }
            By::Host => (self.on.host(host), self.on.on_host(host).collect()),
            By::Cgroup => {
                if let Some(job) = self.cgroups.get(&(host.to_owned(), labels.get("cgroup").to_owned())) {
                    return (Attribution::PerProcess, vec![*job]);
                }
                // What is outside the groups of a job that is seen is somebody else's.
                let unseen = |job: &usize| !self.seen.contains(&(host.to_owned(), *job));
                (self.on.host(host), self.on.on_host(host).filter(unseen).collect())
            }
        }
    }

    /// The rail of a port: the one the agent tells, else the device's name.
    pub(super) fn rail(&self, labels: &Labels) -> Arc<str> {
        let device = labels.get("device");
        let told = self.rails.get(labels.get("host")).and_then(|host| host.get(device));
        told.cloned().unwrap_or_else(|| device.into())
    }
}

/// Whether what an agent sees is this job: an array's task has a number of its own beside the name that it is listed by.
fn is(job: &Job, cluster: &str, number: &str, task: &str) -> bool {
    let same_cluster = cluster.is_empty() || job.cluster.is_empty() || cluster == job.cluster;
    same_cluster && (job.has_name(task) || job.has_name(number))
}
