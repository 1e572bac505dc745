//! The agent's own HTTP server: `/metrics`, `/healthz`, `/readyz`, a page that links them, and `/debug/microburst`, the
//! last recordings of bursts.
//!
//! Nothing here reads a device: a scrape gets the latest snapshot, whoever and however often asks.

mod counters;
mod health;
mod tls;

pub use counters::Counters;
pub use health::{Health, health};
pub use tls::TlsError;

use crate::clock::Clock;
use crate::config::Http;
use crate::exposition::{self, Format};
use crate::microburst::Dump;
use crate::schedule::{Engine, SourceStatus};
use crate::uplink;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use fabriclens_wire::{Resource, Section};
use std::future::Future;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// What the server shows; the engine, or a test's stand-in.
pub trait View: Send + Sync {
    /// Latest section of each source.
    fn sections(&self) -> Vec<Section>;
    /// State of each source.
    fn sources(&self) -> Vec<SourceStatus>;
    /// Sections waiting for the uplink, and sections dropped because too many waited.
    fn ring(&self) -> (usize, u64);
    /// Why it samples less often than it is told, if it does.
    fn slowed(&self) -> Option<String> {
        None
    }
    /// What its threads are shut in by, for people.
    fn sandbox(&self) -> Option<String> {
        None
    }
    /// Recordings of bursts of an interface, or of all.
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

    fn sandbox(&self) -> Option<String> {
        Engine::sandbox(self).state().map(|state| state.text())
    }

    fn bursts(&self, netdev: Option<&str>) -> Vec<Arc<Dump>> {
        self.microburst().dumps.of(netdev)
    }
}

/// Everything the handlers need.
#[derive(Clone)]
pub struct App {
    /// What is shown.
    pub view: Arc<dyn View>,
    /// The counts of each uplink.
    pub uplinks: Vec<Arc<uplink::Counters>>,
    /// The server's own counts.
    pub counters: Arc<Counters>,
    /// The host, for its own rows.
    pub host: Arc<str>,
}

impl App {
    fn health(&self) -> Health {
        let mut health = health(&self.view.sources(), &self.uplinks);
        health.reasons.extend(self.view.slowed());
        health
    }
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address cannot be bound.
    #[error("listening on {address} for /metrics; choose a free one with --http or http.listen")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Certificate or key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A bound server that does not answer yet.
pub struct Server {
    listener: tokio::net::TcpListener,
    tls: Option<tls::Acceptor>,
    app: App,
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
        Ok(Self { listener, tls, app })
    }

    /// The address it is bound to.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` ends.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send + 'static) {
        let router = router(self.app);
        let end = match self.tls {
            None => axum::serve(self.listener, router).with_graceful_shutdown(stop).await,
            Some(tls) => {
                axum::serve(tls::TlsListener::new(self.listener, tls), router).with_graceful_shutdown(stop).await
            }
        };
        if let Err(error) = end {
            tracing::error!(%error, "HTTP server ended");
        }
    }
}

fn router(app: App) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/debug/microburst", get(bursts))
        .layer(axum::middleware::from_fn_with_state(app.clone(), count))
        .with_state(app)
}

async fn count(State(app): State<App>, request: axum::extract::Request, next: axum::middleware::Next) -> Response {
    let begin = Instant::now();
    let path = request.uri().path().to_owned();
    let response = next.run(request).await;
    app.counters.request(&path, response.status().as_u16(), begin.elapsed());
    response
}

async fn metrics(State(app): State<App>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let format = Format::negotiate(accept);
    let mut sections = app.view.sections();
    let resource = Arc::new(Resource { host: Arc::clone(&app.host), device: None, port: None });
    let now = Clock::new().now();
    sections.push(app.counters.section(&resource, now));
    sections.extend(app.uplinks.iter().map(|u| u.section(&resource, now)));
    let text = exposition::render(&sections, format);
    let kind = (header::CONTENT_TYPE, format.content_type());
    let varies = (header::VARY, "accept, accept-encoding");
    match wants_gzip(&headers).then(|| gzip(text.as_bytes())).and_then(Result::ok) {
        Some(body) => ([kind, varies, (header::CONTENT_ENCODING, "gzip")], body).into_response(),
        None => ([kind, varies], text).into_response(),
    }
}

/// True when `gzip` is among what is accepted, and not with `q=0`.
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

/// Ready once something was read, or once it is known that there is nothing to read.
async fn readyz(State(app): State<App>) -> Response {
    if app.view.sources().iter().any(|s| s.reads > 0) {
        (StatusCode::OK, "ready\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "no source has been read yet\n").into_response()
    }
}

/// `?netdev=`
#[derive(serde::Deserialize)]
struct Of {
    netdev: Option<String>,
}

async fn bursts(State(app): State<App>, Query(of): Query<Of>) -> Response {
    let dumps: Vec<_> = app.view.bursts(of.netdev.as_deref()).iter().map(|dump| dump.json()).collect();
    axum::Json(serde_json::json!({ "dumps": dumps })).into_response()
}

async fn page(State(app): State<App>) -> Html<String> {
    Html(app.health().page(&app.host))
}
