//! `/api/v1/topology`: cables between ports, now or at a time, and how each is known.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use serde_json::{Value, json};

use super::Api;
use super::blocking::{in_turn, internal};
use super::encode::{self, Json};
use super::params::Params;
use fabriclens_core::time::now_ms;
use fabriclens_server::auth::Caller;
use fabriclens_server::error::ApiError;

/// Returns the version that was valid at `time`.
pub(super) async fn topology(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Result<Json, ApiError> {
    let time_ns = params.time_or("time", now_ms())?.saturating_mul(1_000_000);
    // Decompressing and writing a version of a large fabric takes a while.
    let turns = api.list_turn.clone();
    let text = in_turn(&turns, &caller, move || {
        let (since_ns, topology) = api.topologies.version(time_ns);
        let mut body = serde_json::to_value(&*topology).map_err(internal)?;
        let messages = topology.contradictions.iter().map(ToString::to_string);
        let all = body["contradictions"].as_array_mut().into_iter().flatten();
        for (one, message) in all.zip(messages) {
            one["message"] = Value::String(message);
        }
        body["since_ns"] = json!(since_ns);
        body["files"] = serde_json::to_value(api.topologies.files()).map_err(internal)?;
        serde_json::to_string(&body).map_err(internal)
    })
    .await?;
    Ok(encode::success(|out| out.push_str(&text)))
}
