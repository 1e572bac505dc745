//! The configuration as written in TOML, before it is checked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::auth::RawAuth;
use super::gnmi::RawGnmi;
use super::job_notification::RawJobNotification;
use super::jobs::RawJobs;
use super::judge::RawJudge;
use super::notify::{RawAlertmanager, RawWebhook};
use super::remote::{RawForward, RawPeers, RawStore};

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawConfig {
    pub data: Option<String>,
    pub role: Option<String>,
    pub insecure: Option<bool>,
    pub self_metrics_interval: Option<String>,
    pub external_url: Option<String>,
    pub listen: RawListen,
    pub retention: RawRetention,
    pub tls: RawTls,
    pub auth: RawAuth,
    pub ingest: RawIngest,
    pub switches: RawSwitches,
    pub limits: RawLimits,
    pub query: RawQuery,
    pub jobs: RawJobs,
    pub verdicts: RawVerdicts,
    pub topology: RawTopology,
    pub audit: RawAudit,
    pub probes: RawProbes,
    pub store: RawStore,
    pub forward: Vec<RawForward>,
    pub peers: RawPeers,
    pub judge: RawJudge,
    pub alertmanager: RawAlertmanager,
    pub webhook: Vec<RawWebhook>,
    pub job_notification: Vec<RawJobNotification>,
    pub gnmi: RawGnmi,
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
pub(super) struct RawSwitches {
    /// Switch by address.
    pub addresses: BTreeMap<String, String>,
    pub raw: Vec<String>,
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
    pub promql: Option<String>,
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
pub(super) struct RawAudit {
    pub baselines: Vec<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawProbes {
    pub per_port: Option<u32>,
    pub per_host: Option<u32>,
    pub per_fabric: Option<u32>,
    pub traces_per_leaf: Option<u32>,
    pub traffic_class: Option<u32>,
    pub service_level: Option<u32>,
    pub paths: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{KEYS, SERVER_KEYS, TABLE_KEYS};

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
        let servers = ["forward", "store", "peers", "judge", "alertmanager", "webhook", "job_notification"];
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
        let notified = [
            fields("[alertmanager]", "alertmanager"),
            fields("[[webhook]]", "webhook"),
            fields("[[job_notification]]", "job_notification"),
        ]
        .concat();
        let kept = [
            fields("[store]", "store"),
            fields("[[forward]]", "forward"),
            fields("[peers]", "peers"),
            fields("[judge]", "judge"),
        ]
        .concat();
        assert_eq!([kept, notified].concat(), SERVER_KEYS);
    }
}
