//! The configuration as written: all keys, unchecked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::auth::RawAuth;
use super::jobs::RawJobs;
use super::notify::{RawAlertmanager, RawWebhook};
use super::remote::RawPeers;

/// TOML type of a value, by which environment variables are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Bool,
    Integer,
}

/// Every key that an environment variable can set. The hints and the check for unknown keys use this table, too; a test
/// keeps it equal to [`RawConfig`].
pub(super) const KEYS: &[(&str, Form)] = &[
    ("data", Form::Text),
    ("insecure", Form::Bool),
    ("self_metrics_interval", Form::Text),
    ("external_url", Form::Text),
    ("listen.http", Form::Text),
    ("listen.otlp_grpc", Form::Text),
    ("listen.otlp_http", Form::Text),
    ("listen.connections", Form::Integer),
    ("listen.connections_per_address", Form::Integer),
    ("listen.requests", Form::Integer),
    ("retention.age", Form::Text),
    ("retention.size", Form::Text),
    ("retention.rollups", Form::Text),
    ("retention.jobs", Form::Text),
    ("retention.incidents", Form::Text),
    ("tls.cert", Form::Text),
    ("tls.key", Form::Text),
    ("tls.client_ca", Form::Text),
    ("auth.tokens", Form::Text),
    ("auth.host_id", Form::Text),
    ("ingest.message_size", Form::Text),
    ("ingest.in_flight", Form::Integer),
    ("ingest.future", Form::Text),
    ("ingest.series", Form::Integer),
    ("ingest.series_per_metric", Form::Integer),
    ("ingest.tenant_label", Form::Text),
    ("ingest.series_per_tenant", Form::Integer),
    ("limits.memory", Form::Text),
    ("query.concurrency", Form::Integer),
    ("query.timeout", Form::Text),
    ("query.max_samples", Form::Integer),
    ("query.memory", Form::Text),
    ("query.lookback", Form::Text),
    ("jobs.dir", Form::Text),
    ("jobs.squeue", Form::Text),
    ("verdicts.late", Form::Text),
];

/// Keys of `[store]`, `[peers]`, `[alertmanager]`, `[[forward]]` and `[[webhook]]`: other servers, which environment
/// variables cannot set.
pub(super) const SERVER_KEYS: &[&str] = &[
    "store.remote",
    "store.write",
    "store.username",
    "store.password_file",
    "store.bearer_token_file",
    "store.ca",
    "store.headers",
    "store.timeout",
    "store.size",
    "store.batch",
    "store.parallel",
    "forward.name",
    "forward.url",
    "forward.match",
    "forward.username",
    "forward.password_file",
    "forward.bearer_token_file",
    "forward.ca",
    "forward.headers",
    "forward.timeout",
    "forward.size",
    "forward.age",
    "forward.batch",
    "forward.parallel",
    "peers.urls",
    "peers.username",
    "peers.password_file",
    "peers.bearer_token_file",
    "peers.ca",
    "peers.headers",
    "peers.timeout",
    "alertmanager.urls",
    "alertmanager.labels",
    "alertmanager.username",
    "alertmanager.password_file",
    "alertmanager.bearer_token_file",
    "alertmanager.ca",
    "alertmanager.headers",
    "alertmanager.timeout",
    "webhook.name",
    "webhook.url",
    "webhook.repeat",
    "webhook.username",
    "webhook.password_file",
    "webhook.bearer_token_file",
    "webhook.ca",
    "webhook.headers",
    "webhook.timeout",
];

/// Keys that hold tables or lists, which environment variables cannot set.
pub(super) const TABLE_KEYS: &[&str] = &[
    "auth.certificates",
    "auth.proxy",
    "jobs.slurmrestd",
    "jobs.kubernetes",
    "jobs.hosts",
    "verdicts.thresholds",
    "topology.files",
];

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawConfig {
    pub data: Option<String>,
    pub insecure: Option<bool>,
    pub self_metrics_interval: Option<String>,
    pub external_url: Option<String>,
    pub listen: RawListen,
    pub retention: RawRetention,
    pub tls: RawTls,
    pub auth: RawAuth,
    pub ingest: RawIngest,
    pub limits: RawLimits,
    pub query: RawQuery,
    pub jobs: RawJobs,
    pub verdicts: RawVerdicts,
    pub topology: RawTopology,
    pub store: RawStore,
    pub forward: Vec<RawForward>,
    pub peers: RawPeers,
    pub alertmanager: RawAlertmanager,
    pub webhook: Vec<RawWebhook>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawListen {
    pub http: Option<String>,
    pub otlp_grpc: Option<String>,
    pub otlp_http: Option<String>,
    pub connections: Option<u64>,
    pub connections_per_address: Option<u64>,
    pub requests: Option<u32>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawRetention {
    pub age: Option<String>,
    pub size: Option<String>,
    pub rollups: Option<String>,
    pub jobs: Option<String>,
    pub incidents: Option<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawTls {
    pub cert: Option<String>,
    pub key: Option<String>,
    pub client_ca: Option<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawIngest {
    pub message_size: Option<String>,
    pub in_flight: Option<u32>,
    pub future: Option<String>,
    pub series: Option<u64>,
    pub series_per_metric: Option<u64>,
    pub tenant_label: Option<String>,
    pub series_per_tenant: Option<u64>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLimits {
    pub memory: Option<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawQuery {
    pub concurrency: Option<u32>,
    pub timeout: Option<String>,
    pub max_samples: Option<u64>,
    pub memory: Option<String>,
    pub lookback: Option<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawVerdicts {
    pub late: Option<String>,
    /// By detector, then by name.
    pub thresholds: BTreeMap<String, BTreeMap<String, f64>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawTopology {
    pub files: Vec<String>,
}

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
}

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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serde lists the fields of a struct only in its error for an unknown one.
    fn fields_of(toml: &str) -> Vec<String> {
        let error = toml::from_str::<RawConfig>(toml).unwrap_err().to_string();
        let (_, list) = error.split_once("expected").unwrap();
        list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn key_table_equals_the_struct() {
        let mut found = Vec::new();
        let tops = fields_of("zzz = 1");
        let servers = ["forward", "store", "peers", "alertmanager", "webhook"];
        for top in tops.iter().filter(|t| !servers.contains(&t.as_str())) {
            match toml::from_str::<RawConfig>(&format!("[{top}]\n")) {
                Ok(_) => {
                    found.extend(fields_of(&format!("[{top}]\nzzz = 1")).into_iter().map(|f| format!("{top}.{f}")))
                }
                Err(_) => found.push(top.clone()),
            }
        }
        let mut known: Vec<&str> = KEYS.iter().map(|(k, _)| *k).collect();
        known.extend(TABLE_KEYS);
        found.sort_unstable();
        known.sort_unstable();
        assert_eq!(found, known);
        let fields = |head: &str, name: &str| -> Vec<String> {
            fields_of(&format!("{head}\nzzz = 1")).iter().map(|f| format!("{name}.{f}")).collect()
        };
        let notified = [fields("[alertmanager]", "alertmanager"), fields("[[webhook]]", "webhook")].concat();
        let kept = [fields("[store]", "store"), fields("[[forward]]", "forward"), fields("[peers]", "peers")].concat();
        assert_eq!([kept, notified].concat(), SERVER_KEYS);
    }
}
