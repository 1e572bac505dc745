//! Routes with what each asks for, and the layer that holds them to it. A router is made of a table of [`Route`], so there
//! is no handler that nothing was said of.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::handler::Handler;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state, map_response};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, MethodRouter, any, on};
use tonic::{Code, Status};

use super::{Caller, Denied, Guard};
use crate::body;
use crate::body::BODY_TIME;
use crate::body::BodyError;
use crate::error::{ApiError, Kind};
use crate::listener::Peer;
use crate::retry;
use fabriclens_base::host_check;
use fabriclens_config::Needs;
use fabriclens_core::byte_quota::{Full, Held};
use fabriclens_core::endpoint::jitter;

/// Largest body of a request that is not samples.
const BODY_BYTES: usize = 4 << 20;
/// All of them together; those of one caller half of it.
pub(super) const BODIES: usize = 64 << 20;
/// How soon those may come back for whose body there is no room.
const SOON: Duration = Duration::from_secs(2);

/// How a listener says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As the Prometheus API does.
    Http,
    /// As gRPC does.
    Grpc,
}

/// One row of a table of routes.
pub struct Route<S> {
    /// What its callers must be allowed.
    pub needs: Needs,
    /// What it is asked by.
    pub methods: &'static [Method],
    /// As axum writes it.
    pub path: &'static str,
    to: MethodRouter<S>,
}

/// A row.
pub fn route<H, T, S>(needs: Needs, methods: &'static [Method], path: &'static str, handler: H) -> Route<S>
where
    H: Handler<T, S>,
    T: 'static,
    S: Clone + Send + Sync + 'static,
{
    let filters = methods.iter().filter_map(|method| MethodFilter::try_from(method.clone()).ok());
    let to = filters.reduce(MethodFilter::or).map_or_else(MethodRouter::new, |filter| on(filter, handler));
    Route { needs, methods, path, to }
}

#[derive(Clone)]
struct Gate {
    guard: Arc<Guard>,
    needs: Needs,
    form: Form,
}

/// A router of a table. What it does not serve is 404 until [`fallback`] says otherwise.
pub fn router<S>(routes: Vec<Route<S>>, form: Form, guard: &Arc<Guard>) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    routes.into_iter().fold(Router::new(), |router, route| {
        let gate = Gate { guard: guard.clone(), needs: route.needs, form };
        router.route(route.path, route.to.route_layer(from_fn_with_state(gate, pass)))
    })
}

/// What answers all else, to callers who may do something; and what every answer of the listener carries.
pub fn fallback<H, T>(router: Router, handler: H, form: Form, guard: &Arc<Guard>) -> Router
where
    H: Handler<T, ()>,
    T: 'static,
{
    let gate = Gate { guard: guard.clone(), needs: Needs::Any, form };
    router.fallback_service(any(handler).layer(from_fn_with_state(gate, pass))).layer(map_response(dress))
}

async fn pass(
    State(gate): State<Gate>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let Gate { guard, needs, form } = gate;
    let caller = match guard.admit(&peer, request.headers(), needs) {
        Ok(caller) => caller,
        Err(denied) => return refuse(&denied, form),
    };
    let names = guard.names.as_deref().filter(|_| peer.loopback && needs != Needs::Nothing);
    if let Some(host) = names.and_then(|names| host_check::foreign_host(request.headers(), request.uri(), names)) {
        let denied = Denied::Host { host };
        guard.note(caller.address, &denied);
        return refuse(&denied, form);
    }
    let changes = matches!(needs, Needs::Write | Needs::Admin);
    let origin = || foreign(request.headers(), request.uri(), guard.own_origin.as_deref());
    if let Some(origin) = (changes || needs == Needs::Ingest).then(origin).flatten() {
        let denied = Denied::CrossSite { origin };
        guard.note(caller.address, &denied);
        return refuse(&denied, form);
    }
    request.extensions_mut().insert(caller.clone());
    if needs == Needs::Ingest {
        // Samples are read by who stores them.
        return next.run(request).await;
    }
    if matches!(needs, Needs::Nothing | Needs::Any) {
        // Strangers may ask it, and nobody reads what they send.
        return next.run(request.map(|_| Body::empty())).await;
    }
    let asked = changes.then(|| (request.method().clone(), request.uri().path().to_owned()));
    let response = run(request, next, guard.bodies.of(caller.address)).await;
    if let Some((method, path)) = asked {
        audit(&caller, &method, &path, response.status());
    }
    response
}

/// Who changed what.
fn audit(caller: &Caller, method: &Method, path: &str, status: StatusCode) {
    tracing::info!(who = caller.who(), address = %caller.address, %method, path, status = status.as_u16(), "audit");
}

/// Runs the handler with the whole body, which may take neither long nor much room.
async fn run(request: Request, next: Next, room: Held) -> Response {
    match whole(request, room).await {
        Ok((request, _held)) => next.run(request).await,
        Err(Short::Room) => {
            let text =
                format!("other requests take the {BODIES} bytes for bodies, or yours half of them; send it again");
            let mut response = answer(StatusCode::SERVICE_UNAVAILABLE, Kind::Unavailable, text);
            come_back(&mut response, jitter(SOON));
            response
        }
        Err(Short::Large) => {
            let text = format!("the body: length limit exceeded; at most {BODY_BYTES} bytes");
            answer(StatusCode::PAYLOAD_TOO_LARGE, Kind::BadData, text)
        }
        Err(Short::Cut(text)) => answer(StatusCode::BAD_REQUEST, Kind::BadData, text),
        Err(Short::Slow) => {
            let text = format!("the request was not complete within {} s; send it again", BODY_TIME.as_secs());
            answer(StatusCode::REQUEST_TIMEOUT, Kind::BadData, text)
        }
    }
}

/// Why there is no whole body.
#[derive(Debug, PartialEq, Eq)]
enum Short {
    Room,
    Large,
    Cut(String),
    Slow,
}

impl From<BodyError> for Short {
    fn from(e: BodyError) -> Self {
        match e {
            BodyError::TooLarge { .. } => Self::Large,
            other => Self::Cut(other.to_string()),
        }
    }
}

/// With the room that its body takes, stretch by stretch: who sends slowly holds no more than what came.
async fn whole(request: Request, mut room: Held) -> Result<(Request, Held), Short> {
    let (parts, body) = request.into_parts();
    // Not refused for the length that it announces: who still sends would not see the answer.
    let unannounced = HeaderMap::new();
    let read = body::read(&unannounced, body, BODY_BYTES, |bytes| room.add(bytes).map_err(|Full| Short::Room));
    let bytes = tokio::time::timeout(BODY_TIME, read).await.unwrap_or(Err(Short::Slow))?;
    Ok((Request::from_parts(parts, Body::from(bytes)), room))
}

/// Says when.
fn come_back(response: &mut Response, after: Duration) {
    if let Ok(seconds) = HeaderValue::try_from(retry::seconds(after)) {
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
}

/// An error as the API writes it, with a status of its own.
fn answer(status: StatusCode, kind: Kind, text: String) -> Response {
    let mut response = ApiError::new(kind, text).into_response();
    *response.status_mut() = status;
    response
}

/// Scheme and authority of a URL, as browsers write an origin.
pub(super) fn origin_of(url: &str) -> String {
    url.parse::<Uri>().ok().and_then(|u| Some(format!("{}://{}", u.scheme_str()?, u.authority()?))).unwrap_or_default()
}

/// The origin of the page that made a browser ask, if it is none of ours. Other clients send no origin.
fn foreign(headers: &HeaderMap, uri: &Uri, own: Option<&str>) -> Option<String> {
    let origin = String::from_utf8_lossy(headers.get(header::ORIGIN)?.as_bytes()).into_owned();
    let host = host_check::requested_authority(headers, uri).unwrap_or_default();
    let same = origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(&host));
    (!same && own.is_none_or(|own| !own.eq_ignore_ascii_case(&origin))).then_some(origin)
}

fn refuse(denied: &Denied, form: Form) -> Response {
    let after = match denied {
        Denied::Rate { after, .. } => Some(*after),
        _ => None,
    };
    let text = denied.to_string();
    match (form, denied) {
        (Form::Grpc, Denied::Rate { after, .. }) => {
            retry::later(Code::ResourceExhausted, &text, *after).into_http::<Body>()
        }
        (Form::Grpc, Denied::Role { .. } | Denied::CrossSite { .. } | Denied::Host { .. }) => {
            Status::permission_denied(text).into_http::<Body>()
        }
        (Form::Grpc, _) => Status::unauthenticated(text).into_http::<Body>(),
        (Form::Http, _) => {
            let status = match denied {
                Denied::Rate { .. } => StatusCode::TOO_MANY_REQUESTS,
                Denied::Role { .. } | Denied::CrossSite { .. } => StatusCode::FORBIDDEN,
                Denied::Host { .. } => StatusCode::MISDIRECTED_REQUEST,
                _ => StatusCode::UNAUTHORIZED,
            };
            let mut response = answer(status, Kind::Denied, text);
            let headers = response.headers_mut();
            if status == StatusCode::UNAUTHORIZED {
                // A browser asks for a password then, which is the token.
                let ask = HeaderValue::from_static(
                    "Basic realm=\"fabriclens (the token is the password)\", charset=\"UTF-8\"",
                );
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"fabriclens\""));
                headers.append(header::WWW_AUTHENTICATE, ask);
            }
            if let Some(after) = after {
                come_back(&mut response, after);
            }
            response
        }
    }
}

/// What browsers are told of every answer, unless its handler says more. Nothing may read it from another site: there is
/// no CORS header, nor is there to be one.
async fn dress(mut response: Response) -> Response {
    const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let usual = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    let headers = response.headers_mut();
    if headers.get(header::CONTENT_TYPE).is_none_or(|kind| !kind.as_bytes().starts_with(b"application/grpc")) {
        for (name, value) in usual {
            headers.entry(name).or_insert(HeaderValue::from_static(value));
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_core::byte_quota::ByteQuota;

    const LOCAL: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let room = ByteQuota::new(BODIES);
        let whole = async |body: Body| whole(Request::new(body), room.of(LOCAL)).await.map(|_| ());
        let never = futures_util::stream::pending::<Result<bytes::Bytes, std::io::Error>>();
        assert_eq!(whole(Body::from_stream(never)).await, Err(Short::Slow));
        assert_eq!(whole(Body::from(vec![b' '; BODY_BYTES + 1])).await, Err(Short::Large));
        assert_eq!((whole(Body::from("x")).await, whole(Body::empty()).await), (Ok(()), Ok(())));
    }

    #[tokio::test]
    async fn bodies_together_take_a_bounded_room() {
        let room = ByteQuota::new(100);
        let ask =
            async |n: u8, bytes| whole(Request::new(Body::from(vec![0; bytes])), room.of([10, 0, 0, n].into())).await;
        let held = (ask(1, 50).await.unwrap(), ask(2, 40).await.unwrap());
        assert_eq!(ask(1, 1).await.map(|_| ()), Err(Short::Room), "one caller has half of it");
        assert_eq!(ask(3, 11).await.map(|_| ()), Err(Short::Room), "it is full");
        drop(held);
        assert!(ask(1, 50).await.is_ok() && ask(1, 50).await.is_ok(), "it is given back");
    }

    #[test]
    fn pages_of_this_collector_are_told_from_others() {
        let origin = |origin: &str, host: &str| {
            let headers = HeaderMap::from_iter([
                (header::ORIGIN, HeaderValue::from_str(origin).unwrap()),
                (header::HOST, HeaderValue::from_str(host).unwrap()),
            ]);
            foreign(&headers, &Uri::from_static("/x"), Some("https://fabric.example")).is_some()
        };
        assert!(!origin("http://127.0.0.1:7470", "127.0.0.1:7470"));
        assert!(!origin("https://fabric.example", "127.0.0.1:7470"), "through a proxy");
        for other in ["http://127.0.0.1:7471", "https://evil.example", "null", "", "://127.0.0.1:7470x"] {
            assert!(origin(other, "127.0.0.1:7470"), "{other}");
        }
        assert!(foreign(&HeaderMap::new(), &Uri::from_static("/x"), None).is_none(), "no browser");
        assert_eq!(origin_of("https://fabric.example:8443/path"), "https://fabric.example:8443");
    }
}
