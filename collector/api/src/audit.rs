//! `/api/v1/audit`: settings of ports that are not as expected; `/api/v1/audit/baseline`: the settings of a host as baselines.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use fabriclens_audit::{AuditReport, Drift};
use serde_json::json;

use super::Api;
use super::blocking::{in_turn, internal};
use super::encode::{self, Json};
use super::params::Params;
use fabriclens_server::auth::Caller;
use fabriclens_server::error::{ApiError, Kind};

/// Drifts of a page.
const PAGE: usize = 500;

/// The last report: drifts from `offset` on, of the `host`, `setting` and `severity` that are given.
pub(super) async fn audit(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Result<Json, ApiError> {
    let (offset, limit) = (params.offset()?, params.limit_or(PAGE)?.min(PAGE));
    let turns = api.list_turn.clone();
    let text = in_turn(&turns, &caller, move || {
        let report = api.auditor.report();
        let chosen = |drift: &&Drift| {
            let is = |name: &str, value: &str| params.get(name).is_none_or(|wanted| wanted == value);
            is("host", &drift.host) && is("setting", &drift.key) && is("severity", drift.severity.name())
        };
        page(&report, report.drifts.iter().filter(chosen).collect(), offset, limit)
    })
    .await?;
    Ok(encode::success(|out| out.push_str(&text)))
}

/// A page of the chosen drifts, with what the report says of all ports.
fn page(report: &AuditReport, chosen: Vec<&Drift>, offset: usize, limit: usize) -> Result<String, ApiError> {
    let shown: Vec<&Drift> = chosen.iter().skip(offset).take(limit).copied().collect();
    let next = Some(offset + shown.len()).filter(|next| *next < chosen.len());
    let AuditReport { time_ms, compared, drifts: _, more, splits, files, error } = report;
    let data = json!({
        "time_ms": time_ms,
        "compared": compared,
        "chosen": chosen.len(),
        "more": more,
        "drifts": shown,
        "next": next,
        "splits": splits,
        "files": files,
        "error": error,
    });
    serde_json::to_string(&data).map_err(internal)
}

/// The settings of `host` as a file of baselines.
pub(super) async fn baseline(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Result<Json, ApiError> {
    let host = params.get("host").map(str::to_owned);
    let host = host.ok_or_else(|| ApiError::parameter("host", "missing; name a host whose settings are right"))?;
    let turns = api.list_turn.clone();
    let text = in_turn(&turns, &caller, move || {
        api.auditor.learn(&host).ok_or_else(|| {
            let text = format!("no port of host {host:?} is up; fabriclens top lists hosts and ports");
            ApiError::new(Kind::NotFound, text)
        })
    })
    .await?;
    Ok(encode::success(|out| out.push_str(&json!({ "toml": text }).to_string())))
}
