//! The agent's HTTP server: `/metrics`, `/healthz`, `/readyz`, an index page, and `/debug/microburst` with the latest
//! microburst recordings.
//!
//! No request reads a device: a scrape gets the latest snapshot, at any scrape rate.

mod connections;
mod counters;
mod health;
mod host;
mod tls;

pub use counters::Counters;
pub use health::{Health, health};
pub use tls::TlsError;

use crate::config::Http;
use crate::exposition::{self, Format};
use crate::schedule::{Engine, SourceStatus};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;
use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_samplers::microburst::Dump;
use fabriclens_agent_uplink as uplink;
use fabriclens_base::host_check;
use fabriclens_wire::{Resource, Section};
use std::future::Future;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Data source of the server: the engine, or a fake in tests.
pub trait View: Send + Sync {
    /// Latest section of each source.
    fn sections(&self) -> Vec<Section>;
    /// State of each source.
    fn sources(&self) -> Vec<SourceStatus>;
    /// Sections waiting for the uplink, and sections dropped because too many waited.
    fn ring(&self) -> (usize, u64);
    /// Reason for a lowered sampling rate, if the throttle is active.
    fn slowed(&self) -> Option<String> {
        None
    }
    /// Problems of the engine's own threads.
    fn troubles(&self) -> Vec<String> {
        Vec::new()
    }
    /// Sandbox state, as a line for people.
    fn sandbox(&self) -> Option<String> {
        None
    }
    /// Microburst recordings of one interface, or of all.
    fn bursts(&self, _netdev: Option<&str>) -> Vec<Arc<Dump>> {
        Vec::new()
    }
}

impl View for Engine {
    fn sections(&self) -> Vec<Section> {
        self.snapshot()
    }

    fn sources(&self) -> Vec<SourceStatus> {
        Engine::sources(self)
    }

    fn ring(&self) -> (usize, u64) {
        Engine::ring(self)
    }

    fn slowed(&self) -> Option<String> {
        self.throttle().reason()
    }

    fn troubles(&self) -> Vec<String> {
        Engine::troubles(self)
    }

    fn sandbox(&self) -> Option<String> {
        Engine::sandbox(self).state().map(|state| state.text())
    }

    fn bursts(&self, netdev: Option<&str>) -> Vec<Arc<Dump>> {
        self.microburst().dumps.of(netdev)
    }
}

/// State of the request handlers.
#[derive(Clone)]
pub struct App {
    /// Data source.
    pub view: Arc<dyn View>,
    /// Counters of each uplink.
    pub uplinks: Vec<Arc<uplink::Counters>>,
    /// Counters of the server itself.
    pub counters: Arc<Counters>,
    /// Host name, for the server's own rows.
    pub host: Arc<str>,
}

impl App {
    fn health(&self) -> Health {
        let mut health = health(&self.view.sources(), &self.uplinks);
        health.reasons.extend(self.view.troubles());
        health.reasons.extend(self.view.slowed());
        health
    }

    fn text(&self, form: Form) -> String {
        let mut sections = self.view.sections();
        let resource = Arc::new(Resource { host: Arc::clone(&self.host), device: None, port: None });
        let now = Clock::new().now();
        sections.push(self.counters.section(&resource, now));
        sections.extend(self.uplinks.iter().map(|u| u.section(&resource, now)));
        match form {
            Form::Text(format) => exposition::render(&sections, format),
            Form::Json => exposition::json(&sections, &self.view.sources()).to_string(),
        }
    }
}

/// Reason why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address cannot be bound.
    #[error("listening on {address} for /metrics; choose a free one with --http or http.listen")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// Certificate or key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A bound server that does not serve yet.
pub struct Server {
    listener: tokio::net::TcpListener,
    tls: Option<tls::Acceptor>,
    router: Router,
}

impl Server {
    /// Binds the address and loads certificates.
    ///
    /// # Errors
    /// [`HttpError`].
    pub async fn bind(config: &Http, app: App) -> Result<Self, HttpError> {
        let tls = config.identity.as_ref().map(tls::Acceptor::new).transpose()?;
        let address = config.listen;
        let listener =
            tokio::net::TcpListener::bind(address).await.map_err(|source| HttpError::Bind { address, source })?;
        let names = host::names(config, &app.host);
        Ok(Self { listener, tls, router: router(app, names) })
    }

    /// The address it is bound to.
    ///
    /// # Errors
    /// When the kernel does not report it.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` ends.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send + 'static) {
        connections::serve(self.listener, self.tls, self.router, stop).await;
    }
}

fn router(app: App, names: Option<Arc<[String]>>) -> Router {
    let router = Router::new()
        .route("/", get(page))
        .route("/metrics", get(metrics).layer(Extension(Arc::<Pages>::default())))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/debug/microburst", get(bursts));
    let router = match names {
        Some(names) => router.layer(axum::middleware::from_fn_with_state(names, own)),
        None => router,
    };
    router
        .layer(axum::middleware::map_response(secured))
        .layer(axum::middleware::from_fn_with_state(app.clone(), count))
        .with_state(app)
}

async fn count(State(app): State<App>, request: Request, next: axum::middleware::Next) -> Response {
    let begin = Instant::now();
    let path = request.uri().path().to_owned();
    let response = next.run(request).await;
    app.counters.request(&path, response.status().as_u16(), begin.elapsed());
    response
}

/// Rejects requests for host names other than this agent's.
async fn own(State(names): State<Arc<[String]>>, request: Request, next: axum::middleware::Next) -> Response {
    let Some(name) = host_check::foreign_host(request.headers(), request.uri(), &names) else {
        return next.run(request).await;
    };
    let text = format!(
        "this agent does not answer to {name:?}; use an address, or add the name to http.names if a proxy on this host uses it\n"
    );
    (StatusCode::MISDIRECTED_REQUEST, text).into_response()
}

/// Content security policy: pages load nothing, run nothing and are not framed.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Security headers of every answer.
async fn secured(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Form of `/metrics`.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// For Prometheus.
    Text(Format),
    /// As `once --format json` prints it.
    Json,
}

impl Form {
    /// By the `Accept` header: JSON only if nothing else is asked for.
    fn negotiate(accept: &str) -> Self {
        if accept.trim() == JSON { Self::Json } else { Self::Text(Format::negotiate(accept)) }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Text(format) => format.content_type(),
            Self::Json => JSON,
        }
    }
}

const JSON: &str = "application/json";

/// Cache of `/metrics` pages, by form and compression. A page is rendered at most once per [`FRESH`], so that clients
/// cannot take processor time from sampling.
#[derive(Default)]
struct Pages(Mutex<Vec<(Form, bool, Instant, Bytes)>>);

const FRESH: Duration = Duration::from_secs(1);

impl Pages {
    async fn get(&self, app: &App, form: Form, gzipped: bool) -> std::io::Result<Bytes> {
        // Locked while rendering: concurrent requests for the same page wait for it.
        let mut pages = self.0.lock().await;
        let kept = pages.iter().find(|(f, g, made, _)| (*f, *g) == (form, gzipped) && made.elapsed() < FRESH);
        if let Some((.., page)) = kept {
            return Ok(page.clone());
        }
        let text = app.text(form);
        let page = Bytes::from(if gzipped { gzip(text.as_bytes())? } else { text.into_bytes() });
        pages.retain(|(f, g, made, _)| (*f, *g) != (form, gzipped) && made.elapsed() < FRESH);
        pages.push((form, gzipped, Instant::now(), page.clone()));
        Ok(page)
    }
}

async fn metrics(State(app): State<App>, Extension(pages): Extension<Arc<Pages>>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let form = Form::negotiate(accept);
    let kind = (header::CONTENT_TYPE, form.content_type());
    let varies = (header::VARY, "accept, accept-encoding");
    let gzipped = wants_gzip(&headers);
    match pages.get(&app, form, gzipped).await {
        Ok(page) if gzipped => ([kind, varies, (header::CONTENT_ENCODING, "gzip")], page).into_response(),
        Ok(page) => ([kind, varies], page).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("compressing: {error}\n")).into_response(),
    }
}

/// True if `Accept-Encoding` contains `gzip` without `q=0`.
fn wants_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|item| {
        let (name, weight) = item.split_once(';').unwrap_or((item, "q=1"));
        let weight = weight.trim().strip_prefix("q=").and_then(|q| q.parse::<f64>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_none_or(|q| q > 0.0)
    })
}

fn gzip(text: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::with_capacity(text.len() / 8), flate2::Compression::fast());
    encoder.write_all(text)?;
    encoder.finish()
}

async fn healthz(State(app): State<App>) -> Response {
    axum::Json(app.health().json(app.view.ring(), app.view.sandbox())).into_response()
}

/// Ready once a source was read, or once it is known that there are none.
async fn readyz(State(app): State<App>) -> Response {
    if app.view.sources().iter().any(|s| s.reads > 0) {
        (StatusCode::OK, "ready\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "no source has been read yet\n").into_response()
    }
}

/// Query string `?netdev=`.
#[derive(serde::Deserialize)]
struct NetdevQuery {
    netdev: Option<String>,
}

async fn bursts(State(app): State<App>, Query(of): Query<NetdevQuery>) -> Response {
    let dumps: Vec<_> = app.view.bursts(of.netdev.as_deref()).iter().map(|dump| dump.json()).collect();
    axum::Json(serde_json::json!({ "dumps": dumps })).into_response()
}

async fn page(State(app): State<App>) -> Html<String> {
    Html(app.health().page(&app.host))
}
