//! What a judge offers to ingest collectors, on the main listener: it takes samples for the detectors, which they have already
//! written to the engine, answers requests of agents that they pass on, and tells the names of switches.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use fabriclens_config::Access;
use fabriclens_core::protocol::Protocol;
use fabriclens_forward::JUDGE_WRITE;
use fabriclens_server::auth::{Caller, Hosts};
use fabriclens_server::route::{Route, route};
use tonic::Status;

use super::agent_identity::{self, AGENT};
use super::agent_methods::AgentMethod;
use super::direct::refuse;
use super::http::plain_remote_write;
use super::refusal::Refusal;
use super::{Ingest, IngestError, admission, shard};

/// Path of the names of switches.
pub const SWITCH_NAMES: &str = "/api/v1/judge/switch_names";

/// Routes for ingest collectors, on the main listener.
pub fn routes() -> Vec<Route<Arc<Ingest>>> {
    let mut all = vec![
        route(Access::Ingest, &[Method::POST], JUDGE_WRITE, write),
        route(Access::Ingest, &[Method::GET], SWITCH_NAMES, switch_names),
        route(Access::Ingest, &[Method::POST], "/api/v1/write", refuse),
        route(Access::Ingest, &[Method::POST], "/api/v1/import", refuse),
    ];
    all.extend(AgentMethod::ALL.map(|method| {
        let answer = move |State(ingest), Extension(caller): Extension<Caller>, request| {
            relayed(method, ingest, caller, request)
        };
        route(Access::Ingest, &[Method::POST], method.judge_path(), answer)
    }));
    all
}

/// Whether a caller may speak for agents of all hosts: it may also report jobs and act on incidents. Without authentication
/// everybody may do everything.
fn is_collector(caller: &Caller) -> bool {
    (caller.name.is_none() || caller.roles.grant(Access::Write)) && caller.hosts == Hosts::Any
}

fn not_a_collector(caller: &Caller) -> Response {
    let name = caller.log_name();
    let text = format!("{name} may not send as an ingest collector; give its credential the role write and no host\n");
    (StatusCode::FORBIDDEN, text).into_response()
}

async fn relayed(method: AgentMethod, ingest: Arc<Ingest>, caller: Caller, request: Request) -> Response {
    if !is_collector(&caller) {
        return not_a_collector(&caller);
    }
    let agent = request.headers().get(AGENT).and_then(|value| agent_identity::decode(value.to_str().ok()?));
    match agent {
        Some(agent) => method.answer(ingest, agent, request).await,
        None => Status::invalid_argument(format!("the header {AGENT} does not name an agent")).into_http::<Body>(),
    }
}

/// Names of switches in the topology, one a line.
async fn switch_names(State(ingest): State<Arc<Ingest>>, Extension(caller): Extension<Caller>) -> Response {
    if !is_collector(&caller) {
        return not_a_collector(&caller);
    }
    let names = ingest.switch_names.lock().clone();
    let text: String = names.iter().flat_map(|name| [name.as_str(), "\n"]).collect();
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

async fn write(
    State(ingest): State<Arc<Ingest>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    if !is_collector(&caller) {
        return not_a_collector(&caller);
    }
    match take(&ingest, caller, &headers, body).await {
        Ok(message) if message.is_empty() => StatusCode::NO_CONTENT.into_response(),
        Ok(message) => (StatusCode::BAD_REQUEST, format!("{message}\n")).into_response(),
        Err(refusal) => refusal.into_text(),
    }
}

async fn take(ingest: &Arc<Ingest>, caller: Caller, headers: &HeaderMap, body: Body) -> Result<String, Refusal> {
    let (plain, _received) = plain_remote_write(ingest, &caller, headers, body).await?;
    let report = ingest.blocking(Protocol::RemoteWrite, plain.len(), move |ingest| {
        let sender = admission::sender(Protocol::RemoteWrite, &plain, &caller);
        ingest.admission.record(&sender, Instant::now());
        let mut rows = ingest.remote[shard(caller.address)].lock().decode(&plain)?;
        let mut report = std::mem::take(&mut rows.report);
        ingest.remember(&caller, &rows.metadata, true);
        report.accepted += rows.groups.iter().map(fabriclens_model::samples_in).sum::<u64>();
        ingest.sink.feed(rows.groups);
        Ok::<_, IngestError>(report)
    });
    Ok(report.await?.message())
}
