//! Finds the top-level owner of a pod. The pod list names only the direct owner; labels name those above.

use super::pod::Pod;

/// Labels with the name of a top-level owner, and its kind (`""`: the kind of the direct owner). Higher owners come
/// first: the pods of a JobSet have the labels of a Job too.
const LABELS: [(&str, &str); 7] = [
    ("ray.io/originated-from-cr-name", "RayJob"),
    ("ray.io/cluster", "RayCluster"),
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
    ("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
    ("training.kubeflow.org/job-name", ""),
    ("volcano.sh/job-name", "VolcanoJob"),
    ("job-name", "Job"),
];
/// Kind by prefix of the Kubeflow operator's name, for pods whose direct owner has another kind: an MPI launcher is a
/// Job.
const OPERATORS: [(&str, &str); 6] = [
    ("mpi", "MPIJob"),
    ("pytorch", "PyTorchJob"),
    ("tf", "TFJob"),
    ("xgboost", "XGBoostJob"),
    ("paddle", "PaddleJob"),
    ("jax", "JAXJob"),
];

/// Top-level owner of a pod.
pub(super) struct Owner {
    pub(super) kind: String,
    pub(super) name: String,
    /// The CronJob that created it.
    pub(super) cron: Option<String>,
}

impl Owner {
    fn new(kind: &str, name: &str) -> Self {
        Self { kind: kind.to_owned(), name: name.to_owned(), cron: None }
    }

    /// In the form of a `kubectl` argument with namespace: `ml/pytorchjob/llama`.
    pub(super) fn id(&self, pod: &Pod) -> String {
        format!("{}/{}/{}", pod.namespace(), self.kind.to_lowercase(), self.name)
    }
}

/// `None` for pods of the node or of a service, which belong to no job.
pub(super) fn find(pod: &Pod) -> Option<Owner> {
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
        // A service: of interest to the fabric only if it uses RDMA.
        Some(set) if set.kind == "ReplicaSet" => {
            let hash = pod.label("pod-template-hash").map(|hash| format!("-{hash}")).unwrap_or_default();
            let name = set.name.strip_suffix(&hash).unwrap_or(&set.name);
            pod.has_rdma().then(|| Owner::new("Deployment", name))
        }
        Some(other) => Some(Owner { cron: cron(&other.kind, &other.name), ..Owner::new(&other.kind, &other.name) }),
    }
}

/// Kind of a Kubeflow job.
fn kubeflow(pod: &Pod) -> &str {
    let of_owner = pod.owner().map(|o| o.kind.as_str()).filter(|kind| kind.ends_with("Job") && *kind != "Job");
    let operator = pod.label("training.kubeflow.org/operator-name").unwrap_or_default();
    let of_operator = || OPERATORS.iter().find(|(begin, _)| operator.starts_with(begin)).map(|(_, kind)| *kind);
    of_owner.or_else(of_operator).unwrap_or("Job")
}

/// The name of a CronJob's Job is the CronJob's name and the minute.
fn cron(kind: &str, name: &str) -> Option<String> {
    let (cron, minute) = name.rsplit_once('-').filter(|_| kind == "Job")?;
    (minute.len() == 8 && minute.bytes().all(|b| b.is_ascii_digit())).then(|| cron.to_owned())
}
