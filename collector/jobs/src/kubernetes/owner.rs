//! Whose job a pod is of. The list of pods has only their first owner, so labels tell of those above it.

use super::pod::Pod;

/// Labels with the name of what a pod belongs to in the end, and its kind; `""`: the kind of its owner. What stands
/// higher comes first: a JobSet's pods have a Job's labels too.
const LABELS: [(&str, &str); 7] = [
    ("ray.io/originated-from-cr-name", "RayJob"),
    ("ray.io/cluster", "RayCluster"),
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
    ("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
    ("training.kubeflow.org/job-name", ""),
    ("volcano.sh/job-name", "VolcanoJob"),
    ("job-name", "Job"),
];
/// Kinds by the name of their operator, where the owner has another: a launcher of MPI is a Job.
const OPERATORS: [(&str, &str); 6] = [
    ("mpi", "MPIJob"),
    ("pytorch", "PyTorchJob"),
    ("tf", "TFJob"),
    ("xgboost", "XGBoostJob"),
    ("paddle", "PaddleJob"),
    ("jax", "JAXJob"),
];

/// What a pod belongs to in the end.
pub(super) struct Owner {
    pub(super) kind: String,
    pub(super) name: String,
    /// The CronJob that made it.
    pub(super) cron: Option<String>,
}

impl Owner {
    fn new(kind: &str, name: &str) -> Self {
        Self { kind: kind.to_owned(), name: name.to_owned(), cron: None }
    }

    /// As one would ask `kubectl` for it: `ml/pytorchjob/llama`.
    pub(super) fn id(&self, pod: &Pod) -> String {
        format!("{}/{}/{}", pod.namespace(), self.kind.to_lowercase(), self.name)
    }
}

/// `None`: the pod is the machine's or a service's, of no job.
pub(super) fn of(pod: &Pod) -> Option<Owner> {
    let owner = pod.owner();
    if pod.is_static() || owner.is_some_and(|o| o.kind == "DaemonSet" || o.kind == "Node") {
        return None;
    }
    if let Some((name, kind)) = LABELS.iter().find_map(|(label, kind)| Some((pod.label(label)?, *kind))) {
        let kind = if kind.is_empty() { kubeflow(pod) } else { kind };
        return Some(Owner { cron: cron(kind, name), ..Owner::new(kind, name) });
    }
    match owner {
        None => Some(Owner::new("Pod", pod.plain_name())),
        // Services: whoever talks over RDMA matters to the fabric, all others would be noise.
        Some(set) if set.kind == "ReplicaSet" => {
            let hash = pod.label("pod-template-hash").map(|hash| format!("-{hash}")).unwrap_or_default();
            let name = set.name.strip_suffix(&hash).unwrap_or(&set.name);
            pod.has_rdma().then(|| Owner::new("Deployment", name))
        }
        Some(other) => Some(Owner { cron: cron(&other.kind, &other.name), ..Owner::new(&other.kind, &other.name) }),
    }
}

/// Which kind of Kubeflow's.
fn kubeflow(pod: &Pod) -> &str {
    let of_owner = pod.owner().map(|o| o.kind.as_str()).filter(|kind| kind.ends_with("Job") && *kind != "Job");
    let operator = pod.label("training.kubeflow.org/operator-name").unwrap_or_default();
    let of_operator = || OPERATORS.iter().find(|(begin, _)| operator.starts_with(begin)).map(|(_, kind)| *kind);
    of_owner.or_else(of_operator).unwrap_or("Job")
}

/// A CronJob's Jobs have its name and the minute.
fn cron(kind: &str, name: &str) -> Option<String> {
    let (cron, minute) = name.rsplit_once('-').filter(|_| kind == "Job")?;
    (minute.len() == 8 && minute.bytes().all(|b| b.is_ascii_digit())).then(|| cron.to_owned())
}
