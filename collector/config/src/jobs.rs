//! `[jobs]`: who tells of jobs beside requests, checked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::remote::{self, Endpoint};

/// A request for all jobs or pods: a controller under load takes seconds.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Sources of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jobs {
    /// A directory with a JSON file for each job.
    pub dir: Option<PathBuf>,
    /// A command that prints Slurm's jobs: JSON, or the text of `scontrol show job`.
    pub squeue: Option<String>,
    /// Slurm's jobs over HTTP.
    pub slurmrestd: Option<Slurmrestd>,
    /// Kubernetes' pods.
    pub kubernetes: Option<Kubernetes>,
    /// Names of hosts by those that schedulers use, where they are not the same.
    pub hosts: BTreeMap<String, String>,
}

/// `[jobs.slurmrestd]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slurmrestd {
    /// Its list of jobs, with the version: `http://controller:6820/slurm/v0.0.40/jobs`.
    pub endpoint: Endpoint,
    /// Holds the token (`scontrol token`); read for each request, because it ends.
    pub token_file: Option<PathBuf>,
}

/// `[jobs.kubernetes]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    /// Where the list of pods is.
    pub pods: Pods,
    /// Which cluster's jobs these are; `""` where there is one.
    pub cluster: String,
}

/// A list of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pods {
    /// `/api/v1/pods` of an API server, `/pods` of a kubelet.
    Url(Endpoint),
    /// What such a request gave, written by somebody else.
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

/// Checks the tables together.
pub(super) fn check(raw: RawJobs) -> Result<Jobs, ConfigError> {
    let told = |text: Option<String>| text.filter(|t| !t.trim().is_empty());
    let squeue = told(raw.squeue);
    if squeue.is_some() && raw.slurmrestd.is_some() {
        let message = "excludes jobs.slurmrestd; one of the two tells of Slurm's jobs".to_owned();
        return Err(ConfigError::Value { key: "jobs.squeue", message });
    }
    Ok(Jobs {
        dir: told(raw.dir).map(PathBuf::from),
        squeue,
        slurmrestd: raw.slurmrestd.map(slurmrestd).transpose()?,
        kubernetes: raw.kubernetes.map(kubernetes).transpose()?,
        hosts: raw.hosts,
    })
}

fn slurmrestd(raw: RawSlurmrestd) -> Result<Slurmrestd, ConfigError> {
    let RawSlurmrestd { url, user, token_file, ca } = raw;
    let mut endpoint = endpoint(url, ca, "jobs.slurmrestd")?;
    // Its own way of authentication, beside which it takes no other.
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
    remote::check_endpoint(&endpoint).map_err(|e| match e {
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
    fn sources_are_read_and_what_is_wrong_is_named() {
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
        assert!(why("[kubernetes]\npods = 'ftp://x'").starts_with("jobs.kubernetes: \"ftp://x\" is no http://"));
        assert!(why("[kubernetes]\ncluster = 'x'").starts_with("jobs.kubernetes: needs pods"));
        assert!(why("[slurmrestd]\nurl = ''").starts_with("jobs.slurmrestd: "));
        assert!(why("[slurmrestd]\nuri = 'http://x'").contains("unknown field `uri`"));
        assert!(why("squeue = 'squeue'\n[slurmrestd]\nurl = 'http://x/jobs'").starts_with("jobs.squeue: excludes"));
    }
}
