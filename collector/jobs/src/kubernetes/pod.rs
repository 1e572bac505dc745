//! The fields of a pod that jobs need.

use super::KubernetesError;
use fabriclens_base::time::parse_utc;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Labels and annotations by which people and tools name the user of a pod.
const USERS: [&str; 7] =
    ["ceems.io/created-by", "hub.jupyter.org/username", "submitted-by", "created-by", "username", "user", "owner"];
/// Labels to copy, and their names in the job's labels.
const LABELS: [(&str, &str); 2] =
    [("kueue.x-k8s.io/queue-name", "queue"), ("training.kubeflow.org/operator-name", "operator")];
/// Annotations with the pod's networks as JSON; the second is the old spelling.
const NETWORKS: [&str; 2] = ["k8s.v1.cni.cncf.io/network-status", "k8s.v1.cni.cncf.io/networks-status"];

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    metadata: PageMeta,
    items: Option<Vec<Pod>>,
}

#[derive(Deserialize, Default)]
struct PageMeta {
    #[serde(default, rename = "continue")]
    next: String,
}

/// A pod of a list.
#[derive(Deserialize, Debug)]
pub struct Pod {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    owner_references: Vec<Reference>,
}

/// Owner reference.
#[derive(Deserialize, Debug)]
pub(super) struct Reference {
    pub(super) kind: String,
    pub(super) name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    controller: bool,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
    containers: Vec<Container>,
}

#[derive(Deserialize, Debug)]
struct Container {
    #[serde(default)]
    resources: Resources,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
struct Resources {
    limits: BTreeMap<String, serde::de::IgnoredAny>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    start_time: Option<String>,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    restart_count: u64,
    state: State,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
struct State {
    running: Option<Span>,
    terminated: Option<Span>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct Span {
    started_at: Option<String>,
    finished_at: Option<String>,
}

/// Network status of the pod; only its devices matter.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Network {
    device_info: Option<DeviceInfo>,
}

#[derive(Deserialize)]
struct DeviceInfo {
    pci: Option<Pci>,
    vdpa: Option<Pci>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Pci {
    rdma_device: Option<String>,
    pci_address: Option<String>,
    pf_pci_address: Option<String>,
}

/// Time in which the containers ran, Unix nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lifetime {
    pub(super) start_ns: i64,
    /// `None` while it runs.
    pub(super) end_ns: Option<i64>,
}

pub(super) fn page(json: &[u8]) -> Result<(Vec<Pod>, Option<String>), KubernetesError> {
    let page: Page = serde_json::from_slice(json).map_err(|e| KubernetesError::Format(e.to_string()))?;
    match page.items {
        Some(pods) => Ok((pods, Some(page.metadata.next).filter(|next| !next.is_empty()))),
        None if page.kind == "Status" => Err(KubernetesError::Reported(page.message)),
        None => Err(KubernetesError::Format("it has no items".to_owned())),
    }
}

impl Pod {
    /// Namespace and name.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }

    pub(super) fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    pub(super) fn plain_name(&self) -> &str {
        &self.metadata.name
    }

    pub(super) fn uid(&self) -> &str {
        &self.metadata.uid
    }

    pub(super) fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|node| !node.is_empty())
    }

    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.metadata.labels.get(name).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// Created by a kubelet from a file: belongs to the node.
    pub(super) fn is_static(&self) -> bool {
        self.metadata.annotations.contains_key("kubernetes.io/config.source")
            && self.metadata.annotations.get("kubernetes.io/config.source").is_none_or(|from| from != "api")
            || self.metadata.annotations.contains_key("kubernetes.io/config.mirror")
    }

    pub(super) fn owner(&self) -> Option<&Reference> {
        let owners = &self.metadata.owner_references;
        owners.iter().find(|o| o.controller).or(owners.first())
    }

    pub(super) fn owner_uid(&self) -> &str {
        self.owner().map_or(&self.metadata.uid, |o| &o.uid)
    }

    pub(super) fn user(&self) -> Option<String> {
        let Meta { labels, annotations, .. } = &self.metadata;
        let mut users = USERS.iter().filter_map(|key| annotations.get(*key).or(labels.get(*key)));
        // A controller is not a user.
        users.find(|user| !user.is_empty() && !user.starts_with("system:")).cloned()
    }

    pub(super) fn job_labels(&self) -> impl Iterator<Item = (String, String)> {
        let own = LABELS.iter().filter_map(|(key, name)| Some(((*name).to_owned(), self.label(key)?.to_owned())));
        own.chain([("namespace".to_owned(), self.metadata.namespace.clone())]).filter(|(_, v)| !v.is_empty())
    }

    /// Names of each device that a network gave to the pod: RDMA device, virtual function, physical adapter.
    pub(super) fn devices(&self) -> Vec<Vec<String>> {
        let text = NETWORKS.iter().find_map(|key| self.metadata.annotations.get(*key));
        // Anything but such a list means no devices.
        let all: Vec<Network> = text.and_then(|t| serde_json::from_str(t).ok()).unwrap_or_default();
        let devices = all.into_iter().filter_map(|network| network.device_info);
        let names = devices.filter_map(|d| d.pci.or(d.vdpa)).map(|pci| {
            let all = [pci.rdma_device, pci.pci_address, pci.pf_pci_address];
            all.into_iter().flatten().filter(|name| !name.is_empty()).collect::<Vec<_>>()
        });
        names.filter(|names| !names.is_empty()).collect()
    }

    /// Whether it has a resource or device that only RDMA needs.
    pub(super) fn has_rdma(&self) -> bool {
        let asked = self.spec.containers.iter().flat_map(|c| c.resources.limits.keys());
        asked.into_iter().any(|name| ["rdma", "hca", "infiniband", "/roce"].iter().any(|part| name.contains(part)))
            || !self.devices().is_empty()
    }

    /// `None` while the pod waits. The error is a text.
    pub(super) fn lifetime(&self) -> Option<Result<Lifetime, String>> {
        let Status { phase, start_time, container_statuses } = &self.status;
        let at = |text: &Option<String>| text.as_deref().and_then(parse_utc);
        let spans =
            || container_statuses.iter().filter_map(|c| c.state.running.as_ref().or(c.state.terminated.as_ref()));
        let ran = spans().next().is_some() || matches!(phase.as_str(), "Running" | "Succeeded" | "Failed");
        if !ran {
            return None;
        }
        // A restarted container shows only its last start; the pod's start is before the first.
        let first = container_statuses.iter().all(|c| c.restart_count == 0);
        let began = spans().filter_map(|s| at(&s.started_at)).min().filter(|_| first);
        let Some(start_ns) = began.or_else(|| at(start_time)) else {
            // A pod that failed before it started, for example because its host had no room.
            return (phase != "Failed").then(|| Err("it has no start time".to_owned()));
        };
        let over = matches!(phase.as_str(), "Succeeded" | "Failed");
        let end = || spans().filter_map(|s| at(&s.finished_at)).max().or_else(|| at(&self.metadata.deletion_timestamp));
        Some(Ok(Lifetime { start_ns, end_ns: over.then(|| end().unwrap_or(start_ns).max(start_ns)) }))
    }
}
