//! `/api/v1/switches`: the switches that send samples or are read by gNMI, the source of each, and the names that were not
//! understood.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::{Method, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

use super::Ingest;
use fabriclens_config::Access;
use fabriclens_core::switch_list::SwitchSource;
use fabriclens_server::auth::Caller;
use fabriclens_server::error::{ApiError, Kind};
use fabriclens_server::route::{Route, route};

/// Answer of the API.
#[derive(Serialize)]
struct Answer {
    status: &'static str,
    data: Data,
}

#[derive(Serialize)]
struct Data {
    switches: Vec<SwitchSource>,
}

/// The route, for the main listener.
pub fn routes() -> Vec<Route<Arc<Ingest>>> {
    vec![route(Access::Read, &[Method::GET], "/api/v1/switches", switches)]
}

/// Lists all switches, one request at a time: the list may have many megabytes.
async fn switches(
    State(ingest): State<Arc<Ingest>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, ApiError> {
    let turn = ingest.list_turn.take(caller.name, caller.address).await;
    let write = move || {
        let _turn = turn;
        serde_json::to_string(&Answer { status: "success", data: Data { switches: ingest.switches() } })
    };
    let internal = |error: &dyn std::fmt::Display| ApiError::new(Kind::Internal, error.to_string());
    let text = tokio::task::spawn_blocking(write).await.map_err(|error| internal(&error))?;
    let text = text.map_err(|error| internal(&error))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}
