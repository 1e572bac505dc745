//! Pod lists: the job, place, time and devices of each pod.

use fabriclens_jobs::{HostNames, JobRecord, ListedJob, kubernetes};
use serde_json::{Value, json};

const SECOND: i64 = 1_000_000_000;

/// 12:00 plus this many minutes.
fn at(minute: u32) -> String {
    format!("2026-01-31T12:{minute:02}:00Z")
}

fn ns(minute: i64) -> i64 {
    (1_769_860_800 + minute * 60) * SECOND
}

/// A pod that runs from one minute to another, or still runs.
fn pod(name: &str, node: &str, from: u32, to: Option<u32>, meta: Value) -> Value {
    let state = match to {
        None => json!({"running": {"startedAt": at(from)}}),
        Some(to) => json!({"terminated": {"startedAt": at(from), "finishedAt": at(to)}}),
    };
    let mut metadata = json!({"name": name, "namespace": "ml", "uid": format!("uid-{name}")});
    metadata.as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
    json!({
        "metadata": metadata, "spec": {"nodeName": node, "containers": [{"name": "c"}]},
        "status": {"phase": if to.is_none() { "Running" } else { "Succeeded" }, "startTime": at(from),
            "containerStatuses": [{"name": "c", "restartCount": 0, "state": state}]},
    })
}

fn owned(kind: &str, name: &str, labels: Value) -> Value {
    let owner = json!([{"apiVersion": "x/v1", "kind": kind, "name": name, "uid": format!("{kind}-{name}"), "controller": true}]);
    json!({"ownerReferences": owner, "labels": labels})
}

fn listed(pods: &[Value]) -> Vec<ListedJob> {
    let list = json!({"kind": "PodList", "metadata": {}, "items": pods}).to_string();
    let (pods, next) = kubernetes::page(list.as_bytes()).unwrap();
    assert_eq!(next, None);
    let (listed, unparsed) = kubernetes::jobs(&pods, "", &HostNames::default());
    assert!(unparsed.is_empty(), "{unparsed:?}");
    listed
}

fn one(pods: &[Value]) -> (String, JobRecord) {
    let mut all = listed(pods);
    assert_eq!(all.len(), 1, "{:?}", all.iter().map(|l| &l.key.id).collect::<Vec<_>>());
    let ListedJob { key, record } = all.remove(0);
    (key.id, record)
}

#[test]
fn top_level_owner_is_the_job() {
    let of = |kind: &str, name: &str, labels: Value| {
        let all = listed(&[pod("p-0", "n1", 0, None, owned(kind, name, labels))]);
        all.first().map(|l| l.key.id.clone()).unwrap_or_default()
    };
    let kubeflow = |operator: &str| json!({"training.kubeflow.org/job-name": "llama", "training.kubeflow.org/operator-name": operator});
    assert_eq!(of("Job", "prepare", json!({"job-name": "prepare"})), "ml/job/prepare");
    assert_eq!(of("PyTorchJob", "llama", kubeflow("pytorchjob-controller")), "ml/pytorchjob/llama");
    // The launcher of an MPIJob belongs to a Job, its workers to the MPIJob.
    assert_eq!(of("Job", "llama-launcher", kubeflow("mpi-operator")), "ml/mpijob/llama");
    assert_eq!(of("MPIJob", "llama", kubeflow("mpi-operator")), "ml/mpijob/llama");
    let jobset = json!({"jobset.sigs.k8s.io/jobset-name": "big", "job-name": "big-workers-0"});
    assert_eq!(of("Job", "big-workers-0", jobset), "ml/jobset/big");
    assert_eq!(of("RayCluster", "tune-x7k", json!({"ray.io/cluster": "tune-x7k"})), "ml/raycluster/tune-x7k");
    let of_job = json!({"ray.io/cluster": "tune-x7k", "ray.io/originated-from-cr-name": "tune"});
    assert_eq!(of("RayCluster", "tune-x7k", of_job), "ml/rayjob/tune");
    let group = json!({"leaderworkerset.sigs.k8s.io/name": "serve"});
    assert_eq!(of("StatefulSet", "serve-0", group), "ml/leaderworkerset/serve");
    assert_eq!(of("StatefulSet", "db", json!({})), "ml/statefulset/db");
    assert_eq!(of("Workflow", "w", json!({})), "ml/workflow/w", "unknown kinds pass unchanged");
    assert_eq!(one(&[pod("p-0", "n1", 0, None, json!({}))]).0, "ml/pod/p-0");
    // Pods of the node, and services without RDMA, belong to no job.
    assert_eq!(of("DaemonSet", "exporter", json!({})), "");
    let mirror = json!({"annotations": {"kubernetes.io/config.mirror": "x"}});
    assert_eq!(listed(&[pod("etcd", "n1", 0, None, mirror)]), []);
    let hash = json!({"pod-template-hash": "5d4f8"});
    assert_eq!(of("ReplicaSet", "web-5d4f8", hash.clone()), "");
    let mut web = pod("web", "n1", 0, None, owned("ReplicaSet", "web-5d4f8", hash));
    web["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": 1, "rdma/hca_shared": "1"}});
    assert_eq!(one(&[web]).0, "ml/deployment/web");
    let (_, cron) =
        one(&[pod("p", "n", 0, None, owned("Job", "nightly-29512345", json!({"job-name": "nightly-29512345"})))]);
    assert_eq!((cron.labels["cronjob"].as_str(), cron.labels["namespace"].as_str()), ("nightly", "ml"));
}

#[test]
fn pods_give_hosts_and_times() {
    let train = || owned("PyTorchJob", "llama", json!({"training.kubeflow.org/job-name": "llama"}));
    let mut first = pod("a", "n1", 3, Some(20), train());
    first["metadata"]["annotations"] = json!({"ceems.io/created-by": "system:serviceaccount:x"});
    let mut second = pod("b", "n2", 1, None, train());
    second["metadata"]["labels"]["user"] = json!("ann");
    let mut waits = pod("c", "", 0, None, train());
    waits["status"] = json!({"phase": "Pending", "startTime": at(0)});
    let (id, record) = one(&[first.clone(), second.clone(), waits.clone()]);
    assert_eq!(
        (id.as_str(), record.name.as_deref(), record.user.as_deref()),
        ("ml/pytorchjob/llama", Some("llama"), Some("ann"))
    );
    assert_eq!((record.start_ns, record.end_ns), (Some(ns(1)), None));
    assert_eq!((record.hosts.len(), &record.aliases[..]), (2, &["uid-b".to_owned(), "uid-a".to_owned()][..]));
    let over = |minute| pod("b", "n2", 1, Some(minute), train());
    assert_eq!(one(&[first.clone(), over(30)]).1.end_ns, Some(ns(30)));
    assert_eq!(listed(&[waits]), [], "pending pods are no jobs");
    // A restarted container shows a late start; the pod's start counts.
    second["status"]["containerStatuses"][0]["restartCount"] = json!(1);
    second["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = json!(at(50));
    assert_eq!(one(&[second]).1.start_ns, Some(ns(1)));
    // A failed pod is retried on another host: one run, unless it is long ago or another job of that name.
    let (_, again) = one(&[first.clone(), pod("d", "n3", 29, None, train())]);
    assert_eq!((again.start_ns, again.hosts.len()), (Some(ns(3)), 2));
    let (_, later) = one(&[first.clone(), pod("d", "n3", 31, None, train())]);
    assert_eq!((later.start_ns, later.hosts.len()), (Some(ns(31)), 1));
    let mut other = pod("d", "n3", 21, None, train());
    other["metadata"]["ownerReferences"][0]["uid"] = json!("another");
    assert_eq!(one(&[first, other]).1.start_ns, Some(ns(21)));
}

#[test]
fn virtual_functions_map_to_devices() {
    let status = json!([
        {"name": "eth", "interface": "eth0"},
        {"name": "a", "interface": "net1", "device-info": {"type": "pci", "version": "1.1.0",
            "pci": {"pci-address": "0000:18:02.5", "pf-pci-address": "0000:18:00.0", "rdma-device": "mlx5_7"}}},
        {"name": "b", "interface": "net2", "device-info": {"type": "pci", "version": "1.1.0",
            "pci": {"pci-address": "0000:18:0a.2", "pf-pci-address": "0000:18:00.1"}}},
        {"name": "c", "interface": "net3", "device-info": {"type": "memif", "memif": {}}},
    ]);
    let annotations = json!({"annotations": {"k8s.v1.cni.cncf.io/network-status": status.to_string()}});
    let list = json!({"items": [pod("p", "n1", 0, None, annotations)]}).to_string();
    let (pods, _) = kubernetes::page(list.as_bytes()).unwrap();
    let devices = |agents: &HostNames| kubernetes::jobs(&pods, "", agents).0[0].record.hosts["n1"].devices.clone();
    let mut agents = HostNames::default();
    assert_eq!(devices(&agents), ["mlx5_7", "0000:18:0a.2"], "unchanged");
    // The first device is in the pod's network namespace, which no agent sees, so its adapter counts; the second is
    // found by its address.
    agents.add_hosts(["n1.example"]);
    agents.set_devices([("n1.example", "mlx5_0", "0000:18:00.0"), ("n1.example", "mlx5_9", "0000:18:0a.2")]);
    assert_eq!(devices(&agents), ["mlx5_0", "mlx5_9"]);
}

#[test]
fn pages_and_errors_differ() {
    let (pods, next) =
        kubernetes::page(br#"{"kind": "PodList", "metadata": {"continue": "abc"}, "items": []}"#).unwrap();
    assert_eq!((pods.len(), next.as_deref()), (0, Some("abc")));
    let why = |json: &str| kubernetes::page(json.as_bytes()).unwrap_err().to_string();
    let status = r#"{"kind": "Status", "status": "Failure", "message": "pods is forbidden", "code": 403}"#;
    assert_eq!(why(status), "Kubernetes says: pods is forbidden");
    assert!(why("<html>").contains("ask the API server for /api/v1/pods"));
    assert!(why("{}").starts_with("this is no list of pods: it has no items"));
}

#[test]
#[ignore = "needs: recordings"]
fn recorded_pods_parse() {
    let dir = fabriclens_testing::recordings();
    let of = |file: &str| {
        let path = dir.join(file);
        let json = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (listed, unparsed) = kubernetes::jobs(&kubernetes::page(&json).unwrap().0, "", &HostNames::default());
        assert!(unparsed.is_empty(), "{unparsed:?}");
        listed
    };
    let listed = of("k8s-mock/podlist.json");
    let ids: Vec<_> =
        listed.iter().map(|l| (l.key.id.as_str(), l.record.hosts.len(), l.record.aliases.len())).collect();
    assert_eq!(ids, [("ml/pytorchjob/bert", 1, 1), ("ml/pytorchjob/llama", 2, 2)]);
    // These pods have no node name: agents report where they run.
    let listed = of("workload/ceems-k8s-and-slurmprops/k8s/pods-metadata.json");
    let of = |id: &str| &listed.iter().find(|l| l.key.id == id).unwrap().record;
    let (runs, over) = (of("ns1/pod/pod11"), of("ns2/pod/pod22"));
    assert_eq!((runs.user.as_deref(), runs.end_ns, runs.hosts.len()), (Some("kusr1"), None, 0));
    assert_eq!(over.end_ns.unwrap() - over.start_ns.unwrap(), 44 * 60 * SECOND);
    assert_eq!(of("default/pod/pod21").user, None, "a service account is no user");
    // GPUs of pods, and users of a namespace: no pod lists.
    for file in ["k8s/nvidia-pod-resources.json", "k8s/amd-pod-resources.json", "k8s/rolebindings.json"] {
        if let Ok(json) = std::fs::read(dir.join("workload/ceems-k8s-and-slurmprops").join(file)) {
            let jobs = kubernetes::page(&json).map(|(pods, _)| kubernetes::jobs(&pods, "", &HostNames::default()).0);
            assert!(jobs.is_err() || jobs.unwrap().is_empty(), "{file}");
        }
    }
}
