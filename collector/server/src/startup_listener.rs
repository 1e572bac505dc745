//! Listeners that answer from the first moment on: until the store is open they say so, in the words of each protocol,
//! so that a restart looks to senders like a moment of patience and not like a machine that is gone.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::Code;
use tonic::codegen::Service as _;

use crate::listener::Listener;
use crate::retry;
use fabriclens_core::endpoint::jitter;

/// How soon those may come back who are early; half of them sooner.
const SOON: Duration = Duration::from_secs(2);
/// Answer of the liveness probe while the process runs.
pub const ALIVE: &str = "Fabriclens is healthy.\n";
const STARTING: &str = "starting: the store is being opened and its log replayed; come again in a moment";

/// What a listener speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// The main one: health is asked here.
    Http,
    /// OTLP over gRPC.
    Grpc,
    /// OTLP over HTTP.
    Otlp,
}

/// A listener, and what it serves once there is something.
pub struct Door {
    router: Arc<OnceLock<Router>>,
    task: Ended,
}

/// Ends with who holds it: a start that fails leaves nothing running.
struct Ended(Option<JoinHandle<()>>);

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

impl Door {
    /// Takes connections until `stopped`.
    pub fn open(listener: Listener, socket: TcpListener, speaks: Speaks, stopped: watch::Receiver<bool>) -> Self {
        let router = Arc::new(OnceLock::new());
        let front = Router::new().fallback(pass).with_state((router.clone(), speaks));
        let task = tokio::spawn(listener.run(socket, front, stopped));
        Self { router, task: Ended(Some(task)) }
    }

    /// From now on this is what is served; gives the task that serves.
    pub fn serve(mut self, router: Router) -> Option<JoinHandle<()>> {
        _ = self.router.set(router);
        self.task.0.take()
    }
}

async fn pass(State((router, speaks)): State<(Arc<OnceLock<Router>>, Speaks)>, request: Request) -> Response {
    match router.get() {
        // A router is always ready.
        Some(router) => router.clone().call(request).await.into_response(),
        None => early(speaks, request.uri().path()),
    }
}

/// To who comes before there is anything to serve.
fn early(speaks: Speaks, path: &str) -> Response {
    match (speaks, path) {
        (Speaks::Http, "/healthz" | "/-/healthy") => ALIVE.into_response(),
        (Speaks::Grpc, _) => retry::later(Code::Unavailable, STARTING, jitter(SOON)).into_http::<Body>(),
        (Speaks::Http | Speaks::Otlp, _) => {
            let after = [(header::RETRY_AFTER, retry::seconds(jitter(SOON)))];
            (StatusCode::SERVICE_UNAVAILABLE, after, format!("{STARTING}\n")).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Guard;
    use fabriclens_config::Config;
    use fabriclens_core::telemetry::Telemetry;
    use std::io::{Read as _, Write as _};

    /// As the default config has it.
    fn listener() -> Listener {
        let (config, telemetry) = (Config::default(), Telemetry::new().unwrap());
        let guard = Arc::new(Guard::new(&config, &telemetry).unwrap());
        Listener { guard, tls: None, limits: config.listen.connections, telemetry }
    }

    /// Status line, head and body of a GET.
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
    async fn before_the_store_is_open_it_lives_and_is_not_ready_and_then_serves() {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let door = Door::open(listener(), socket, Speaks::Http, stopped);
        assert!(get(address, "/healthz").await.starts_with("http/1.1 200"));
        for path in ["/readyz", "/api/v1/query?query=up"] {
            let text = get(address, path).await;
            assert!(text.starts_with("http/1.1 503") && text.contains("retry-after: "), "{text}");
            assert!(text.contains("starting: the store is being opened"), "{text}");
        }
        let server = door.serve(Router::new().route("/readyz", axum::routing::get(|| async { "ready" })));
        assert!(get(address, "/readyz").await.ends_with("ready"));
        stop.send_replace(true);
        server.unwrap().await.unwrap();
    }

    #[tokio::test]
    async fn a_start_that_fails_leaves_no_listener() {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (_stop, stopped) = watch::channel(false);
        drop(Door::open(listener(), socket, Speaks::Grpc, stopped));
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
}
