//! Other servers as the config names them: `[[forward]]`, checked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::ConfigError;
use super::load::{size, time};
use super::raw::RawForward;
use crate::api::selector;

/// A server that is asked or sent to over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `http://` or `https://`.
    pub url: String,
    /// For basic authentication, with the password file.
    pub username: Option<String>,
    /// Holds the password; read for each request, so that it can change.
    pub password_file: Option<PathBuf>,
    /// Holds a bearer token; read for each request.
    pub bearer_token_file: Option<PathBuf>,
    /// Certificate authority (PEM) of an `https` server; without it, the public ones.
    pub ca: Option<PathBuf>,
    /// Sent with each request.
    pub headers: BTreeMap<String, String>,
    /// Longest request.
    pub timeout: Duration,
}

/// One `[[forward]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Names its directory and its metrics.
    pub name: String,
    /// Takes remote write.
    pub endpoint: Endpoint,
    /// Selectors of series; without any, all are sent.
    pub select: Vec<String>,
    /// Bytes that may wait on disk.
    pub size: u64,
    /// How long samples may wait.
    pub age: Duration,
    /// Samples of one request.
    pub batch: usize,
    /// Requests at the same time.
    pub parallel: usize,
}

fn wrong<T>(key: &'static str, message: String) -> Result<T, ConfigError> {
    Err(ConfigError::Value { key, message })
}

/// Checks all tables together: names must differ.
pub(super) fn check(raw: Vec<RawForward>) -> Result<Vec<Forward>, ConfigError> {
    let mut found: Vec<Forward> = Vec::new();
    for one in raw {
        let one = forward(one)?;
        if found.iter().any(|f| f.name == one.name) {
            return wrong("forward.name", format!("{:?} comes twice; give each its own", one.name));
        }
        found.push(one);
    }
    Ok(found)
}

fn forward(raw: RawForward) -> Result<Forward, ConfigError> {
    let name = raw.name.unwrap_or_default();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        let rule = "1 to 64 of a-z, 0-9, - and _; it names the queue's directory and its metrics";
        return wrong("forward.name", format!("{name:?} is no name: {rule}"));
    }
    let Some(url) = raw.url else {
        return wrong("forward.url", format!("missing in {name:?}; for instance http://victoria:8428/api/v1/write"));
    };
    let mut timeout = Duration::from_secs(30);
    time(&mut timeout, raw.timeout, "forward.timeout")?;
    let mut age = Duration::from_secs(2 * 86_400);
    time(&mut age, raw.age, "forward.age")?;
    let endpoint = Endpoint {
        url,
        username: raw.username,
        password_file: raw.password_file.map(PathBuf::from),
        bearer_token_file: raw.bearer_token_file.map(PathBuf::from),
        ca: raw.ca.map(PathBuf::from),
        headers: raw.headers,
        timeout,
    };
    check_endpoint(&endpoint)?;
    for text in &raw.select {
        if let Err(e) = selector::selector(text) {
            return wrong("forward.match", format!("{text:?}: {}", e.replace("match[]", "it")));
        }
    }
    let size = raw.size.map_or(Ok(4 << 30), |t| size(&t, "forward.size"))?;
    let (batch, parallel) = (raw.batch.unwrap_or(10_000) as usize, raw.parallel.unwrap_or(1) as usize);
    for (key, ok, rule) in [
        ("forward.size", size >= 16 << 20, "at least 16MiB"),
        ("forward.age", age >= Duration::from_secs(60), "at least 1m"),
        ("forward.batch", (1..=1_000_000).contains(&batch), "from 1 to 1000000 samples"),
        ("forward.parallel", (1..=64).contains(&parallel), "from 1 to 64 requests"),
    ] {
        if !ok {
            return wrong(key, format!("{rule} (in {name:?})"));
        }
    }
    Ok(Forward { name, endpoint, select: raw.select, size, age, batch, parallel })
}

fn check_endpoint(endpoint: &Endpoint) -> Result<(), ConfigError> {
    let url = &endpoint.url;
    let parsed = url.parse::<ureq::http::Uri>().ok();
    let usable = parsed.filter(|u| matches!(u.scheme_str(), Some("http" | "https")) && u.host().is_some());
    match usable.and_then(|u| u.authority().map(|a| a.as_str().contains('@'))) {
        None => return wrong("forward.url", format!("{url:?} is no http:// or https:// URL")),
        Some(true) => {
            return wrong("forward.url", "holds credentials; use username and password_file instead".to_owned());
        }
        Some(false) => {}
    }
    let needs = |key, message: &str| wrong(key, message.to_owned());
    match (&endpoint.username, &endpoint.password_file, &endpoint.bearer_token_file) {
        (Some(_), None, _) => return needs("forward.password_file", "missing; a username needs it"),
        (None, Some(_), _) => return needs("forward.username", "missing; a password needs it"),
        (Some(_), Some(_), Some(_)) => {
            return needs("forward.bearer_token_file", "excludes username and password_file; set one of the two");
        }
        _ => {}
    }
    if endpoint.timeout.is_zero() {
        return needs("forward.timeout", "longer than 0s");
    }
    for (name, value) in &endpoint.headers {
        let valid = ureq::http::HeaderName::try_from(name).is_ok() && ureq::http::HeaderValue::try_from(value).is_ok();
        let ours = ["content-type", "content-encoding", "content-length", "host", "authorization"];
        if !valid || ours.iter().any(|o| name.eq_ignore_ascii_case(o)) {
            return wrong("forward.headers", format!("{name:?} is no HTTP header that may be set here"));
        }
    }
    Ok(())
}
