//! The method by which agents ask for the lease of their InfiniBand subnet, on the gRPC listener.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::response::Response;
use bytes::Bytes;
use fabriclens_core::reader_leases::Refused;
use fabriclens_reader_lease::{AskReply, AskRequest, LEASE};
use fabriclens_server::auth::Caller;
use fabriclens_server::body::{self, BodyError};
use prost::Message as _;
use tonic::Status;

use super::{Ingest, grpc_frame};

/// Largest request, bytes: a host name and [`fabriclens_reader_lease::SWITCHES`] GUIDs.
const REQUEST: usize = 4096;
/// Time that a client has to send it.
const TIME: Duration = Duration::from_secs(5);

/// Answers a candidate. A caller that is bound to hosts may ask for these only.
pub(crate) async fn ask(
    State(ingest): State<Arc<Ingest>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let read = body::read(&parts.headers, body, REQUEST, |_| Ok::<_, BodyError>(()));
    let read = tokio::time::timeout(TIME, read).await;
    let read = read.map_err(|_| Status::deadline_exceeded(format!("no request within {TIME:?}")));
    let decided = read
        .and_then(|bytes| parse(bytes.map_err(|e| invalid(&e))?))
        .and_then(|request| decide(&ingest, &caller, &request));
    match decided {
        Ok(reply) => grpc_frame::reply(&reply),
        Err(status) => status.into_http::<Body>(),
    }
}

fn invalid(error: &dyn std::fmt::Display) -> Status {
    Status::invalid_argument(error.to_string())
}

/// Reads a request from the body of its call.
pub(crate) fn parse(bytes: Bytes) -> Result<AskRequest, Status> {
    let (compressed, message) = grpc_frame::message(bytes).map_err(|e| invalid(&e))?;
    if compressed {
        return Err(Status::unimplemented("compression is not supported for this method; send the message as it is"));
    }
    AskRequest::decode(message).map_err(|e| invalid(&e))
}

fn decide(ingest: &Ingest, caller: &Caller, request: &AskRequest) -> Result<AskReply, Status> {
    if !caller.hosts.has(&request.host) {
        let (name, host) = (caller.log_name(), request.host.escape_debug());
        let text = format!(
            "{name} may not ask to read a subnet as host {host:?}; let the token or certificate name that host",
            host = host.to_string()
        );
        return Err(Status::permission_denied(text));
    }
    let decision = ingest.telemetry.reader_leases.ask(request, Instant::now()).map_err(|refused| match refused {
        Refused::Host | Refused::Switches => invalid(&refused),
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

    #[test]
    fn malformed_requests_are_refused() {
        let framed = |flag: u8, message: &[u8]| {
            let length = (message.len() as u32).to_be_bytes();
            parse([&[flag][..], &length, message].concat().into())
        };
        assert_eq!(framed(0, &request("h").encode_to_vec()).unwrap(), request("h"));
        assert_eq!(framed(1, &[]).unwrap_err().code(), tonic::Code::Unimplemented);
        assert_eq!(framed(0, &[0xff; 3]).unwrap_err().code(), tonic::Code::InvalidArgument);
        assert_eq!(parse(Bytes::new()).unwrap_err().code(), tonic::Code::InvalidArgument);
    }
}
