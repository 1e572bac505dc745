//! Passes requests of agents that are not samples on to the judge, and its answers back. While no judge answers, agents get the
//! error of a collector that is away, and try again.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use fabriclens_core::endpoint::{self, Client};
use fabriclens_core::failover_client::{FailoverClient, Unanswered};
use fabriclens_core::judge_telemetry::JudgeTelemetry;
use fabriclens_core::protocol::Protocol;
use fabriclens_server::auth::Caller;
use fabriclens_server::{body, retry};
use tokio::sync::Semaphore;
use tonic::{Code, Status};

use super::agent_identity::{self, AGENT};
use super::agent_methods::AgentMethod;
use super::grpc_status::status_of;
use super::{Ingest, grpc_frame};

/// Requests that wait for the judge at the same time, and how long others wait for their turn.
const IN_FLIGHT: usize = 32;
const TURN: Duration = Duration::from_secs(2);
/// Time that an agent has to send a request.
const TIME: Duration = Duration::from_secs(10);
/// Largest answer of the judge, bytes: a probe plan of all ports of a host.
const ANSWER: u64 = 4 << 20;
/// When agents try again while no judge answers.
const AGAIN: Duration = Duration::from_secs(2);

/// The way to the judge.
pub struct Relay {
    client: Arc<FailoverClient>,
    turns: Arc<Semaphore>,
    telemetry: JudgeTelemetry,
}

impl Relay {
    /// Over these clients of the judge.
    pub fn new(client: Arc<FailoverClient>, telemetry: JudgeTelemetry) -> Self {
        Self { client, turns: Arc::new(Semaphore::new(IN_FLIGHT)), telemetry }
    }
}

/// Passes a request on, and answers as the judge does.
pub(crate) async fn pass_on(method: AgentMethod, ingest: Arc<Ingest>, caller: Caller, request: Request) -> Response {
    let answer = match &ingest.relay {
        Some(relay) => relay.pass_on(method, &ingest, caller, request).await,
        None => Err(Status::internal("an ingest collector without a judge")),
    };
    match answer {
        Ok(framed) => match grpc_frame::message(framed) {
            Ok((false, message)) => grpc_frame::reply_encoded(&message),
            _ => Status::internal("the judge gave a malformed answer").into_http::<Body>(),
        },
        Err(status) => status.into_http::<Body>(),
    }
}

impl Relay {
    async fn pass_on(
        &self,
        method: AgentMethod,
        ingest: &Ingest,
        caller: Caller,
        request: Request,
    ) -> Result<Bytes, Status> {
        let (parts, body) = request.into_parts();
        let reject = |rejection| ingest.reject(Protocol::OtlpGrpc, None, rejection);
        let mut quota = ingest.gate.body(caller.address).map_err(|rejection| status_of(&reject(rejection)))?;
        let read = body::read(&parts.headers, body, method.request_limit(), |bytes| quota.take(bytes).map_err(reject));
        let read = tokio::time::timeout(TIME, read).await;
        let read = read.map_err(|_| Status::deadline_exceeded(format!("no request within {TIME:?}")))?;
        let bytes = read.map_err(|error| status_of(&error))?;
        let turn = tokio::time::timeout(TURN, self.turns.clone().acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(retry::later(Code::Unavailable, "too many requests wait for the judge; try again", AGAIN));
        };
        let client = self.client.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let _held = (turn, quota);
            let agent = agent_identity::encode(&caller);
            client.ask(|judge| ask(judge, method, &agent, &bytes))
        });
        let asked = asked.await.map_err(|error| Status::internal(error.to_string()))?;
        let result = if asked.is_ok() { "answered" } else { "unanswered" };
        self.telemetry.relayed.with_label_values(&[method.name(), result]).inc();
        asked.unwrap_or_else(|none| {
            let after = none.after.unwrap_or_else(|| endpoint::jitter(AGAIN));
            Err(retry::later(Code::Unavailable, &format!("no judge answers: {}", none.why), after))
        })
    }
}

/// Asks one judge. A refusal by it is an answer, too.
fn ask(judge: &Client, method: AgentMethod, agent: &str, framed: &[u8]) -> Result<Result<Bytes, Status>, Unanswered> {
    let url = judge.url();
    let unanswered = |after, why: String| Unanswered { after, why: format!("{url}: {why}") };
    let request = judge.post(&format!("{url}{}", method.judge_path()));
    let request = request.map_err(|e| unanswered(None, e.to_string()))?;
    let request = request.header("content-type", "application/grpc").header(AGENT, agent);
    let mut response = request.send(framed).map_err(|e| unanswered(None, e.to_string()))?;
    if response.status() != StatusCode::OK {
        let after = endpoint::retry_after(&response);
        return Err(unanswered(after, endpoint::error_text(&mut response)));
    }
    if let Some(status) = Status::from_header_map(response.headers()).filter(|status| status.code() != Code::Ok) {
        return Ok(Err(status));
    }
    let body = response.body_mut().with_config().limit(ANSWER).read_to_vec();
    Ok(Ok(body.map_err(|e| unanswered(None, e.to_string()))?.into()))
}
