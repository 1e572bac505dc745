//! `/api/v1/probes`: what agents may trace and probe, which ports are left out and why, and how much of the fabric traced paths
//! cross.

use std::sync::Arc;

use axum::extract::State;
use serde_json::json;

use super::Api;
use super::encode::{self, Json};
use super::params::Params;
use fabriclens_server::error::{ApiError, Kind};

/// Sums and a page of hosts from `offset` on; with `host`, that host with its plan.
pub(super) async fn probes(State(api): State<Arc<Api>>, params: Params) -> Result<Json, ApiError> {
    let (offset, host) = (params.offset()?, params.get("host").map(str::to_owned));
    // A fleet has thousands of ports.
    let work = tokio::task::spawn_blocking(move || {
        let Some(name) = host else { return Ok(serde_json::to_string(&api.probing.status(offset))) };
        let Some(host) = api.probing.host(&name) else { return Err(name) };
        Ok(serde_json::to_string(&json!({ "hosts": [host] })))
    });
    let internal = |why: String| ApiError::new(Kind::Internal, why);
    let text = work.await.map_err(|e| internal(e.to_string()))?.map_err(|name| {
        let text =
            format!("no agent of host {name:?} asks for a probe plan; set probes.enabled there (docs/probes.md)");
        ApiError::new(Kind::NotFound, text)
    })?;
    let text = text.map_err(|e| internal(e.to_string()))?;
    Ok(encode::success(|out| out.push_str(&text)))
}
