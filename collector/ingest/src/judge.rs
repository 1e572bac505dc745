//! What a judge offers to ingest collectors, on the main listener: it takes samples for the detectors, which they have already
//! written to the engine, and answers requests of agents that they pass on. Every ten seconds each of them reports the switches that
//! it hears of, and learns the names of switches and the jobs in trouble.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Extension, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use fabriclens_config::Access;
use fabriclens_core::protocol::Protocol;
use fabriclens_core::switch_list::SwitchSource;
use fabriclens_core::time::now_ms;
use fabriclens_core::troubled_jobs::TroubledJob;
use fabriclens_forward::JUDGE_WRITE;
use fabriclens_server::auth::{Caller, Hosts};
use fabriclens_server::route::{Route, route};
use serde::{Deserialize, Serialize};
use tonic::Status;

use super::agent_identity::{self, AGENT};
use super::agent_methods::AgentMethod;
use super::direct::refuse;
use super::http::plain_remote_write;
use super::refusal::Refusal;
use super::{Ingest, IngestError, admission, shard};

/// Path at which an ingest collector reports every ten seconds.
pub const COLLECTOR: &str = "/api/v1/judge/collector";
/// Largest answer to that, bytes. Bounds of what it lists keep it smaller.
pub const ANSWER_BYTES: u64 = 16 << 20;

/// What an ingest collector tells its judge.
#[derive(Serialize, Deserialize)]
pub struct CollectorReport {
    /// Which collector: a number that it draws at its start.
    pub collector: u64,
    /// Switches that it hears of.
    pub switches: Vec<SwitchSource>,
}

/// What an ingest collector learns in return.
#[derive(Serialize, Deserialize)]
pub struct JudgeAnswer {
    /// Names of switches in the topology.
    pub switch_names: Vec<String>,
    /// Running jobs that open incidents touch.
    pub troubled_jobs: Vec<TroubledJob>,
}

/// Routes for ingest collectors, on the main listener.
pub fn routes() -> Vec<Route<Arc<Ingest>>> {
    let mut all = vec![
        route(Access::Ingest, &[Method::POST], JUDGE_WRITE, write),
        route(Access::Ingest, &[Method::POST], COLLECTOR, collector),
        route(Access::Ingest, &[Method::POST], "/api/v1/write", refuse),
        route(Access::Ingest, &[Method::POST], "/api/v1/import", refuse),
    ];
    all.extend(AgentMethod::ALL.map(|method| {
        let answer = move |State(ingest), _: IngestCollector, request| relayed(method, ingest, request);
        route(Access::Ingest, &[Method::POST], method.judge_path(), answer)
    }));
    all
}

/// A caller that may speak for agents of all hosts: it may also report jobs and act on incidents. Without authentication
/// everybody may do everything. Other callers get 403.
struct IngestCollector(Caller);

impl<S: Send + Sync> FromRequestParts<S> for IngestCollector {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let caller = Extension::<Caller>::from_request_parts(parts, state).await;
        let Extension(caller) = caller.map_err(IntoResponse::into_response)?;
        if (caller.name.is_none() || caller.roles.grant(Access::Write)) && caller.hosts == Hosts::Any {
            return Ok(Self(caller));
        }
        let name = caller.log_name();
        let text =
            format!("{name} may not send as an ingest collector; give its credential the role write and no host\n");
        Err((StatusCode::FORBIDDEN, text).into_response())
    }
}

async fn relayed(method: AgentMethod, ingest: Arc<Ingest>, request: Request) -> Response {
    let agent = request.headers().get(AGENT).and_then(|value| agent_identity::decode(value.to_str().ok()?));
    match agent {
        Some(agent) => method.answer(ingest, agent, request).await,
        None => Status::invalid_argument(format!("the header {AGENT} does not name an agent")).into_http::<Body>(),
    }
}

/// Takes the report of an ingest collector, and answers with what it needs to know of the fabric.
async fn collector(
    State(ingest): State<Arc<Ingest>>,
    IngestCollector(caller): IngestCollector,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let received = ingest.receive(Protocol::RemoteWrite, &caller, &headers, body, true, |_| None).await;
    let received = match received {
        Ok(received) => received,
        Err(error) => return Refusal::from(error).into_text(),
    };
    let read = move || {
        let bytes = received.payload.bytes();
        serde_json::from_slice(bytes).map(|report| answer(&ingest, report, bytes.len()))
    };
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(answer)) => axum::Json(answer).into_response(),
        Ok(Err(error)) => (StatusCode::BAD_REQUEST, format!("no report of a collector: {error}\n")).into_response(),
        Err(error) => Refusal::from(IngestError::Internal(error.to_string())).into_text(),
    }
}

/// Takes a report of so many bytes.
fn answer(ingest: &Ingest, report: CollectorReport, bytes: usize) -> JudgeAnswer {
    let CollectorReport { collector, switches } = report;
    ingest.telemetry.switches.report(collector, switches, bytes, now_ms());
    JudgeAnswer {
        switch_names: ingest.switch_names.lock().to_vec(),
        troubled_jobs: ingest.telemetry.troubled_jobs.all().to_vec(),
    }
}

async fn write(
    State(ingest): State<Arc<Ingest>>,
    IngestCollector(caller): IngestCollector,
    headers: HeaderMap,
    body: Body,
) -> Response {
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

#[cfg(test)]
mod tests {
    use super::super::tests::bench;
    use super::*;

    #[test]
    fn a_collector_learns_names_of_switches_and_jobs_in_trouble() {
        let bench = bench();
        let ingest = bench.ingest();
        let report = || CollectorReport { collector: 7, switches: Vec::new() };
        let nothing = answer(ingest, report(), 2);
        assert!(nothing.switch_names.is_empty() && nothing.troubled_jobs.is_empty());
        ingest.name_switches_as(["leaf1".to_owned()].into_iter());
        let job = TroubledJob { names: vec!["7".into(), "train".into()], hosts: vec!["gpu-01".into()] };
        ingest.telemetry.troubled_jobs.set(std::slice::from_ref(&job));
        let learned = answer(ingest, report(), 2);
        assert_eq!((learned.switch_names, learned.troubled_jobs), (vec!["leaf1".to_owned()], vec![job]));
    }
}
