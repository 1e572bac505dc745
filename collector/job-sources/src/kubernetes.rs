//! Reads the pods of Kubernetes: from the API server in pages, from a kubelet, or from a file with such a list.

use std::io::Read as _;
use std::path::Path;

use fabriclens_jobs::kubernetes::{self, KubernetesError, Pod};
use fabriclens_jobs::{JobList, Registry, Source};

use super::http::{self, GetError};
use super::{JobSource, Opened, Opening};
use crate::reconciler::Reconciler;
use fabriclens_config::Pods;
use fabriclens_core::endpoint::Client;

/// Pods per page of the API server.
const PAGE: usize = 500;
/// Largest page, bytes; a kubelet or a file holds all its pods in one.
const ANSWER: u64 = 256 << 20;
/// Most pods of a list.
const MOST: usize = 200_000;

/// The pods cannot be read.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Get(#[from] GetError),
    #[error("cannot read {path} (jobs.kubernetes.pods): {source}")]
    Read { path: String, source: std::io::Error },
    #[error("{path} (jobs.kubernetes.pods) is larger than {ANSWER} bytes")]
    Large { path: String },
    #[error(transparent)]
    Answer(#[from] KubernetesError),
    #[error("the list has more than {MOST} pods; restrict it with a labelSelector in jobs.kubernetes.pods")]
    Many,
}

/// Source of the pod list.
enum PodList {
    Server(Box<Client>),
    File(std::path::PathBuf),
}

/// The source of Kubernetes jobs.
struct Kubernetes {
    pods: PodList,
    cluster: String,
    reconciler: Reconciler,
}

/// Opens the source if `jobs.kubernetes` is configured.
pub(super) fn open(opening: &Opening<'_>) -> Opened {
    let Some(config) = &opening.config.jobs.kubernetes else { return Ok(None) };
    let pods = match &config.pods {
        Pods::Url(endpoint) => PodList::Server(Box::new(Client::new(endpoint, opening.telemetry)?)),
        Pods::File(path) => PodList::File(path.clone()),
    };
    Ok(Some(Box::new(Kubernetes {
        pods,
        cluster: config.cluster.clone(),
        reconciler: Reconciler::new(Source::Kubernetes),
    })))
}

impl PodList {
    fn pods(&self) -> Result<Vec<Pod>, AskError> {
        let client = match self {
            Self::File(path) => return Ok(kubernetes::page(&read(path)?)?.0),
            Self::Server(client) => client,
        };
        let (mut pods, mut next) = (Vec::new(), None);
        loop {
            let url = page_url(client.url(), next.as_deref());
            let (more, rest) = kubernetes::page(&http::get(client, &url, ANSWER, |request| request)?)?;
            pods.extend(more);
            if pods.len() > MOST {
                return Err(AskError::Many);
            }
            match rest {
                // A server that always names the same page would be asked forever.
                Some(rest) if Some(&rest) != next.as_ref() => next = Some(rest),
                _ => return Ok(pods),
            }
        }
    }

    fn list(&self, cluster: &str, registry: &Registry) -> Result<JobList, AskError> {
        Ok(kubernetes::jobs(&self.pods()?, cluster, &registry.host_names()))
    }
}

fn page_url(url: &str, next: Option<&str>) -> String {
    let limit = PAGE.to_string();
    let form = [("limit", Some(limit.as_str())), ("continue", next)];
    let form: Vec<(&str, &str)> = form.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let joint = if url.contains('?') { '&' } else { '?' };
    // Names and strings can always be encoded.
    format!("{url}{joint}{}", serde_urlencoded::to_string(form).unwrap_or_default())
}

fn read(path: &Path) -> Result<Vec<u8>, AskError> {
    let failed = |source| AskError::Read { path: path.display().to_string(), source };
    let mut all = Vec::new();
    std::fs::File::open(path).map_err(failed)?.take(ANSWER + 1).read_to_end(&mut all).map_err(failed)?;
    if all.len() as u64 > ANSWER {
        return Err(AskError::Large { path: path.display().to_string() });
    }
    Ok(all)
}

impl JobSource for Kubernetes {
    fn poll(&mut self, registry: &Registry) -> bool {
        self.reconciler.update(registry, self.pods.list(&self.cluster, registry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_the_continue_token() {
        assert_eq!(page_url("http://k/api/v1/pods", None), "http://k/api/v1/pods?limit=500");
        let url = page_url("http://k/pods?labelSelector=a%3Db", Some("x=&y"));
        assert_eq!(url, "http://k/pods?labelSelector=a%3Db&limit=500&continue=x%3D%26y");
    }
}
