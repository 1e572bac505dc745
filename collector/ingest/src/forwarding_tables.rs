//! The method by which the reader of an InfiniBand subnet tells its forwarding tables, on the gRPC listener.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::response::Response;
use fabriclens_base::Sender;
use fabriclens_core::protocol::Protocol;
use fabriclens_forwarding_tables::{LARGEST_REQUEST, TellReply, TellRequest};
use fabriclens_server::auth::Caller;
use fabriclens_server::body;
use fabriclens_subnet_paths::Refused;
use tonic::Status;

use super::grpc_status::status_of;
use super::{Ingest, grpc_frame, unary};

/// Time that a client has to send a request.
const TIME: Duration = Duration::from_secs(10);

/// Takes what a reader tells. A caller that is bound to hosts may tell as these only.
pub(crate) async fn tell(
    State(ingest): State<Arc<Ingest>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    match take(&ingest, caller, request).await {
        Ok(reply) => grpc_frame::reply(&reply),
        Err(status) => status.into_http::<Body>(),
    }
}

async fn take(ingest: &Arc<Ingest>, caller: Caller, request: Request) -> Result<TellReply, Status> {
    let (parts, body) = request.into_parts();
    let reject = |rejection| status_of(&ingest.reject(Protocol::OtlpGrpc, None, rejection));
    let mut quota = ingest.gate.body(caller.address).map_err(reject)?;
    let read = body::read(&parts.headers, body, LARGEST_REQUEST, |bytes| {
        quota.take(bytes).map_err(|rejection| ingest.reject(Protocol::OtlpGrpc, None, rejection))
    });
    let read = tokio::time::timeout(TIME, read).await;
    let read = read.map_err(|_| Status::deadline_exceeded(format!("no request within {TIME:?}")))?;
    let bytes = read.map_err(|error| status_of(&error))?;
    let turn = tokio::time::timeout(TIME, ingest.tables.acquire()).await;
    let _turn = turn.map_err(|_| Status::unavailable("other readers tell their forwarding tables; try again"))?;
    let ingest = Arc::clone(ingest);
    // A large subnet takes some milliseconds.
    let work = tokio::task::spawn_blocking(move || decide(&ingest, &caller, unary::parse(bytes)?));
    let decided = work.await.map_err(|error| Status::internal(error.to_string()))?;
    drop(quota);
    decided
}

fn decide(ingest: &Ingest, caller: &Caller, request: TellRequest) -> Result<TellReply, Status> {
    unary::allow(caller, &request.host, "tell forwarding tables")?;
    let (now, leases) = (Instant::now(), &ingest.telemetry.reader_leases);
    let reads = |host: &str, agent: u64| leases.is_held_by(host, agent, now);
    let unbound = caller.unbound();
    let sender = Sender::of(unbound.as_deref());
    let again = ingest.telemetry.subnet_paths.tell(sender, request, now, reads).map_err(|refused| match refused {
        Refused::NotReader(_) | Refused::OtherReader { .. } => Status::failed_precondition(refused.to_string()),
        Refused::Invalid(_) => unary::invalid(&refused),
        Refused::TooLarge | Refused::Memory(_) | Refused::Full => Status::resource_exhausted(refused.to_string()),
    })?;
    Ok(TellReply { again })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{bench, bound, unbound};
    use fabriclens_forwarding_tables::SwitchTables;
    use fabriclens_reader_lease::AskRequest;
    use tonic::Code;

    fn request(host: &str, ports: u32) -> TellRequest {
        let switch =
            SwitchTables { guid: 1, name: "leaf1".into(), ports, table: vec![1, 3].into(), ..SwitchTables::default() };
        TellRequest {
            host: host.to_owned(),
            agent: 1,
            complete: true,
            switches: vec![switch],
            ..TellRequest::default()
        }
    }

    #[test]
    fn only_the_holder_of_the_lease_tells_and_bound_callers_as_their_own_host() {
        let bench = bench();
        let decide = |caller: &Caller, request: TellRequest| decide(bench.ingest(), caller, request);
        let foreign = decide(&bound("gpu-07"), request("mgmt-01", 4)).unwrap_err();
        assert_eq!(foreign.code(), Code::PermissionDenied);
        assert!(foreign.message().contains("\"mgmt-01\""), "{}", foreign.message());
        let no_lease = decide(&unbound(), request("mgmt-01", 4)).unwrap_err();
        assert_eq!(no_lease.code(), Code::FailedPrecondition);
        assert!(no_lease.message().contains("does not have the lease"), "{}", no_lease.message());
        let ask = AskRequest { host: "mgmt-01".into(), agent: 1, switches: vec![1], reading: true };
        let leases = &bench.ingest().telemetry.reader_leases;
        assert!(leases.ask(Sender::Bound, &ask, Instant::now()).unwrap().granted);
        assert_eq!(decide(&bound("mgmt-01"), request("mgmt-01", 4)).unwrap(), TellReply { again: false });
        let other_process = decide(&unbound(), TellRequest { agent: 2, ..request("mgmt-01", 4) }).unwrap_err();
        assert_eq!(other_process.code(), Code::FailedPrecondition);
        let lacks = decide(&unbound(), request("mgmt-01", 2)).unwrap_err();
        assert_eq!(lacks.code(), Code::InvalidArgument);
        assert!(lacks.message().contains("names port 3, and the switch has 2"), "{}", lacks.message());
        let text = bench.ingest().telemetry.text().unwrap();
        assert!(text.contains("fabriclens_subnet_tables_bytes{host=\"mgmt-01\"}"), "{text}");
    }
}
