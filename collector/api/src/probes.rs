//! `/api/v1/probes`: what agents may trace and probe, which ports are left out and why, and how much of the fabric traced paths
//! cross.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use serde_json::json;

use super::Api;
use super::blocking::{in_turn, internal};
use super::encode::{self, Json};
use super::params::Params;
use fabriclens_core::time::now_ns;
use fabriclens_server::auth::Caller;
use fabriclens_server::error::{ApiError, Kind};

/// Sums and a page of hosts from `offset` on; with `host`, that host with its plan and its traces.
pub(super) async fn probes(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Result<Json, ApiError> {
    let (offset, host) = (params.offset()?, params.get("host").map(str::to_owned));
    // A fleet has thousands of ports.
    let turns = api.list_turn.clone();
    let text = in_turn(&turns, &caller, move || {
        let Some(name) = host else { return serde_json::to_string(&api.probing.status(offset)).map_err(internal) };
        let host = api.probing.host(&name, now_ns()).ok_or_else(|| {
            let text =
                format!("no agent of host {name:?} asks for a probe plan; set probes.enabled there (docs/probes.md)");
            ApiError::new(Kind::NotFound, text)
        })?;
        serde_json::to_string(&json!({ "hosts": [host] })).map_err(internal)
    })
    .await?;
    Ok(encode::success(|out| out.push_str(&text)))
}
