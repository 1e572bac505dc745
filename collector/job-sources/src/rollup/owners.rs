//! Maps the labels of a value to the jobs it belongs to, how certain that is, and its rail.

use std::collections::HashMap;
use std::sync::Arc;

use fabriclens_jobs::{Attribution, Job, Occupancy};
use fabriclens_model::Labels;
use fabriclens_promql::Sample;

use super::table::By;

/// Jobs, control groups and rails at one round.
pub(super) struct Owners<'a> {
    on: Occupancy<'a>,
    /// Index of the job by host and control group, where agents see jobs.
    cgroups: HashMap<(String, String), usize>,
    /// Hosts with the jobs whose processes the agent sees there.
    seen: std::collections::HashSet<(String, usize)>,
    /// Rail by host and device, where agents know it.
    rails: HashMap<String, HashMap<String, Arc<str>>>,
}

impl<'a> Owners<'a> {
    /// `processes` are samples of `fabric_job_processes`, `ports` those of `fabric_port_info` with a rail.
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

    /// The jobs that a value with these labels belongs to, and how certain that is.
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
                // Traffic outside the control groups of a visible job does not belong to it.
                let unseen = |job: &usize| !self.seen.contains(&(host.to_owned(), *job));
                (self.on.host(host), self.on.on_host(host).filter(unseen).collect())
            }
        }
    }

    /// Rail of a port as reported by the agent, or else the device name.
    pub(super) fn rail(&self, labels: &Labels) -> Arc<str> {
        let device = labels.get("device");
        let reported = self.rails.get(labels.get("host")).and_then(|host| host.get(device));
        reported.cloned().unwrap_or_else(|| device.into())
    }
}

/// Whether a job seen by an agent is this job. A task of an array has its own number besides the name in the list.
fn is(job: &Job, cluster: &str, number: &str, task: &str) -> bool {
    let same_cluster = cluster.is_empty() || job.cluster.is_empty() || cluster == job.cluster;
    same_cluster && (job.has_name(task) || job.has_name(number))
}
