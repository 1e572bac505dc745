//! Asks Kubernetes for its pods: the API server, part by part, or a kubelet, or a file with such a list.

use std::io::Read as _;
use std::path::Path;

use fabriclens_jobs::kubernetes::{self, KubernetesError, Pod};
use fabriclens_jobs::{JobList, Registry, Source};

use super::http::{self, GetError};
use super::{Ask, Opened, Opening};
use crate::reconciler::Book;
use fabriclens_config::Pods;
use fabriclens_core::endpoint::Client;

/// Pods of one part; the API server gives that many of all at a time.
const PART: usize = 500;
/// Largest part, bytes; a kubelet gives all of its pods in one, and so does a file.
const ANSWER: u64 = 256 << 20;
/// Pods of a list; more are a mistake.
const MOST: usize = 200_000;

/// Why there is no list.
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
    #[error("more than {MOST} pods are listed; ask for fewer with a labelSelector in jobs.kubernetes.pods")]
    Many,
}

/// Where pods are listed.
enum Way {
    Server(Box<Client>),
    File(std::path::PathBuf),
}

/// See the module.
struct Kubernetes {
    way: Way,
    cluster: String,
    book: Book,
}

/// If the config says where.
pub(super) fn open(opening: &Opening<'_>) -> Opened {
    let Some(config) = &opening.config.jobs.kubernetes else { return Ok(None) };
    let way = match &config.pods {
        Pods::Url(endpoint) => Way::Server(Box::new(Client::new(endpoint, opening.telemetry)?)),
        Pods::File(path) => Way::File(path.clone()),
    };
    Ok(Some(Box::new(Kubernetes { way, cluster: config.cluster.clone(), book: Book::new(Source::Kubernetes) })))
}

impl Way {
    fn pods(&self) -> Result<Vec<Pod>, AskError> {
        let client = match self {
            Self::File(path) => return Ok(kubernetes::page(&read(path)?)?.0),
            Self::Server(client) => client,
        };
        let (mut pods, mut next) = (Vec::new(), None);
        loop {
            let url = part(client.url(), next.as_deref());
            let (more, rest) = kubernetes::page(&http::get(client, &url, ANSWER, |request| request)?)?;
            pods.extend(more);
            if pods.len() > MOST {
                return Err(AskError::Many);
            }
            match rest {
                // One that always names the same part would be asked for ever.
                Some(rest) if Some(&rest) != next.as_ref() => next = Some(rest),
                _ => return Ok(pods),
            }
        }
    }

    fn list(&self, cluster: &str, registry: &Registry) -> Result<JobList, AskError> {
        Ok(kubernetes::jobs(&self.pods()?, cluster, &registry.host_names()))
    }
}

fn part(url: &str, next: Option<&str>) -> String {
    let limit = PART.to_string();
    let form = [("limit", Some(limit.as_str())), ("continue", next)];
    let form: Vec<(&str, &str)> = form.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let joint = if url.contains('?') { '&' } else { '?' };
    // Names and texts always have a form.
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

impl Ask for Kubernetes {
    fn ask(&mut self, registry: &Registry) -> bool {
        self.book.tell(registry, self.way.list(&self.cluster, registry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_asked_for_by_what_the_server_gave() {
        assert_eq!(part("http://k/api/v1/pods", None), "http://k/api/v1/pods?limit=500");
        let url = part("http://k/pods?labelSelector=a%3Db", Some("x=&y"));
        assert_eq!(url, "http://k/pods?labelSelector=a%3Db&limit=500&continue=x%3D%26y");
    }
}
