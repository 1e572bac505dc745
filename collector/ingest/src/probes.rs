//! The methods by which agents ask for their probe plan and report what they found, on the gRPC listener. Reports have their own
//! memory and turns, so that samples never wait for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::response::Response;
use bytes::Bytes;
use fabriclens_base::Sender;
use fabriclens_core::byte_quota::ByteQuota;
use fabriclens_core::time::now_ms;
use fabriclens_probe_plan::{PlanRequest, ReportReply, ReportRequest};
use fabriclens_probing::{OfferRefused, Probing, ReportRefused};
use fabriclens_server::auth::Caller;
use fabriclens_server::retry;
use tokio::sync::Semaphore;
use tonic::{Code, Status};

use super::{Ingest, grpc_frame, unary};

/// Largest request for a plan, bytes: the ports of a host with their source ports.
pub(crate) const PLAN_REQUEST: usize = 64 << 10;
/// Largest report, bytes: [`fabriclens_probe_plan::RESULTS`] paths of usual length.
pub(crate) const REPORT_REQUEST: usize = 2 << 20;
/// Bytes of all reports that are being read.
const REPORTS: usize = 32 << 20;
/// Reports that are checked at the same time, and how long others wait.
const CHECKED: usize = 2;
const WAIT: Duration = Duration::from_secs(2);
/// When an agent may try again; it drops what it cannot report.
const AGAIN: Duration = Duration::from_secs(5);

/// Takes offers and reports, within its own bounds.
pub(crate) struct ProbeMethods {
    probing: Arc<Probing>,
    bytes: Arc<ByteQuota>,
    turns: Arc<Semaphore>,
}

impl ProbeMethods {
    /// Over a service.
    pub fn new(probing: Arc<Probing>) -> Self {
        Self { probing, bytes: ByteQuota::new(REPORTS), turns: Arc::new(Semaphore::new(CHECKED)) }
    }
}

/// Answers an agent that asks for its plan. A caller that is bound to hosts may ask for these only.
pub(crate) async fn plan(
    State(ingest): State<Arc<Ingest>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    let request = unary::read(request, PLAN_REQUEST, None).await;
    match request.and_then(|request| offer(&ingest, &caller, &request)) {
        Ok(encoded) => grpc_frame::reply_encoded(&encoded),
        Err(status) => status.into_http::<Body>(),
    }
}

fn offer(ingest: &Ingest, caller: &Caller, request: &PlanRequest) -> Result<Bytes, Status> {
    unary::allow(caller, &request.host, "ask for a probe plan")?;
    let unbound = caller.unbound();
    let sender = Sender::of(unbound.as_deref());
    ingest.probes.probing.ask(sender, request, Instant::now()).map_err(|refused| match refused {
        OfferRefused::Full => Status::resource_exhausted(refused.to_string()),
        OfferRefused::Taken(_) => Status::permission_denied(refused.to_string()),
        OfferRefused::Malformed(_) | OfferRefused::Twice(_) => unary::invalid(&refused),
    })
}

/// Takes the report of an agent. A caller that is bound to hosts may report for these only.
pub(crate) async fn report(
    State(ingest): State<Arc<Ingest>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    match take(&ingest, &caller, request).await {
        Ok(reply) => grpc_frame::reply(&reply),
        Err(status) => status.into_http::<Body>(),
    }
}

async fn take(ingest: &Arc<Ingest>, caller: &Caller, request: Request) -> Result<ReportReply, Status> {
    let busy = |why: &str| retry::later(Code::Unavailable, why, AGAIN);
    if ingest.admission.tight() || ingest.gate.tight() {
        return Err(busy("samples come first while the collector is short of memory or turns; report again later"));
    }
    let mut lease = ingest.probes.bytes.of(caller.address);
    let request: ReportRequest = unary::read(request, REPORT_REQUEST, Some(&mut lease)).await?;
    unary::allow(caller, &request.host, "report paths and probes")?;
    let turn = tokio::time::timeout(WAIT, ingest.probes.turns.clone().acquire_owned()).await;
    let Ok(Ok(turn)) = turn else { return Err(busy("too many reports at once; report again later")) };
    let (probing, unbound) = (ingest.probes.probing.clone(), caller.unbound());
    let taken = tokio::task::spawn_blocking(move || {
        let _held = (turn, lease);
        probing.report(Sender::of(unbound.as_deref()), &request, Instant::now(), now_ms().saturating_mul(1_000_000))
    });
    let taken = taken.await.map_err(|error| Status::internal(error.to_string()))?;
    taken.map_err(|refused| match refused {
        ReportRefused::Malformed(_) => unary::invalid(&refused),
        ReportRefused::NoPlan(_) | ReportRefused::OtherAgent(_) => Status::failed_precondition(refused.to_string()),
        ReportRefused::Taken(_) => Status::permission_denied(refused.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{bench, bound, unbound};
    use fabriclens_probe_plan::{PORTS, ProbedPort};
    use fabriclens_server::auth::Caller;

    fn request(host: &str, ports: usize) -> PlanRequest {
        let port = |n: usize| ProbedPort { name: format!("mlx5_{n}/1"), ..ProbedPort::default() };
        PlanRequest { host: host.to_owned(), agent: 1, ports: (0..ports).map(port).collect() }
    }

    #[test]
    fn bound_callers_offer_the_ports_of_their_own_host() {
        let bench = bench();
        let offer = |caller: &Caller, host: &str, ports| offer(bench.ingest(), caller, &request(host, ports));
        let foreign = offer(&bound("gpu-07"), "gpu-08", 1).unwrap_err();
        assert_eq!(foreign.code(), Code::PermissionDenied);
        assert!(foreign.message().contains("may not ask for a probe plan as host \"gpu-08\""), "{}", foreign.message());
        assert!(offer(&bound("gpu-07"), "GPU-07", 1).is_ok() && offer(&unbound(), "gpu-08", 1).is_ok());
        let many = offer(&unbound(), "gpu-08", PORTS + 1).unwrap_err();
        assert_eq!((many.code(), many.message().contains("65 ports")), (Code::InvalidArgument, true));
    }

    #[tokio::test]
    async fn reports_are_refused_with_words() {
        let bench = bench();
        let body = |message: &ReportRequest| {
            let message = prost::Message::encode_to_vec(message);
            let framed = [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat();
            Request::new(Body::from(framed))
        };
        let report = |host: &str, agent| ReportRequest { host: host.into(), agent, ..ReportRequest::default() };
        let ingest = bench.ingest();
        let why =
            |taken: Result<ReportReply, Status>| taken.map_err(|e| (e.code(), e.message().to_owned())).unwrap_err();
        let (code, text) = why(take(ingest, &bound("gpu-07"), body(&report("gpu-08", 1))).await);
        assert_eq!(code, Code::PermissionDenied, "{text}");
        let (code, text) = why(take(ingest, &unbound(), body(&report("gpu-08", 1))).await);
        assert!(code == Code::FailedPrecondition && text.contains("ask for one first"), "{text}");
        offer(ingest, &unbound(), &request("gpu-08", 1)).unwrap();
        let (_, text) = why(take(ingest, &unbound(), body(&report("gpu-08", 2))).await);
        assert!(text.contains("another agent process"), "{text}");
        assert!(take(ingest, &unbound(), body(&report("gpu-08", 1))).await.is_ok());
        let large = Request::new(Body::from(vec![0; REPORT_REQUEST + 1]));
        let (code, text) = why(take(ingest, &unbound(), large).await);
        assert_eq!(code, Code::ResourceExhausted, "{text}");
        let _held: Vec<_> = (1..=2)
            .map(|n| {
                let mut held = ingest.probes.bytes.of([10, 0, 0, n].into());
                held.add(REPORTS / 2).unwrap();
                held
            })
            .collect();
        let (_, text) = why(take(ingest, &unbound(), body(&report("gpu-08", 1))).await);
        assert!(text.contains("fill their memory"), "{text}");
    }
}
