//! Endpoint settings that all sections with other servers share: URL, credentials, trust, headers and timeout.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::ConfigError;
use super::keys::SERVER_KEYS;
use super::value::{time, wrong};

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

/// Most servers of one kind.
const SERVERS: usize = 16;

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
        check_endpoint(&one).map_err(|e| rename_key(table, e))?;
        if endpoints.iter().any(|e| e.url == one.url) {
            return wrong(urls_key, format!("{url:?} occurs twice"));
        }
        endpoints.push(one);
    }
    Ok(endpoints)
}

/// Checks one endpoint; errors name the keys of `[[forward]]`.
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
pub(super) fn rename_key(table: &str, e: ConfigError) -> ConfigError {
    let ConfigError::Value { key, message } = e else { return e };
    let name = key.split_once('.').map_or(key, |(_, name)| name);
    let names = [format!("{table}.{name}"), format!("{table}.{name}s")];
    let key = SERVER_KEYS.iter().copied().find(|k| names.iter().any(|n| n == k)).unwrap_or(key);
    ConfigError::Value { key, message }
}
