//! Limits on HTTP connections: every user of the host can open them, and the agent's memory is small.

use super::tls::Acceptor;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

/// Limit of open connections; further ones wait.
const MOST: u32 = 32;
/// Timeout of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Timeout until the head of the next request is complete; bounds the life of idle connections.
const HEAD: Duration = Duration::from_secs(30);
/// Size limit of a request head, bytes.
const HEAD_BYTES: usize = 16 << 10;
/// Age at which a connection closes after the request in progress.
const LIFE: Duration = Duration::from_secs(120);
/// Time that the last request has; a client that does not read its answer is cut off.
const GRACE: Duration = Duration::from_secs(10);

/// Serves connections until `stop` ends, then finishes requests in progress.
pub(super) async fn serve(
    listener: TcpListener,
    mut tls: Option<Acceptor>,
    router: Router,
    stop: impl Future<Output = ()>,
) {
    let slots = Arc::new(Semaphore::new(MOST as usize));
    let (running, end) = watch::channel(());
    tokio::pin!(stop);
    loop {
        let accept = async { (Arc::clone(&slots).acquire_owned().await, listener.accept().await) };
        let (slot, accepted) = tokio::select! {
            accepted = accept => accepted,
            () = &mut stop => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Mostly out of descriptors: only waiting helps.
                tracing::debug!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (router, end) = (router.clone(), end.clone());
        let handshake = tls.as_mut().map(|tls| tls.get().clone());
        tokio::spawn(async move {
            let _held = slot;
            match handshake {
                None => answer(stream, router, end).await,
                Some(tls) => match timeout(HANDSHAKE, tls.accept(stream)).await {
                    Ok(Ok(stream)) => answer(stream, router, end).await,
                    Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                    Err(_) => tracing::debug!("TLS handshake took too long"),
                },
            }
        });
    }
    drop((listener, running));
    // Waits until all connections have ended.
    _ = slots.acquire_many(MOST).await;
}

async fn answer<S>(stream: S, router: Router, mut end: watch::Receiver<()>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = async { tokio::select! { _ = end.changed() => {}, () = sleep(LIFE) => {} } } => {
            connection.as_mut().graceful_shutdown();
            timeout(GRACE, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::time::Instant;

    const ASK: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    async fn server(stop: impl Future<Output = ()> + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // More than the socket buffers of both ends hold.
        let long = || async { "x".repeat(64 << 20) };
        let router = Router::new().route("/", get(|| async { "here" })).route("/long", get(long));
        tokio::spawn(serve(listener, None, router, stop));
        address
    }

    async fn client(to: SocketAddr, sent: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(sent).await.unwrap();
        stream
    }

    async fn rest(mut stream: TcpStream) -> String {
        let mut got = Vec::new();
        _ = stream.read_to_end(&mut got).await;
        String::from_utf8_lossy(&got).into_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_most_one_waits_until_another_ends() {
        let address = server(std::future::pending()).await;
        let mut held = Vec::new();
        for _ in 0..MOST {
            let mut stream = client(address, ASK).await;
            stream.read_exact(&mut [0; 12]).await.unwrap();
            held.push(stream);
        }
        let mut next = client(address, ASK).await;
        let nothing = timeout(HEAD / 2, next.read_exact(&mut [0; 12])).await;
        assert!(nothing.is_err(), "answered beyond the limit");
        held.pop();
        next.read_exact(&mut [0; 12]).await.expect("answered");
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_no_request_is_cut_off() {
        let address = server(std::future::pending()).await;
        for (sent, answered) in [(&b""[..], false), (&b"GET / HTTP/1.1\r\nX: "[..], false), (ASK, true)] {
            let begin = Instant::now();
            let got = rest(client(address, sent).await).await;
            assert_eq!(got.ends_with("here"), answered, "{got}");
            assert!((HEAD..HEAD * 2).contains(&begin.elapsed()), "{:?}", begin.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_of_an_answer_is_cut_off() {
        let address = server(std::future::pending()).await;
        let stream = client(address, b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n").await;
        sleep(LIFE + GRACE * 2).await;
        assert!(rest(stream).await.len() < 64 << 20);
    }

    #[tokio::test]
    async fn the_end_lets_what_is_under_way_finish_and_idle_ones_go() {
        let (stop, mut stopped) = watch::channel(());
        let address = server(async move { _ = stopped.changed().await }).await;
        let mut idle = client(address, ASK).await;
        idle.read_exact(&mut [0; 12]).await.unwrap();
        let mut busy = client(address, b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n").await;
        busy.read_exact(&mut [0; 12]).await.unwrap();
        drop(stop);
        assert!(rest(idle).await.ends_with("here"));
        assert!(rest(busy).await.len() > 64 << 20);
        assert!(TcpStream::connect(address).await.is_err(), "it still listens");
    }
}
