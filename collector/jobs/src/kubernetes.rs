//! Parses pod lists of the Kubernetes API server or of kubelets. A job is the top-level owner of its pods: a Job,
//! PyTorchJob, JobSet, RayCluster and the like, a StatefulSet, or a pod without owner.

mod owner;
mod pod;

use crate::host_names::HostNames;
use crate::job_list::{JobList, ListedJob};
use crate::record::{HostAllocation, JobKey, JobRecord};
pub use pod::Pod;
use std::collections::BTreeMap;

/// A pod that begins within this time after all others of its owner have ended belongs to the same run: a Job waits up
/// to six minutes before a retry.
const RETRY_NS: i64 = 600_000_000_000;

/// A response that cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// Not a JSON pod list.
    #[error("this is no list of pods: {0}; ask the API server for /api/v1/pods or a kubelet for /pods")]
    Format(String),
    /// The server reported an error.
    #[error("Kubernetes says: {0}")]
    Reported(String),
}

/// One page of a list, and the `continue` token of the next page.
///
/// # Errors
/// [`KubernetesError`].
pub fn page(json: &[u8]) -> Result<(Vec<Pod>, Option<String>), KubernetesError> {
    pod::page(json)
}

/// Jobs of a complete list, and pods that cannot be parsed. Devices get the agents' names if `agents` knows them.
pub fn jobs(pods: &[Pod], cluster: &str, agents: &HostNames) -> JobList {
    let mut by_id: BTreeMap<String, Vec<(owner::Owner, pod::Lifetime, &Pod)>> = BTreeMap::new();
    let mut unparsed = Vec::new();
    for pod in pods {
        let Some(owner) = owner::find(pod) else { continue };
        match pod.lifetime() {
            Some(Ok(lifetime)) => by_id.entry(owner.id(pod)).or_default().push((owner, lifetime, pod)),
            // The pod is pending.
            None => {}
            Some(Err(why)) => unparsed.push((pod.name(), why)),
        }
    }
    let listed = by_id.into_iter().map(|(id, mut pods)| {
        pods.sort_by_key(|(_, lifetime, _)| lifetime.start_ns);
        let run = last_run(&pods);
        ListedJob { key: JobKey { cluster: cluster.to_owned(), id }, record: record(run, agents) }
    });
    (listed.collect(), unparsed)
}

/// Pods of the last run; `pods` are sorted by start.
fn last_run<'a, 'p>(
    pods: &'a [(owner::Owner, pod::Lifetime, &'p Pod)],
) -> &'a [(owner::Owner, pod::Lifetime, &'p Pod)] {
    let (mut from, mut over) = (0, i64::MIN);
    for (n, (_, lifetime, pod)) in pods.iter().enumerate() {
        let new_object = n > 0 && pod.owner_uid() != pods[n - 1].2.owner_uid();
        // Another object of the same name, or a start long after the last end.
        let separate = lifetime.start_ns >= if new_object { over } else { over.saturating_add(RETRY_NS) };
        if n > 0 && separate {
            (from, over) = (n, i64::MIN);
        }
        over = over.max(lifetime.end_ns.unwrap_or(i64::MAX));
    }
    &pods[from..]
}

fn record(run: &[(owner::Owner, pod::Lifetime, &Pod)], agents: &HostNames) -> JobRecord {
    let mut record = JobRecord::default();
    for (owner, lifetime, pod) in run {
        record.start_ns = record.start_ns.into_iter().chain([lifetime.start_ns]).min();
        record.user = record.user.or_else(|| pod.user());
        record.name.get_or_insert_with(|| owner.name.clone());
        record.labels.extend(pod.job_labels());
        record.labels.insert("kind".to_owned(), owner.kind.clone());
        record.labels.extend(owner.cron.clone().map(|cron| ("cronjob".to_owned(), cron)));
        record.aliases.push(pod.uid().to_owned());
        let Some(node) = pod.node() else { continue };
        let allocation: &mut HostAllocation = record.hosts.entry(node.to_owned()).or_default();
        for names in pod.devices() {
            let known = names.iter().find_map(|n| agents.device(agents.host(node), n).map(str::to_owned));
            let device = known.unwrap_or_else(|| names[0].clone());
            if !allocation.devices.contains(&device) {
                allocation.devices.push(device);
            }
        }
    }
    let ends: Option<Vec<i64>> = run.iter().map(|(_, lifetime, _)| lifetime.end_ns).collect();
    record.end_ns = ends.and_then(|ends| ends.into_iter().max());
    record
}
