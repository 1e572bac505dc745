//! Accepts connections from the start of the process. Until the store is open, requests are answered with "retry later"
//! in their protocol, so that senders treat a restart as a short delay and not as a lost host.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::Code;
use tonic::codegen::Service as _;

use crate::listener::Listener;
use crate::retry;
use fabriclens_core::endpoint::jitter;

/// Retry delay during start-up; senders wait between half of it and all.
const RETRY_DELAY: Duration = Duration::from_secs(2);
/// Answer of the liveness probe.
pub const ALIVE: &str = "Fabriclens is healthy.\n";
const STARTING: &str = "starting: the store is being opened and its log replayed; retry in a moment";

/// Why requests cannot be answered yet; shared by all listeners.
#[derive(Clone)]
pub struct NotReady(Arc<Mutex<String>>);

impl Default for NotReady {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(STARTING.to_owned())))
    }
}

impl NotReady {
    /// Gives the reason in the answers from now on.
    pub fn set(&self, reason: impl Into<String>) {
        *self.0.lock() = reason.into();
    }

    /// The collector starts: its store is being opened.
    pub fn starting(&self) {
        self.set(STARTING);
    }
}

/// Protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// The main HTTP listener, which answers the liveness probe.
    Http,
    /// OTLP over gRPC.
    Grpc,
    /// OTLP over HTTP.
    Otlp,
}

/// A listener whose router is set once the collector is ready.
pub struct StartupListener {
    router: Arc<OnceLock<Router>>,
    task: AbortOnDrop,
}

/// Aborts the listener when dropped, so that a failed start leaves nothing running.
struct AbortOnDrop(Option<JoinHandle<()>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

impl StartupListener {
    /// Starts to accept connections, until `stopped` becomes true. Requests are answered with `reason` until then.
    pub fn start(
        listener: Listener,
        socket: TcpListener,
        kind: ListenerKind,
        reason: NotReady,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let router = Arc::new(OnceLock::new());
        let front = Router::new().fallback(pass).with_state(Front { router: router.clone(), kind, reason });
        let task = tokio::spawn(listener.run(socket, front, stopped));
        Self { router, task: AbortOnDrop(Some(task)) }
    }

    /// Serves `router` from now on; returns the task of the listener.
    pub fn serve(mut self, router: Router) -> Option<JoinHandle<()>> {
        _ = self.router.set(router);
        self.task.0.take()
    }
}

/// What a listener answers with.
#[derive(Clone)]
struct Front {
    router: Arc<OnceLock<Router>>,
    kind: ListenerKind,
    reason: NotReady,
}

async fn pass(State(front): State<Front>, request: Request) -> Response {
    match front.router.get() {
        // An axum router is always ready.
        Some(router) => router.clone().call(request).await.into_response(),
        None => not_ready(front.kind, request.uri().path(), &front.reason),
    }
}

/// Answers a request that arrives before the collector is ready.
fn not_ready(kind: ListenerKind, path: &str, reason: &NotReady) -> Response {
    let text = reason.0.lock().clone();
    match (kind, path) {
        (ListenerKind::Http, "/healthz" | "/-/healthy") => ALIVE.into_response(),
        (ListenerKind::Grpc, _) => retry::later(Code::Unavailable, &text, jitter(RETRY_DELAY)).into_http::<Body>(),
        (ListenerKind::Http | ListenerKind::Otlp, _) => {
            let after = [(header::RETRY_AFTER, retry::seconds(jitter(RETRY_DELAY)))];
            (StatusCode::SERVICE_UNAVAILABLE, after, format!("{text}\n")).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::Answers;
    use crate::auth::Guard;
    use fabriclens_config::Config;
    use fabriclens_core::telemetry::Telemetry;
    use std::io::{Read as _, Write as _};

    /// A listener with the default configuration.
    fn listener() -> Listener {
        let (config, telemetry) = (Config::default(), Telemetry::new().unwrap());
        let guard = Arc::new(Guard::new(&config, &telemetry).unwrap());
        let answers = Answers::new(config.query.memory, telemetry.slow_readers.clone());
        Listener { guard, tls: None, limits: config.listen.connections, answers, telemetry }
    }

    /// Sends a GET and returns status line, head and body.
    async fn get(address: std::net::SocketAddr, path: &'static str) -> String {
        let ask = move || {
            let mut s = std::net::TcpStream::connect(address).unwrap();
            write!(s, "GET {path} HTTP/1.1\r\nhost: c\r\nconnection: close\r\n\r\n").unwrap();
            let mut text = String::new();
            s.read_to_string(&mut text).unwrap();
            text.to_lowercase()
        };
        tokio::task::spawn_blocking(ask).await.unwrap()
    }

    #[tokio::test]
    async fn answers_not_ready_until_the_router_is_set() {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let reason = NotReady::default();
        let startup = StartupListener::start(listener(), socket, ListenerKind::Http, reason.clone(), stopped);
        assert!(get(address, "/healthz").await.starts_with("http/1.1 200"));
        for path in ["/readyz", "/api/v1/query?query=up"] {
            let text = get(address, path).await;
            assert!(text.starts_with("http/1.1 503") && text.contains("retry-after: "), "{text}");
            assert!(text.contains("starting: the store is being opened"), "{text}");
        }
        reason.set("standby of judge-1");
        let text = get(address, "/readyz").await;
        assert!(text.starts_with("http/1.1 503") && text.ends_with("standby of judge-1\n"), "{text}");
        let server = startup.serve(Router::new().route("/readyz", axum::routing::get(|| async { "ready" })));
        assert!(get(address, "/readyz").await.ends_with("ready"));
        stop.send_replace(true);
        server.unwrap().await.unwrap();
    }

    #[tokio::test]
    async fn dropping_it_closes_the_listener() {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (_stop, stopped) = watch::channel(false);
        drop(StartupListener::start(listener(), socket, ListenerKind::Grpc, NotReady::default(), stopped));
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
}
