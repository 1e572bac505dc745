//! Checks other servers: `[[forward]]`, `[store]`, `[peers]`, and the endpoint settings that all sections share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::load::{size, time};
use super::raw::{RawForward, RawStore, SERVER_KEYS};
use crate::selector;

/// An HTTP server with credentials and trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `http://` or `https://`.
    pub url: String,
    /// User of basic authentication; needs the password file.
    pub username: Option<String>,
    /// File with the password; read for each request.
    pub password_file: Option<PathBuf>,
    /// File with a bearer token; read for each request.
    pub bearer_token_file: Option<PathBuf>,
    /// Certificate authority (PEM) of an `https` server; by default the public ones.
    pub ca: Option<PathBuf>,
    /// Headers added to each request.
    pub headers: BTreeMap<String, String>,
    /// Request timeout.
    pub timeout: Duration,
}

/// `[peers]` as written.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawPeers {
    pub urls: Vec<String>,
    pub username: Option<String>,
    pub password_file: Option<String>,
    pub bearer_token_file: Option<String>,
    pub ca: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub timeout: Option<String>,
}

/// One `[[forward]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Name of its queue directory and in its metrics.
    pub name: String,
    /// Endpoint that accepts remote write.
    pub endpoint: Endpoint,
    /// Selectors of the series to send; empty for all.
    pub select: Vec<String>,
    /// Bytes that may wait on disk.
    pub size: u64,
    /// Time that samples may wait.
    pub age: Duration,
    /// Samples per request.
    pub batch: usize,
    /// Concurrent requests.
    pub parallel: usize,
}

/// `[store]` with `remote`: the engine that stores the samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Endpoint of queries; its URL ends before `/api/v1`, without a slash.
    pub read: Endpoint,
    /// Endpoint of writes.
    pub write: Forward,
}

/// Most servers of one kind.
pub(super) const SERVERS: usize = 16;
/// Timeout of a request to a peer; the person who queries waits this long.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);
/// Queue of the remote engine; the dot keeps it apart from the names of `[[forward]]`.
const STORE_QUEUE: &str = "store.remote";

pub(super) fn wrong<T>(key: &'static str, message: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError::Value { key, message: message.into() })
}

/// Checks all `[[forward]]` tables; their names must differ.
pub(super) fn check(raw: Vec<RawForward>) -> Result<Vec<Forward>, ConfigError> {
    named("forward.name", raw.into_iter().map(forward), |f| &f.name)
}

/// Collects checked tables whose names must differ; `key` is the config key of the name.
pub(super) fn named<T>(
    key: &'static str,
    all: impl Iterator<Item = Result<T, ConfigError>>,
    name: impl Fn(&T) -> &String,
) -> Result<Vec<T>, ConfigError> {
    let mut found: Vec<T> = Vec::new();
    for one in all {
        let one = one?;
        if found.iter().any(|other| name(other) == name(&one)) {
            return wrong(key, format!("{:?} occurs twice; names must differ", name(&one)));
        }
        found.push(one);
    }
    Ok(found)
}

/// Checks `[store]`; `None` if this collector stores the samples.
pub(super) fn check_store(raw: RawStore) -> Result<Option<Remote>, ConfigError> {
    let Some(base) = raw.remote else {
        let lonely = raw.write.is_some() || raw.username.is_some() || raw.size.is_some();
        return if lonely {
            wrong("store.remote", "missing; the other keys of [store] need it".to_owned())
        } else {
            Ok(None)
        };
    };
    let base = base.trim_end_matches('/').to_owned();
    let table = RawForward {
        url: Some(raw.write.unwrap_or_else(|| format!("{base}/api/v1/write"))),
        username: raw.username,
        password_file: raw.password_file,
        bearer_token_file: raw.bearer_token_file,
        ca: raw.ca,
        headers: raw.headers,
        timeout: raw.timeout,
        size: raw.size,
        batch: raw.batch,
        parallel: raw.parallel,
        ..RawForward::default()
    };
    let of_store = |e: ConfigError| match e {
        ConfigError::Value { key, message } => ConfigError::Value { key: store_key(key), message },
        other => other,
    };
    let write = target(STORE_QUEUE.to_owned(), table).map_err(of_store)?;
    let read = Endpoint { url: base, ..write.endpoint.clone() };
    check_endpoint(&read).map_err(of_store)?;
    Ok(Some(Remote { read, write }))
}

/// The key of `[store]` for a key of `[[forward]]` that was checked in its place.
fn store_key(key: &'static str) -> &'static str {
    let name = key.trim_start_matches("forward.").replace("url", "remote");
    SERVER_KEYS.iter().copied().find(|k| k.strip_prefix("store.") == Some(&name)).unwrap_or(key)
}

fn forward(mut raw: RawForward) -> Result<Forward, ConfigError> {
    let name = raw.name.take().unwrap_or_default();
    check_name("forward.name", &name)?;
    target(name, raw)
}

/// Checks a name that is used for directories and metrics.
pub(super) fn check_name(key: &'static str, name: &str) -> Result<(), ConfigError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        let rule = "1 to 64 of a-z, 0-9, - and _; it names its directory and its metrics";
        return wrong(key, format!("{name:?} is not a valid name: {rule}"));
    }
    Ok(())
}

/// Checks servers with common credentials; the array holds the table and its keys of URLs and timeout.
pub(super) fn check_servers(
    [table, urls_key, timeout_key]: [&'static str; 3],
    urls: Vec<String>,
    mut endpoint: Endpoint,
    timeout: Option<String>,
) -> Result<Vec<Endpoint>, ConfigError> {
    if urls.len() > SERVERS {
        return wrong(urls_key, format!("at most {SERVERS}"));
    }
    time(&mut endpoint.timeout, timeout, timeout_key)?;
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for url in urls {
        let one = Endpoint { url: url.trim_end_matches('/').to_owned(), ..endpoint.clone() };
        check_endpoint(&one).map_err(|e| of(table, e))?;
        if endpoints.iter().any(|e| e.url == one.url) {
            return wrong(urls_key, format!("{url:?} occurs twice"));
        }
        endpoints.push(one);
    }
    Ok(endpoints)
}

/// Checks `[peers]`, other collectors with samples of the same hosts.
pub(super) fn check_peers(raw: RawPeers) -> Result<Vec<Endpoint>, ConfigError> {
    let endpoint = Endpoint {
        url: String::new(),
        username: raw.username,
        password_file: raw.password_file.map(PathBuf::from),
        bearer_token_file: raw.bearer_token_file.map(PathBuf::from),
        ca: raw.ca.map(PathBuf::from),
        headers: raw.headers,
        timeout: PEER_TIMEOUT,
    };
    check_servers(["peers", "peers.urls", "peers.timeout"], raw.urls, endpoint, raw.timeout)
}

fn target(name: String, raw: RawForward) -> Result<Forward, ConfigError> {
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

pub(super) fn check_endpoint(endpoint: &Endpoint) -> Result<(), ConfigError> {
    let url = &endpoint.url;
    let parsed = url.parse::<ureq::http::Uri>().ok();
    let usable = parsed.filter(|u| matches!(u.scheme_str(), Some("http" | "https")) && u.host().is_some());
    match usable.and_then(|u| u.authority().map(|a| a.as_str().contains('@'))) {
        None => return wrong("forward.url", format!("{url:?} is not an http:// or https:// URL")),
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
        let reserved = ["content-type", "content-encoding", "content-length", "host", "authorization"];
        if !valid || reserved.iter().any(|o| name.eq_ignore_ascii_case(o)) {
            return wrong("forward.headers", format!("{name:?} is not an HTTP header that may be set here"));
        }
    }
    Ok(())
}

/// Rewrites an error about an endpoint to the keys of this table.
pub(super) fn of(table: &str, e: ConfigError) -> ConfigError {
    let ConfigError::Value { key, message } = e else { return e };
    let name = key.split_once('.').map_or(key, |(_, name)| name);
    let names = [format!("{table}.{name}"), format!("{table}.{name}s")];
    let key = SERVER_KEYS.iter().copied().find(|k| names.iter().any(|n| n == k)).unwrap_or(key);
    ConfigError::Value { key, message }
}
