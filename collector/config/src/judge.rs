//! Checks `role` and `[judge]`: which part of a collector this process is, and how ingest collectors and judges find each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::endpoint::{Endpoint, check_servers};
use super::value::{check_name, size, time, wrong};
use super::{Config, ConfigError};

/// Part of a collector that a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServeRole {
    /// Receives, stores and judges.
    #[default]
    All,
    /// Receives samples, writes them to a remote engine and sends what is judged to the judge.
    Ingest,
    /// Judges what ingest collectors send, and reads everything else from the remote engine.
    Judge,
}

impl ServeRole {
    /// All roles with their names in configuration and command line.
    pub const ALL: [(Self, &str); 3] = [(Self::All, "all"), (Self::Ingest, "ingest"), (Self::Judge, "judge")];

    /// Name in the configuration.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Whether detectors, jobs and audit run.
    pub fn judges(self) -> bool {
        self != Self::Ingest
    }
}

/// `[judge]` as written.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawJudge {
    pub urls: Vec<String>,
    pub username: Option<String>,
    pub password_file: Option<String>,
    pub bearer_token_file: Option<String>,
    pub ca: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub timeout: Option<String>,
    pub size: Option<String>,
    pub age: Option<String>,
    pub batch: Option<u32>,
    pub lease: Option<String>,
    pub name: Option<String>,
}

/// Where the judge is, and by which lease one of several judges is active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judge {
    /// Main listeners of the judge and its standbys; used by ingest collectors.
    pub endpoints: Vec<Endpoint>,
    /// Bytes that may wait on disk for the judge.
    pub size: u64,
    /// Time that samples may wait for the judge.
    pub age: Duration,
    /// Samples per request.
    pub batch: usize,
    /// Lease file on storage that all judges share; `None`: this judge is the only one.
    pub lease: Option<PathBuf>,
    /// Name of this judge in the lease; empty: the host name.
    pub name: String,
}

impl Default for Judge {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            size: 4 << 30,
            age: Duration::from_secs(2 * 86_400),
            batch: 10_000,
            lease: None,
            name: String::new(),
        }
    }
}

/// Timeout of a request to a judge. If a judge's host is gone, samples wait this long before they go to the next URL.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Parses a role.
pub(super) fn role(text: Option<String>) -> Result<ServeRole, ConfigError> {
    let Some(text) = text else { return Ok(ServeRole::All) };
    match ServeRole::ALL.iter().find(|(_, name)| *name == text) {
        Some((role, _)) => Ok(*role),
        None => wrong("role", format!("{text:?} is not a role; write all, ingest or judge")),
    }
}

/// Checks `[judge]` by itself.
pub(super) fn check(raw: RawJudge) -> Result<Judge, ConfigError> {
    let mut judge = Judge::default();
    let endpoint = Endpoint {
        url: String::new(),
        username: raw.username,
        password_file: raw.password_file.map(PathBuf::from),
        bearer_token_file: raw.bearer_token_file.map(PathBuf::from),
        ca: raw.ca.map(PathBuf::from),
        headers: raw.headers,
        timeout: TIMEOUT,
    };
    judge.endpoints = check_servers(["judge", "judge.urls", "judge.timeout"], raw.urls, endpoint, raw.timeout)?;
    time(&mut judge.age, raw.age, "judge.age")?;
    judge.size = raw.size.map_or(Ok(judge.size), |text| size(&text, "judge.size"))?;
    judge.batch = raw.batch.map_or(judge.batch, |n| n as usize);
    for (key, ok, rule) in [
        ("judge.size", judge.size >= 16 << 20, "at least 16MiB"),
        ("judge.age", judge.age >= Duration::from_secs(60), "at least 1m"),
        ("judge.batch", (1..=1_000_000).contains(&judge.batch), "from 1 to 1000000 samples"),
    ] {
        if !ok {
            return wrong(key, rule);
        }
    }
    if let Some(name) = raw.name {
        check_name("judge.name", &name)?;
        judge.name = name;
    }
    judge.lease = raw.lease.map(PathBuf::from);
    if judge.lease.as_ref().is_some_and(|path| path.file_name().is_none()) {
        return wrong("judge.lease", "names no file; write for instance /shared/fabriclens/judge.lease");
    }
    Ok(judge)
}

/// Checks that the role has what it needs. Ingest collectors and judges may share a configuration: each ignores the keys of the
/// other.
pub(super) fn check_role(config: &Config) -> Result<(), ConfigError> {
    let judge = &config.judge;
    let engine = "missing; ingest collectors and the judge share the samples by an engine: \
                  set it to the URL of VictoriaMetrics, Mimir or Prometheus, or set role = \"all\"";
    match config.role {
        ServeRole::All if !judge.endpoints.is_empty() => {
            wrong("judge.urls", "role = \"all\" judges by itself; set role = \"ingest\", or remove judge.urls")
        }
        ServeRole::All if judge.lease.is_some() => {
            wrong("judge.lease", "only judges have a lease; set role = \"judge\", or remove judge.lease")
        }
        ServeRole::All => Ok(()),
        _ if config.store.is_none() => wrong("store.remote", engine),
        ServeRole::Ingest if judge.endpoints.is_empty() => wrong(
            "judge.urls",
            "missing; role = \"ingest\" sends to a judge: list the URLs of the judge and its standby, \
             for instance [\"https://judge-1.example:7470\"]",
        ),
        ServeRole::Ingest => Ok(()),
        ServeRole::Judge => check_lease(&config.data, judge.lease.as_deref()),
    }
}

/// A data directory that holds only a lease would not be recognized as one.
fn check_lease(data: &Path, lease: Option<&Path>) -> Result<(), ConfigError> {
    if lease.is_some_and(|path| path.starts_with(data)) {
        return wrong("judge.lease", "lies in the data directory; put it beside, on the same shared storage");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    const STORE: &str = "[store]\nremote = \"http://victoria:8428\"\n";

    fn config(text: &str) -> Result<Config, ConfigError> {
        load::check(toml::from_str(text).unwrap())
    }

    fn error(text: &str) -> String {
        config(text).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_key_and_the_remedy() {
        for (text, key, remedy) in [
            ("role = \"both\"", "role: ", "write all, ingest or judge"),
            ("role = \"ingest\"", "store.remote: ", "set it to the URL of VictoriaMetrics"),
            ("role = \"judge\"", "store.remote: ", "or set role = \"all\""),
            (&format!("role = \"ingest\"\n{STORE}"), "judge.urls: ", "list the URLs of the judge"),
            ("[judge]\nurls = [\"http://j:1\"]", "judge.urls: ", "set role = \"ingest\""),
            ("[judge]\nlease = \"/x/y\"", "judge.lease: ", "set role = \"judge\""),
            ("[judge]\nurls = [\"j:1\"]", "judge.urls: ", "not an http:// or https:// URL"),
            ("[judge]\nurls = [\"http://j\", \"http://j/\"]", "judge.urls: ", "occurs twice"),
            ("[judge]\nsize = \"1MiB\"", "judge.size: ", "at least 16MiB"),
            ("[judge]\nage = \"1s\"", "judge.age: ", "at least 1m"),
            ("[judge]\nbatch = 0", "judge.batch: ", "from 1 to"),
            ("[judge]\nname = \"Judge 1\"", "judge.name: ", "is not a valid name"),
            ("[judge]\nlease = \"/\"", "judge.lease: ", "names no file"),
            (
                &format!("role = \"judge\"\ndata = \"/d\"\n{STORE}[judge]\nlease = \"/d/lease\""),
                "judge.lease: ",
                "put it beside",
            ),
        ] {
            let error = error(text);
            assert!(error.starts_with(key) && error.contains(remedy), "{text}: {error}");
        }
    }

    #[test]
    fn ingest_and_judge_may_share_a_file() {
        let rest = "[judge]\nurls = [\"http://a:1/\", \"http://b:1\"]\nlease = \"/shared/lease\"\nname = \"a\"";
        for (role, name) in ServeRole::ALL.iter().skip(1) {
            let config = config(&format!("role = \"{name}\"\n{STORE}{rest}")).unwrap();
            assert_eq!((config.role, config.judge.endpoints[0].url.as_str()), (*role, "http://a:1"));
            assert_eq!((config.judge.lease.unwrap(), config.judge.name.as_str()), ("/shared/lease".into(), "a"));
        }
        assert!(ServeRole::ALL.iter().all(|(role, name)| role.name() == *name));
        assert_eq!(config("").unwrap().role, ServeRole::All);
    }
}
