//! Checks `[jobs]`: the sources of jobs besides the API.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::endpoint::{Endpoint, check_endpoint};

/// Timeout of a request for all jobs or pods; a controller under load takes seconds.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Sources of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jobs {
    /// Directory with one JSON file per job.
    pub dir: Option<PathBuf>,
    /// Command that prints Slurm's jobs, as JSON or as `scontrol show job` does.
    pub squeue: Option<String>,
    /// Slurm's REST API.
    pub slurmrestd: Option<Slurmrestd>,
    /// Kubernetes pods.
    pub kubernetes: Option<Kubernetes>,
    /// Host names by the names that schedulers use, where the two differ.
    pub hosts: BTreeMap<String, String>,
}

/// `[jobs.slurmrestd]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slurmrestd {
    /// URL of the job list, with the API version: `http://controller:6820/slurm/v0.0.40/jobs`.
    pub endpoint: Endpoint,
    /// File with the token (`scontrol token`); read for each request, because tokens expire.
    pub token_file: Option<PathBuf>,
}

/// `[jobs.kubernetes]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    /// Source of the pod list.
    pub pods: Pods,
    /// Cluster name of these jobs; empty if there is only one cluster.
    pub cluster: String,
}

/// A source of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pods {
    /// `/api/v1/pods` of an API server, or `/pods` of a kubelet.
    Url(Endpoint),
    /// File with the answer to such a request, written by another process.
    File(PathBuf),
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawJobs {
    pub dir: Option<String>,
    pub squeue: Option<String>,
    pub slurmrestd: Option<RawSlurmrestd>,
    pub kubernetes: Option<RawKubernetes>,
    pub hosts: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawSlurmrestd {
    url: String,
    user: Option<String>,
    token_file: Option<String>,
    ca: Option<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawKubernetes {
    pods: String,
    token_file: Option<String>,
    ca: Option<String>,
    cluster: String,
}

/// Checks all tables of `[jobs]`.
pub(super) fn check(raw: RawJobs) -> Result<Jobs, ConfigError> {
    let non_empty = |text: Option<String>| text.filter(|t| !t.trim().is_empty());
    let squeue = non_empty(raw.squeue);
    if squeue.is_some() && raw.slurmrestd.is_some() {
        let message = "excludes jobs.slurmrestd; set one of the two".to_owned();
        return Err(ConfigError::Value { key: "jobs.squeue", message });
    }
    Ok(Jobs {
        dir: non_empty(raw.dir).map(PathBuf::from),
        squeue,
        slurmrestd: raw.slurmrestd.map(slurmrestd).transpose()?,
        kubernetes: raw.kubernetes.map(kubernetes).transpose()?,
        hosts: raw.hosts,
    })
}

fn slurmrestd(raw: RawSlurmrestd) -> Result<Slurmrestd, ConfigError> {
    let RawSlurmrestd { url, user, token_file, ca } = raw;
    let mut endpoint = endpoint(url, ca, "jobs.slurmrestd")?;
    // Slurm's own authentication header; slurmrestd takes no other.
    endpoint.headers.extend(user.map(|user| ("X-SLURM-USER-NAME".to_owned(), user)));
    Ok(Slurmrestd { endpoint, token_file: token_file.map(PathBuf::from) })
}

fn kubernetes(raw: RawKubernetes) -> Result<Kubernetes, ConfigError> {
    let RawKubernetes { pods, token_file, ca, cluster } = raw;
    let pods = if pods.contains("://") {
        let mut endpoint = endpoint(pods, ca, "jobs.kubernetes")?;
        endpoint.bearer_token_file = token_file.map(PathBuf::from);
        Pods::Url(endpoint)
    } else if pods.is_empty() {
        let message = "needs pods: the URL of /api/v1/pods of an API server or of /pods of a kubelet, or a file with such \
                       a list";
        return Err(ConfigError::Value { key: "jobs.kubernetes", message: message.to_owned() });
    } else {
        Pods::File(pods.into())
    };
    Ok(Kubernetes { pods, cluster })
}

fn endpoint(url: String, ca: Option<String>, key: &'static str) -> Result<Endpoint, ConfigError> {
    let endpoint = Endpoint {
        url,
        username: None,
        password_file: None,
        bearer_token_file: None,
        ca: ca.map(PathBuf::from),
        headers: BTreeMap::new(),
        timeout: TIMEOUT,
    };
    check_endpoint(&endpoint).map_err(|e| match e {
        ConfigError::Value { message, .. } => ConfigError::Value { key, message },
        other => other,
    })?;
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(toml: &str) -> Result<Jobs, String> {
        check(toml::from_str(toml).map_err(|e| e.to_string())?).map_err(|e| e.to_string())
    }

    #[test]
    fn job_sources_are_checked() {
        let jobs = read(
            "[slurmrestd]\nurl = 'http://c:6820/slurm/v0.0.40/jobs'\nuser = 'root'\ntoken_file = '/t'\n\
             [kubernetes]\npods = 'https://k:6443/api/v1/pods'\ntoken_file = '/k'\nca = '/ca'\ncluster = 'west'\n\
             [hosts]\nn1 = 'gpu-1.example'",
        )
        .unwrap();
        let slurm = jobs.slurmrestd.unwrap();
        assert_eq!(slurm.endpoint.headers["X-SLURM-USER-NAME"], "root");
        assert_eq!(slurm.token_file, Some("/t".into()));
        let Kubernetes { pods: Pods::Url(endpoint), cluster } = jobs.kubernetes.unwrap() else { panic!("a file") };
        assert_eq!((endpoint.bearer_token_file, endpoint.ca), (Some("/k".into()), Some("/ca".into())));
        assert_eq!((cluster.as_str(), jobs.hosts["n1"].as_str()), ("west", "gpu-1.example"));
        let file = read("[kubernetes]\npods = '/run/pods.json'").unwrap().kubernetes.unwrap().pods;
        assert_eq!(file, Pods::File("/run/pods.json".into()));
        let why = |toml: &str| read(toml).unwrap_err();
        assert!(why("[kubernetes]\npods = 'ftp://x'").starts_with("jobs.kubernetes: \"ftp://x\" is not an http://"));
        assert!(why("[kubernetes]\ncluster = 'x'").starts_with("jobs.kubernetes: needs pods"));
        assert!(why("[slurmrestd]\nurl = ''").starts_with("jobs.slurmrestd: "));
        assert!(why("[slurmrestd]\nuri = 'http://x'").contains("unknown field `uri`"));
        assert!(why("squeue = 'squeue'\n[slurmrestd]\nurl = 'http://x/jobs'").starts_with("jobs.squeue: excludes"));
    }
}
