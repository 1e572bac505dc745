//! `/api/v1/switches`: the switches that send samples or are read by gNMI, the source of each, and the names that were not
//! understood.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use serde_json::{Value, json};

use super::Ingest;
use fabriclens_config::Access;
use fabriclens_server::route::{Route, route};

/// The route, for the main listener.
pub fn routes() -> Vec<Route<Arc<Ingest>>> {
    vec![route(Access::Read, &[Method::GET], "/api/v1/switches", switches)]
}

async fn switches(State(ingest): State<Arc<Ingest>>) -> Json<Value> {
    Json(json!({"status": "success", "data": {"switches": ingest.switches()}}))
}
