//! `/api/v1/status/*`, and endpoints that return empty lists, because the collector has no rules, alerts or targets.

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Value, json};

use super::Api;
use super::encode::{self, Json};
use super::memory::Answer;
use super::params::Params;
use super::query::QueryContext;
use fabriclens_base::duration;
use fabriclens_core::time;
use fabriclens_server::error::ApiError;
use fabriclens_store::{Cardinality, Stats};

/// The Prometheus version whose API and PromQL this is; Grafana enables features by it.
const PROMETHEUS: &str = "2.53.0";
/// Default and largest length of each list in `status/tsdb`, as in Prometheus.
const TOP: usize = 10;
const MAX_TOP: usize = 10_000;

fn success(data: &Value) -> Json {
    encode::success(|out| out.push_str(&data.to_string()))
}

/// Version, as of the corresponding Prometheus.
pub(super) async fn buildinfo() -> Json {
    success(&json!({
        "version": PROMETHEUS,
        "revision": concat!("fabriclens-", env!("CARGO_PKG_VERSION")),
        "branch": "", "buildUser": "", "buildDate": "", "goVersion": "",
    }))
}

/// Configuration in force, as YAML.
pub(super) async fn config(State(api): State<Arc<Api>>) -> Json {
    let lines = api.config.shown().into_iter().map(|(key, value)| format!("{key}: {}\n", json!(value)));
    success(&json!({"yaml": lines.collect::<String>()}))
}

/// Configuration in force, as a map.
pub(super) async fn flags(State(api): State<Arc<Api>>) -> Json {
    let map: serde_json::Map<String, Value> =
        api.config.shown().into_iter().map(|(key, value)| (key.to_owned(), Value::String(value))).collect();
    success(&Value::Object(map))
}

/// Start time, directory and damage.
pub(super) async fn runtimeinfo(State(api): State<Arc<Api>>) -> Json {
    let stats = api.store.stats();
    let started = time::format_time(api.started_ms);
    success(&json!({
        "startTime": started,
        "CWD": std::env::current_dir().map(|d| d.display().to_string()).unwrap_or_default(),
        "reloadConfigSuccess": true,
        "lastConfigTime": started,
        "corruptionCount": stats.damage.len(),
        "storageRetention": duration::format(api.config.retention.age),
    }))
}

/// Number of series by metric and label.
pub(super) async fn tsdb(State(api): State<Arc<Api>>, params: Params) -> Result<Answer, ApiError> {
    let limit = match params.limit()? {
        usize::MAX => TOP,
        n if n > MAX_TOP => return Err(ApiError::parameter("limit", format!("limit must not exceed {MAX_TOP}"))),
        n => n,
    };
    if let Some(remote) = &api.config.store {
        let text = format!("series are stored by a remote engine; see {}/api/v1/status/tsdb", remote.read.url);
        return Err(ApiError::new(super::Kind::NotFound, text));
    }
    let store = api.store.clone();
    let work = move |context: &QueryContext<'_>| {
        let (stats, cardinality) = (store.stats(), store.cardinality(limit, context.budget)?);
        Ok(success(&cardinality_json(&stats, &cardinality)))
    };
    api.within_limits(&params, work).await
}

fn cardinality_json(stats: &Stats, cardinality: &Cardinality) -> Value {
    let list = |entries: &[(String, usize)]| -> Value {
        entries.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
    };
    let (min, max) = stats.head_range.unwrap_or((0, 0));
    json!({
        "headStats": {
            "numSeries": cardinality.series,
            "numLabelPairs": cardinality.label_pairs,
            "chunkCount": stats.head_layouts,
            "minTime": min,
            "maxTime": max,
        },
        "seriesCountByMetricName": list(&cardinality.by_metric),
        "labelValueCountByLabelName": list(&cardinality.by_label),
        "memoryInBytesByLabelName": [],
        "seriesCountByLabelValuePair": list(&cardinality.by_pair),
    })
}

/// Rules run where their engine is (Prometheus, vmalert, Mimir).
pub(super) async fn rules() -> Json {
    success(&json!({"groups": []}))
}

/// As for rules.
pub(super) async fn alerts() -> Json {
    success(&json!({"alerts": []}))
}

/// Agents push; nothing is scraped.
pub(super) async fn targets() -> Json {
    success(&json!({"activeTargets": [], "droppedTargets": [], "droppedTargetCounts": {}}))
}

/// Alerts of rules are sent by their engine.
pub(super) async fn alertmanagers() -> Json {
    success(&json!({"activeAlertmanagers": [], "droppedAlertmanagers": []}))
}
