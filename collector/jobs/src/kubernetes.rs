//! What Kubernetes' list of pods says of jobs, from the API server or from kubelets. A job is what owns its pods in the
//! end: a Job, PyTorchJob, JobSet, RayCluster and the like, a StatefulSet, or a pod of nobody.

mod owner;
mod pod;

use crate::agents::Agents;
use crate::facts::{Facts, Key, Place};
use crate::listed::{List, Listed};
pub use pod::Pod;
use std::collections::BTreeMap;

/// Pods of one owner that begin within this time after all others have ended are of the same run: a Job waits up to six
/// minutes before it tries again.
const RETRY_NS: i64 = 600_000_000_000;

/// Why nothing can be learned of an answer.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// No JSON of pods.
    #[error("this is no list of pods: {0}; ask the API server for /api/v1/pods or a kubelet for /pods")]
    Form(String),
    /// The server says why.
    #[error("Kubernetes says: {0}")]
    Told(String),
}

/// One part of a list, and how to ask for the next (`continue`).
///
/// # Errors
/// [`KubernetesError`].
pub fn page(json: &[u8]) -> Result<(Vec<Pod>, Option<String>), KubernetesError> {
    pod::page(json)
}

/// Jobs of a whole list. Devices are told as agents know them, if they do.
pub fn jobs(pods: &[Pod], cluster: &str, agents: &Agents) -> List {
    let mut of: BTreeMap<String, Vec<(owner::Owner, pod::Life, &Pod)>> = BTreeMap::new();
    let mut odd = Vec::new();
    for pod in pods {
        let Some(owner) = owner::of(pod) else { continue };
        match pod.life() {
            Some(Ok(life)) => of.entry(owner.id(pod)).or_default().push((owner, life, pod)),
            // It waits.
            None => {}
            Some(Err(why)) => odd.push((pod.name(), why)),
        }
    }
    let listed = of.into_iter().map(|(id, mut pods)| {
        pods.sort_by_key(|(_, life, _)| life.start_ns);
        let run = last_run(&pods);
        Listed { key: Key { cluster: cluster.to_owned(), id }, facts: facts(run, agents) }
    });
    (listed.collect(), odd)
}

/// The pods that are of the last run, of pods by their start.
fn last_run<'a, 'p>(pods: &'a [(owner::Owner, pod::Life, &'p Pod)]) -> &'a [(owner::Owner, pod::Life, &'p Pod)] {
    let (mut from, mut over) = (0, i64::MIN);
    for (n, (_, life, pod)) in pods.iter().enumerate() {
        let again = n > 0 && pod.owner_uid() != pods[n - 1].2.owner_uid();
        // Another object of the same name, or the same long after.
        let apart = life.start_ns >= if again { over } else { over.saturating_add(RETRY_NS) };
        if n > 0 && apart {
            (from, over) = (n, i64::MIN);
        }
        over = over.max(life.end_ns.unwrap_or(i64::MAX));
    }
    &pods[from..]
}

fn facts(run: &[(owner::Owner, pod::Life, &Pod)], agents: &Agents) -> Facts {
    let mut facts = Facts::default();
    for (owner, life, pod) in run {
        facts.start_ns = facts.start_ns.into_iter().chain([life.start_ns]).min();
        facts.user = facts.user.or_else(|| pod.user());
        facts.name.get_or_insert_with(|| owner.name.clone());
        facts.labels.extend(pod.told_labels());
        facts.labels.insert("kind".to_owned(), owner.kind.clone());
        facts.labels.extend(owner.cron.clone().map(|cron| ("cronjob".to_owned(), cron)));
        facts.aliases.push(pod.uid().to_owned());
        let Some(node) = pod.node() else { continue };
        let place: &mut Place = facts.hosts.entry(node.to_owned()).or_default();
        for names in pod.devices() {
            let known = names.iter().find_map(|n| agents.device(agents.host(node), n).map(str::to_owned));
            let device = known.unwrap_or_else(|| names[0].clone());
            if !place.devices.contains(&device) {
                place.devices.push(device);
            }
        }
    }
    let ends: Option<Vec<i64>> = run.iter().map(|(_, life, _)| life.end_ns).collect();
    facts.end_ns = ends.and_then(|ends| ends.into_iter().max());
    facts
}
