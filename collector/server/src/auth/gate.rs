//! Authorizes each request before its handler runs, and reads its body within the limits.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use fabriclens_base::host_check;
use fabriclens_config::Access;
use fabriclens_core::byte_quota::{Full, Lease};
use fabriclens_core::endpoint::jitter;

use super::origin::foreign_page;
use super::refusal::{ErrorFormat, answer, refuse, set_retry_after};
use super::{Caller, Denied, Guard};
use crate::body::{self, BODY_TIME, BodyError};
use crate::error::Kind;
use crate::peer::Peer;

/// Largest body of a request that carries no samples.
const BODY_BYTES: usize = 4 << 20;
/// All such bodies together, bytes; half of it for one client.
pub(super) const BODIES: usize = 64 << 20;
/// Retry delay when the quota of bodies is exhausted.
const RETRY_DELAY: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) guard: Arc<Guard>,
    /// Access that callers need.
    pub(crate) access: Access,
    /// Whether pages of other sites may link to it.
    pub(crate) linked: bool,
    pub(crate) format: ErrorFormat,
}

/// Middleware of every route: authenticates the caller, checks access, host name and origin, then runs the handler.
pub(crate) async fn authorize(
    State(gate): State<Gate>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let Gate { guard, access, linked, format } = gate;
    if peer.reserved && access != Access::Public {
        return refuse(&Denied::Connections, format, request.headers());
    }
    let caller = match guard.admit(&peer, request.headers(), access) {
        Ok(caller) => caller,
        Err(denied) => return refuse(&denied, format, request.headers()),
    };
    let names = guard.names.as_deref().filter(|_| peer.loopback && access != Access::Public);
    if let Some(host) = names.and_then(|names| host_check::foreign_host(request.headers(), request.uri(), names)) {
        let denied = Denied::ForeignHost { host };
        guard.note(caller.address, &denied);
        return refuse(&denied, format, request.headers());
    }
    let changes = matches!(access, Access::Write | Access::Admin);
    let page = || foreign_page(request.headers(), request.uri(), guard.own_origin.as_deref(), linked);
    if let Some(origin) = (access != Access::Public).then(page).flatten() {
        let denied = Denied::CrossSite { origin };
        guard.note(caller.address, &denied);
        return refuse(&denied, format, request.headers());
    }
    request.extensions_mut().insert(caller.clone());
    if access == Access::Ingest {
        // Ingest reads the body itself, within its own quota.
        return next.run(request).await;
    }
    if matches!(access, Access::Public | Access::AnyRole) {
        // Anyone may send these requests, so their bodies are not read.
        return next.run(request.map(|_| Body::empty())).await;
    }
    let asked = changes.then(|| (request.method().clone(), request.uri().path().to_owned()));
    let response = run(request, next, guard.bodies.of(caller.address)).await;
    if let Some((method, path)) = asked {
        audit(&caller, &method, &path, response.status());
    }
    response
}

/// Logs a change.
fn audit(caller: &Caller, method: &Method, path: &str, status: StatusCode) {
    tracing::info!(who = caller.log_name(), address = %caller.address, %method, path, status = status.as_u16(), "audit");
}

/// Runs the handler with the complete body.
async fn run(request: Request, next: Next, lease: Lease) -> Response {
    match read_body(request, lease).await {
        Ok((request, _held)) => next.run(request).await,
        Err(BodyRefusal::Room) => {
            let text = format!(
                "too many request bodies are in progress (limit {BODIES} bytes, half of it for one client); retry"
            );
            let mut response = answer(StatusCode::SERVICE_UNAVAILABLE, Kind::Unavailable, text);
            set_retry_after(&mut response, jitter(RETRY_DELAY));
            response
        }
        Err(BodyRefusal::Large) => {
            let text = format!("the body: length limit exceeded; at most {BODY_BYTES} bytes");
            answer(StatusCode::PAYLOAD_TOO_LARGE, Kind::BadData, text)
        }
        Err(BodyRefusal::Cut(text)) => answer(StatusCode::BAD_REQUEST, Kind::BadData, text),
        Err(BodyRefusal::Slow) => {
            let text = format!("the request was not complete within {} s; send it again", BODY_TIME.as_secs());
            answer(StatusCode::REQUEST_TIMEOUT, Kind::BadData, text)
        }
    }
}

/// The body is refused.
#[derive(Debug, PartialEq, Eq)]
enum BodyRefusal {
    Room,
    Large,
    Cut(String),
    Slow,
}

impl From<BodyError> for BodyRefusal {
    fn from(e: BodyError) -> Self {
        match e {
            BodyError::TooLarge { .. } => Self::Large,
            other => Self::Cut(other.to_string()),
        }
    }
}

/// Reads the body and extends the lease chunk by chunk, so that a slow client holds only what it sent.
async fn read_body(request: Request, mut lease: Lease) -> Result<(Request, Lease), BodyRefusal> {
    let (parts, body) = request.into_parts();
    // Not refused for its announced length, because a client that is still sending would not see the answer.
    let unannounced = HeaderMap::new();
    let read = body::read(&unannounced, body, BODY_BYTES, |bytes| lease.add(bytes).map_err(|Full| BodyRefusal::Room));
    let bytes = tokio::time::timeout(BODY_TIME, read).await.unwrap_or(Err(BodyRefusal::Slow))?;
    Ok((Request::from_parts(parts, Body::from(bytes)), lease))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_core::byte_quota::ByteQuota;

    const LOCAL: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[tokio::test(start_paused = true)]
    async fn slow_and_large_bodies_are_refused() {
        let quota = ByteQuota::new(BODIES);
        let read = async |body: Body| read_body(Request::new(body), quota.of(LOCAL)).await.map(|_| ());
        let never = futures_util::stream::pending::<Result<bytes::Bytes, std::io::Error>>();
        assert_eq!(read(Body::from_stream(never)).await, Err(BodyRefusal::Slow));
        assert_eq!(read(Body::from(vec![b' '; BODY_BYTES + 1])).await, Err(BodyRefusal::Large));
        assert_eq!((read(Body::from("x")).await, read(Body::empty()).await), (Ok(()), Ok(())));
    }

    #[tokio::test]
    async fn bodies_share_a_quota() {
        let quota = ByteQuota::new(100);
        let ask = async |n: u8, bytes| {
            read_body(Request::new(Body::from(vec![0; bytes])), quota.of([10, 0, 0, n].into())).await
        };
        let held = (ask(1, 50).await.unwrap(), ask(2, 40).await.unwrap());
        assert_eq!(ask(1, 1).await.map(|_| ()), Err(BodyRefusal::Room), "one client holds at most half");
        assert_eq!(ask(3, 11).await.map(|_| ()), Err(BodyRefusal::Room), "the quota is used up");
        drop(held);
        assert!(ask(1, 50).await.is_ok() && ask(1, 50).await.is_ok(), "dropped bodies return their bytes");
    }
}
