//! The method by which agents ask for the lease of their InfiniBand subnet, on the gRPC listener.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::response::Response;
use fabriclens_base::Sender;
use fabriclens_core::reader_leases::Refused;
use fabriclens_reader_lease::{AskReply, AskRequest, LEASE};
use fabriclens_server::auth::Caller;
use tonic::Status;

use super::{Ingest, grpc_frame, unary};

/// Largest request, bytes: a host name and [`fabriclens_reader_lease::SWITCHES`] GUIDs.
pub(crate) const REQUEST: usize = 4096;

/// Answers a candidate. A caller that is bound to hosts may ask for these only.
pub(crate) async fn ask(
    State(ingest): State<Arc<Ingest>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    let request = unary::read(request, REQUEST, None).await;
    match request.and_then(|request| decide(&ingest, &caller, &request)) {
        Ok(reply) => grpc_frame::reply(&reply),
        Err(status) => status.into_http::<Body>(),
    }
}

fn decide(ingest: &Ingest, caller: &Caller, request: &AskRequest) -> Result<AskReply, Status> {
    unary::allow(caller, &request.host, "ask to read a subnet")?;
    let unbound = caller.unbound();
    let sender = Sender::of(unbound.as_deref());
    let decision =
        ingest.telemetry.reader_leases.ask(sender, request, Instant::now()).map_err(|refused| match refused {
            Refused::Host | Refused::Switches => unary::invalid(&refused),
            Refused::Full => Status::resource_exhausted(refused.to_string()),
        })?;
    Ok(AskReply {
        granted: decision.granted,
        holder: decision.holder.map(|host| host.to_string()).unwrap_or_default(),
        lasts_ms: u32::try_from(LEASE.as_millis()).unwrap_or(u32::MAX),
        others: decision.others,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{bench, bound, unbound};

    fn request(host: &str) -> AskRequest {
        AskRequest { host: host.to_owned(), agent: 1, switches: vec![1], reading: true }
    }

    #[test]
    fn bound_callers_ask_as_their_own_host() {
        let bench = bench();
        let decide = |caller: &Caller, host: &str| decide(bench.ingest(), caller, &request(host));
        let foreign = decide(&bound("gpu-07"), "mgmt-01").unwrap_err();
        assert_eq!(foreign.code(), tonic::Code::PermissionDenied);
        assert!(foreign.message().contains("mgmt-01"), "{}", foreign.message());
        assert!(decide(&bound("mgmt-01"), "MGMT-01").unwrap().granted);
        let other = decide(&unbound(), "mgmt-02").unwrap();
        assert_eq!((other.granted, other.holder.as_str(), other.others), (false, "MGMT-01", 1));
    }
}
