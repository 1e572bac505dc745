//! Checks the servers that samples are written to and read from: `[[forward]]`, `[store]` and `[peers]`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::endpoint::{Endpoint, check_endpoint, check_servers};
use super::keys::SERVER_KEYS;
use super::value::{check_name, size, time, unique, wrong};
use crate::selector::{self, MAX_SELECTORS};
use fabriclens_model::Patterns;

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

/// `[store]` as written.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawStore {
    pub remote: Option<String>,
    pub write: Option<String>,
    pub username: Option<String>,
    pub password_file: Option<String>,
    pub bearer_token_file: Option<String>,
    pub ca: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub timeout: Option<String>,
    pub size: Option<String>,
    pub batch: Option<u32>,
    pub parallel: Option<u32>,
    pub protobuf_message: Option<String>,
}

/// `[[forward]]` as written.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawForward {
    pub name: Option<String>,
    pub url: Option<String>,
    #[serde(rename = "match")]
    pub select: Vec<String>,
    pub username: Option<String>,
    pub password_file: Option<String>,
    pub bearer_token_file: Option<String>,
    pub ca: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub timeout: Option<String>,
    pub size: Option<String>,
    pub age: Option<String>,
    pub batch: Option<u32>,
    pub parallel: Option<u32>,
    pub protobuf_message: Option<String>,
}

/// Message of remote write, which decides its version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMessage {
    /// `prometheus.WriteRequest`: version 1.0.
    #[default]
    Version1,
    /// `io.prometheus.write.v2.Request`: version 2.0.
    Version2,
}

impl WriteMessage {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Version1, Self::Version2];

    /// Full name of the message, as in Prometheus' configuration and in content types.
    pub fn name(self) -> &'static str {
        match self {
            Self::Version1 => "prometheus.WriteRequest",
            Self::Version2 => "io.prometheus.write.v2.Request",
        }
    }

    /// The message of this full name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|message| message.name() == name)
    }
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
    /// Message of its requests.
    pub message: WriteMessage,
}

/// `[store]` with `remote`: the engine that stores the samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Endpoint of queries; its URL ends before `/api/v1`, without a slash.
    pub read: Endpoint,
    /// Endpoint of writes.
    pub write: Forward,
}

/// Timeout of a request to a peer; the person who queries waits this long.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);
/// Queue of the remote engine; the dot keeps it apart from the names of `[[forward]]`.
const STORE_QUEUE: &str = "store.remote";

/// Checks all `[[forward]]` tables; their names must differ.
pub(super) fn check(raw: Vec<RawForward>) -> Result<Vec<Forward>, ConfigError> {
    unique("forward.name", raw.into_iter().map(forward), |f| &f.name)
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
        protobuf_message: raw.protobuf_message,
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
    if raw.select.len() > MAX_SELECTORS {
        return wrong(
            "forward.match",
            format!("more than {MAX_SELECTORS} selectors; combine them by regular expressions"),
        );
    }
    let mut patterns = Patterns::default();
    for text in &raw.select {
        if let Err(e) = selector::selector(text, &mut patterns) {
            return wrong("forward.match", format!("{text:?}: {}", e.to_string().replace("match[]", "it")));
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
    let message = raw.protobuf_message.map_or(Ok(WriteMessage::default()), |text| write_message(&text))?;
    Ok(Forward { name, endpoint, select: raw.select, size, age, batch, parallel, message })
}

fn write_message(text: &str) -> Result<WriteMessage, ConfigError> {
    let known = || WriteMessage::ALL.map(WriteMessage::name).join(", ");
    match WriteMessage::by_name(text) {
        Some(message) => Ok(message),
        None => wrong("forward.protobuf_message", format!("{text:?} is unknown; use one of {}", known())),
    }
}
