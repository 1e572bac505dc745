//! Lists of pods: which job each is of, where and when it ran, and which devices it had.

use fabriclens_jobs::{Agents, Facts, Listed, kubernetes};
use serde_json::{Value, json};

const SECOND: i64 = 1_000_000_000;

/// 12:00 and so many minutes.
fn at(minute: u32) -> String {
    format!("2026-01-31T12:{minute:02}:00Z")
}

fn ns(minute: i64) -> i64 {
    (1_769_860_800 + minute * 60) * SECOND
}

/// A pod that runs from a minute on, to another if it is over.
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

fn listed(pods: &[Value]) -> Vec<Listed> {
    let list = json!({"kind": "PodList", "metadata": {}, "items": pods}).to_string();
    let (pods, next) = kubernetes::page(list.as_bytes()).unwrap();
    assert_eq!(next, None);
    let (listed, odd) = kubernetes::jobs(&pods, "", &Agents::default());
    assert!(odd.is_empty(), "{odd:?}");
    listed
}

fn one(pods: &[Value]) -> (String, Facts) {
    let mut all = listed(pods);
    assert_eq!(all.len(), 1, "{:?}", all.iter().map(|l| &l.key.id).collect::<Vec<_>>());
    let Listed { key, facts } = all.remove(0);
    (key.id, facts)
}

#[test]
fn a_pod_is_of_what_owns_it_in_the_end() {
    let of = |kind: &str, name: &str, labels: Value| {
        let all = listed(&[pod("p-0", "n1", 0, None, owned(kind, name, labels))]);
        all.first().map(|l| l.key.id.clone()).unwrap_or_default()
    };
    let kubeflow = |operator: &str| json!({"training.kubeflow.org/job-name": "llama", "training.kubeflow.org/operator-name": operator});
    assert_eq!(of("Job", "prepare", json!({"job-name": "prepare"})), "ml/job/prepare");
    assert_eq!(of("PyTorchJob", "llama", kubeflow("pytorchjob-controller")), "ml/pytorchjob/llama");
    // The launcher of an MPIJob is a Job's pod, its workers are its own.
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
    assert_eq!(of("Workflow", "w", json!({})), "ml/workflow/w", "what is not known is told as it is");
    assert_eq!(one(&[pod("p-0", "n1", 0, None, json!({}))]).0, "ml/pod/p-0");
    // What is of the machine, or a service without RDMA, is no job.
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
fn pods_of_a_job_are_its_hosts_and_their_containers_its_time() {
    let train = || owned("PyTorchJob", "llama", json!({"training.kubeflow.org/job-name": "llama"}));
    let mut first = pod("a", "n1", 3, Some(20), train());
    first["metadata"]["annotations"] = json!({"ceems.io/created-by": "system:serviceaccount:x"});
    let mut second = pod("b", "n2", 1, None, train());
    second["metadata"]["labels"]["user"] = json!("ann");
    let mut waits = pod("c", "", 0, None, train());
    waits["status"] = json!({"phase": "Pending", "startTime": at(0)});
    let (id, facts) = one(&[first.clone(), second.clone(), waits.clone()]);
    assert_eq!(
        (id.as_str(), facts.name.as_deref(), facts.user.as_deref()),
        ("ml/pytorchjob/llama", Some("llama"), Some("ann"))
    );
    assert_eq!((facts.start_ns, facts.end_ns), (Some(ns(1)), None));
    assert_eq!((facts.hosts.len(), &facts.aliases[..]), (2, &["uid-b".to_owned(), "uid-a".to_owned()][..]));
    let over = |minute| pod("b", "n2", 1, Some(minute), train());
    assert_eq!(one(&[first.clone(), over(30)]).1.end_ns, Some(ns(30)));
    assert_eq!(listed(&[waits]), [], "who waits is none");
    // A container that was started again tells a late start; the pod's counts.
    second["status"]["containerStatuses"][0]["restartCount"] = json!(1);
    second["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = json!(at(50));
    assert_eq!(one(&[second]).1.start_ns, Some(ns(1)));
    // A pod that failed tries again on another host: one run, unless it is long ago or another job of that name.
    let (_, again) = one(&[first.clone(), pod("d", "n3", 29, None, train())]);
    assert_eq!((again.start_ns, again.hosts.len()), (Some(ns(3)), 2));
    let (_, later) = one(&[first.clone(), pod("d", "n3", 31, None, train())]);
    assert_eq!((later.start_ns, later.hosts.len()), (Some(ns(31)), 1));
    let mut other = pod("d", "n3", 21, None, train());
    other["metadata"]["ownerReferences"][0]["uid"] = json!("another");
    assert_eq!(one(&[first, other]).1.start_ns, Some(ns(21)));
}

#[test]
fn virtual_functions_are_devices_as_agents_know_them() {
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
    let devices = |agents: &Agents| kubernetes::jobs(&pods, "", agents).0[0].facts.hosts["n1"].devices.clone();
    let mut agents = Agents::default();
    assert_eq!(devices(&agents), ["mlx5_7", "0000:18:0a.2"], "as told");
    // The first is in the pod's own namespace, where no agent looks: it is its card's; the second is seen by its address.
    agents.add(["n1.example"]);
    agents.set_devices([("n1.example", "mlx5_0", "0000:18:00.0"), ("n1.example", "mlx5_9", "0000:18:0a.2")]);
    assert_eq!(devices(&agents), ["mlx5_0", "mlx5_9"]);
}

#[test]
fn parts_and_refusals_are_told_apart() {
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
fn recorded_pods_are_understood() {
    let dir = fabriclens_testing::recordings();
    let of = |file: &str| {
        let path = dir.join(file);
        let json = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (listed, odd) = kubernetes::jobs(&kubernetes::page(&json).unwrap().0, "", &Agents::default());
        assert!(odd.is_empty(), "{odd:?}");
        listed
    };
    let listed = of("k8s-mock/podlist.json");
    let ids: Vec<_> = listed.iter().map(|l| (l.key.id.as_str(), l.facts.hosts.len(), l.facts.aliases.len())).collect();
    assert_eq!(ids, [("ml/pytorchjob/bert", 1, 1), ("ml/pytorchjob/llama", 2, 2)]);
    // These name no node: agents report where such a pod is.
    let listed = of("workload/ceems-k8s-and-slurmprops/k8s/pods-metadata.json");
    let of = |id: &str| &listed.iter().find(|l| l.key.id == id).unwrap().facts;
    let (runs, over) = (of("ns1/pod/pod11"), of("ns2/pod/pod22"));
    assert_eq!((runs.user.as_deref(), runs.end_ns, runs.hosts.len()), (Some("kusr1"), None, 0));
    assert_eq!(over.end_ns.unwrap() - over.start_ns.unwrap(), 44 * 60 * SECOND);
    assert_eq!(of("default/pod/pod21").user, None, "a service account is no user");
    // Which pod has which GPU, and who may use a namespace: no lists of pods.
    for file in ["k8s/nvidia-pod-resources.json", "k8s/amd-pod-resources.json", "k8s/rolebindings.json"] {
        if let Ok(json) = std::fs::read(dir.join("workload/ceems-k8s-and-slurmprops").join(file)) {
            let jobs = kubernetes::page(&json).map(|(pods, _)| kubernetes::jobs(&pods, "", &Agents::default()).0);
            assert!(jobs.is_err() || jobs.unwrap().is_empty(), "{file}");
        }
    }
}
