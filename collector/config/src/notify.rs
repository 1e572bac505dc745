//! Checks the receivers of notifications: `[alertmanager]` and `[[webhook]]`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::endpoint::{Endpoint, check_endpoint, check_servers, rename_key};
use super::value::{check_name, time, unique, wrong};

/// Request timeout; people wait for the message.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most receivers of each kind.
const MOST: usize = 16;

/// `[alertmanager]`: every endpoint receives all alerts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alertmanager {
    /// URLs up to, but without, `/api/v2/alerts`.
    pub endpoints: Vec<Endpoint>,
    /// Labels added to every alert.
    pub labels: BTreeMap<String, String>,
}

/// One `[[webhook]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Name in metrics and in the delivery state.
    pub name: String,
    /// Endpoint that accepts JSON by POST.
    pub endpoint: Endpoint,
    /// Interval of reminders of unacknowledged incidents; zero for none.
    pub repeat: Duration,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawAlertmanager {
    urls: Vec<String>,
    labels: BTreeMap<String, String>,
    username: Option<String>,
    password_file: Option<String>,
    bearer_token_file: Option<String>,
    ca: Option<String>,
    headers: BTreeMap<String, String>,
    timeout: Option<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawWebhook {
    name: Option<String>,
    url: Option<String>,
    repeat: Option<String>,
    username: Option<String>,
    password_file: Option<String>,
    bearer_token_file: Option<String>,
    ca: Option<String>,
    headers: BTreeMap<String, String>,
    timeout: Option<String>,
}

pub(super) fn check_external_url(url: Option<String>) -> Result<Option<String>, ConfigError> {
    let Some(url) = url.filter(|url| !url.is_empty()) else { return Ok(None) };
    let parsed = url.parse::<ureq::http::Uri>().ok();
    match parsed.filter(|u| matches!(u.scheme_str(), Some("http" | "https")) && u.query().is_none()) {
        Some(_) => Ok(Some(url.trim_end_matches('/').to_owned())),
        None => wrong("external_url", format!("{url:?} is not an http:// or https:// URL of this collector")),
    }
}

pub(super) fn check_alertmanager(raw: RawAlertmanager) -> Result<Alertmanager, ConfigError> {
    let RawAlertmanager { urls, labels, username, password_file, bearer_token_file, ca, headers, timeout } = raw;
    if urls.is_empty() && (username.is_some() || bearer_token_file.is_some() || !labels.is_empty()) {
        return wrong("alertmanager.urls", "missing; for instance [\"http://alertmanager:9093\"]");
    }
    let name = |n: &str| {
        n.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !n.starts_with(|c: char| c.is_ascii_digit())
    };
    if let Some(bad) = labels.keys().find(|n| n.is_empty() || !name(n)) {
        return wrong("alertmanager.labels", format!("{bad:?} is not a label name (letters, digits and _)"));
    }
    let endpoint = Endpoint {
        url: String::new(),
        username,
        password_file: password_file.map(PathBuf::from),
        bearer_token_file: bearer_token_file.map(PathBuf::from),
        ca: ca.map(PathBuf::from),
        headers,
        timeout: TIMEOUT,
    };
    let endpoints =
        check_servers(["alertmanager", "alertmanager.urls", "alertmanager.timeout"], urls, endpoint, timeout)?;
    Ok(Alertmanager { endpoints, labels })
}

pub(super) fn check_webhooks(raw: Vec<RawWebhook>) -> Result<Vec<Webhook>, ConfigError> {
    if raw.len() > MOST {
        return wrong("webhook.name", format!("at most {MOST} webhooks"));
    }
    unique("webhook.name", raw.into_iter().map(webhook), |w| &w.name)
}

fn webhook(raw: RawWebhook) -> Result<Webhook, ConfigError> {
    let name = raw.name.unwrap_or_default();
    check_name("webhook.name", &name)?;
    let Some(url) = raw.url else {
        return wrong("webhook.url", format!("missing in {name:?}; for instance https://tickets.example/fabric"));
    };
    let mut endpoint = Endpoint {
        url,
        username: raw.username,
        password_file: raw.password_file.map(PathBuf::from),
        bearer_token_file: raw.bearer_token_file.map(PathBuf::from),
        ca: raw.ca.map(PathBuf::from),
        headers: raw.headers,
        timeout: TIMEOUT,
    };
    time(&mut endpoint.timeout, raw.timeout, "webhook.timeout")?;
    let mut repeat = Duration::ZERO;
    time(&mut repeat, raw.repeat, "webhook.repeat")?;
    check_endpoint(&endpoint).map_err(|e| rename_key("webhook", e))?;
    if !repeat.is_zero() && repeat < Duration::from_secs(60) {
        return wrong("webhook.repeat", "at least 1m, or 0s for no reminders");
    }
    Ok(Webhook { name, endpoint, repeat })
}
