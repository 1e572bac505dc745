//! Serves one connection: detects HTTP/1 or HTTP/2, enforces timeouts on slow and idle clients, and shuts down
//! gracefully.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::activity::Activity;
use crate::answers::Answers;
use crate::peer::Peer;

/// Time for TLS handshake and first bytes; after it the connection is dropped.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time without progress in a write, after which the connection is dropped: unread answers are memory that other
/// requests need.
const STALL: Duration = Duration::from_secs(60);
/// Time to receive the head of an HTTP/1 request after its first byte.
const HEAD: Duration = Duration::from_secs(10);
/// Longest idle time of an HTTP/1 connection.
const HTTP1_IDLE: Duration = Duration::from_secs(60);
/// Longest idle time of an HTTP/2 connection. Its clients answer pings forever, and the connection holds a slot that
/// others need.
const IDLE: Duration = Duration::from_secs(120);
/// Largest request head of HTTP/1. HTTP/2 has its own limit of 16 KiB.
const HEAD_BYTES: usize = 64 << 10;
/// Interval of pings to silent HTTP/2 peers.
const PING: Duration = Duration::from_secs(30);
/// Time for requests in progress to finish once the connection is to end.
const GRACE: Duration = Duration::from_secs(30);
/// First bytes of an HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Answers the requests of connections.
#[derive(Clone)]
pub struct Service {
    /// Answers the requests.
    pub router: Router,
    /// Answers that wait for their readers.
    pub answers: Arc<Answers>,
}

/// Serves a connection until it ends; once `end` completes, only finishes the requests in progress. The caller drops this
/// when the [`Activity`] of the connection is cut.
pub async fn serve(mut connection: Connection, peer: Peer, service: Service, end: impl Future<Output = ()>) {
    let http2 = match tokio::time::timeout(HANDSHAKE, connection.speaks_http2()).await {
        Ok(Ok(http2)) => http2,
        Ok(Err(error)) => return tracing::debug!(peer = %peer.address, %error, "connection ended before a request"),
        Err(_) => return tracing::debug!(peer = %peer.address, "connection without a request timed out"),
    };
    let activity = connection.activity.clone();
    serve_stream(connection, http2, peer, service, activity, end).await;
}

/// Serves a stream after its HTTP version was detected.
async fn serve_stream<T>(
    stream: T,
    http2: bool,
    peer: Peer,
    service: Service,
    activity: Arc<Activity>,
    end: impl Future<Output = ()>,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let address = peer.address;
    let Service { router, answers } = service;
    let routed = TowerToHyperService::new(router);
    let (waiting, active) = (answers.clone(), activity.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer.clone()));
        let (answer, request, waiting) = (routed.call(request.map(Body::new)), active.begin(), waiting.clone());
        async move { answer.await.map(|response| waiting.admit(response, address.ip(), request)) }
    });
    let io = TokioIo::new(stream);
    let serve = async {
        if http2 {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).keep_alive_interval(PING);
            let end = async {
                tokio::select! {
                    () = end => {}
                    () = activity.idle(IDLE) => {}
                }
            };
            serve_until(end, Box::pin(builder.serve_connection(io, service))).await
        } else {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HTTP1_IDLE).max_buf_size(HEAD_BYTES);
            tokio::select! {
                ended = serve_until(end, Box::pin(builder.serve_connection(io, service))) => ended,
                () = activity.overdue(HEAD) => {
                    tracing::debug!(peer = %address, "incomplete request head timed out");
                    Ok(())
                }
            }
        }
    };
    let ended = tokio::select! {
        ended = serve => ended,
        () = answers.watch(&activity) => Ok(()),
    };
    if let Err(error) = ended {
        tracing::debug!(peer = %address, %error, "connection ended");
    }
}

/// The connection is in a box of its own: as a part of this future it would be in it twice.
async fn serve_until<C: GracefulConnection>(
    end: impl Future<Output = ()>,
    mut connection: Pin<Box<C>>,
) -> Result<(), C::Error> {
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = end => connection.as_mut().graceful_shutdown(),
    }
    tokio::time::timeout(GRACE, connection).await.unwrap_or(Ok(()))
}

/// A stream with the bytes that were read to detect the HTTP version.
pub struct Connection {
    stream: Stream,
    begin: Vec<u8>,
    activity: Arc<Activity>,
    write_timeout: WriteTimeout,
}

/// A TCP stream with or without TLS.
pub enum Stream {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS; the handshake is complete.
    Tls(Box<tokio_rustls::server::TlsStream<TcpStream>>),
}

impl Connection {
    /// Wraps a stream of which nothing was read.
    pub fn new(stream: Stream, activity: Arc<Activity>) -> Self {
        Self { stream, begin: Vec::new(), activity, write_timeout: WriteTimeout::default() }
    }

    /// Reads until the bytes are the HTTP/2 preface or cannot become it.
    async fn speaks_http2(&mut self) -> io::Result<bool> {
        let mut begin = Vec::with_capacity(PREFACE.len());
        while begin.len() < PREFACE.len() && PREFACE.starts_with(&begin) {
            let wanted = (PREFACE.len() - begin.len()) as u64;
            if (&mut *self).take(wanted).read_buf(&mut begin).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let http2 = begin == PREFACE;
        self.begin = begin;
        Ok(http2)
    }
}

/// Times out writes that make no progress.
#[derive(Default)]
struct WriteTimeout(Option<Pin<Box<Sleep>>>);

impl WriteTimeout {
    /// Passes on the result of a write, or fails with a timeout after [`STALL`] in which no write made progress.
    fn watch<T>(&mut self, cx: Context<'_, '_>, polled: Poll<T>) -> Poll<T> {
        if polled.is_ready() {
            self.0 = None;
            return polled;
        }
        let stalled = self.0.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL)));
        stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Calls a method of the inner stream.
macro_rules! either {
    ($self:ident, $method:ident $(, $arg:expr)*) => {
        match &mut $self.stream {
            Stream::Plain(s) => Pin::new(s).$method($($arg),*),
            Stream::Tls(s) => Pin::new(s.as_mut()).$method($($arg),*),
        }
    };
}

type Context<'a, 'b> = &'a mut std::task::Context<'b>;
type Poll<T> = std::task::Poll<io::Result<T>>;

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: Context<'_, '_>, buf: &mut ReadBuf<'_>) -> Poll<()> {
        if self.begin.is_empty() {
            let before = buf.filled().len();
            let polled = either!(self, poll_read, cx, buf);
            if buf.filled().len() > before {
                self.activity.received();
            }
            return polled;
        }
        let read = self.begin.len().min(buf.remaining());
        buf.put_slice(&self.begin[..read]);
        self.begin.drain(..read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: Context<'_, '_>, buf: &[u8]) -> Poll<usize> {
        let polled = either!(self, poll_write, cx, buf);
        self.write_timeout.watch(cx, polled)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: Context<'_, '_>, bufs: &[io::IoSlice<'_>]) -> Poll<usize> {
        let polled = either!(self, poll_write_vectored, cx, bufs);
        self.write_timeout.watch(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(s) => s.is_write_vectored(),
            Stream::Tls(s) => s.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: Context<'_, '_>) -> Poll<()> {
        let polled = either!(self, poll_flush, cx);
        self.write_timeout.watch(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: Context<'_, '_>) -> Poll<()> {
        either!(self, poll_shutdown, cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, sleep, timeout};

    #[tokio::test(start_paused = true)]
    async fn stalled_writes_time_out_and_slow_ones_do_not() {
        let mut write_timeout = WriteTimeout::default();
        for _ in 0..3 {
            let write = std::future::poll_fn(|cx| write_timeout.watch(cx, Poll::<()>::Pending));
            assert!(timeout(STALL * 2 / 3, write).await.is_err(), "timed out too early");
            let taken = std::future::poll_fn(|cx| write_timeout.watch(cx, Poll::Ready(Ok(1)))).await;
            assert_eq!(taken.unwrap(), 1);
            sleep(STALL).await;
        }
        let began = Instant::now();
        let write = std::future::poll_fn(|cx| write_timeout.watch(cx, Poll::<()>::Pending));
        let end = timeout(STALL * 2, write).await.expect("never timed out");
        assert_eq!((end.unwrap_err().kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, STALL.as_secs()));
    }

    fn site(address: std::net::SocketAddr) -> (Peer, Service) {
        let slow = || async {
            sleep(2 * IDLE).await;
            "at last"
        };
        let router = Router::new().route("/", axum::routing::get(|| async { "here" }));
        let router = router.route("/slow", axum::routing::get(slow));
        let router = router.route("/large", axum::routing::get(|| async { vec![b'x'; LARGE] }));
        let answers = Answers::new(0, prometheus::IntCounter::new("cut", "cut").unwrap());
        (Peer { address, loopback: true, certificate: None, reserved: false }, Service { router, answers })
    }

    #[tokio::test(start_paused = true)]
    async fn idle_http2_connections_are_closed() {
        // In memory, because the paused clock of tokio does not see what sockets have in flight.
        let (client, stream) = tokio::io::duplex(1 << 16);
        let (peer, service) = site(([127, 0, 0, 1], 1).into());
        tokio::spawn(serve_stream(stream, true, peer, service, Activity::new(), std::future::pending()));
        let io = TokioIo::new(client);
        let (mut ask, connection) =
            hyper::client::conn::http2::handshake::<_, _, Body>(TokioExecutor::new(), io).await.unwrap();
        let began = Instant::now();
        let ends = tokio::spawn(async move {
            _ = connection.await;
            began.elapsed()
        });
        let mut get = async |path: &str| {
            let request = Request::get(format!("http://x{path}")).body(Body::empty()).unwrap();
            let answer = ask.send_request(request).await.unwrap();
            axum::body::to_bytes(Body::new(answer.into_body()), 100).await.unwrap()
        };
        for _ in 0..3 {
            assert_eq!(get("/").await, "here");
            sleep(IDLE * 2 / 3).await;
        }
        assert_eq!(get("/slow").await, "at last", "a connection that waits for an answer is not idle");
        let asked = began.elapsed();
        let ended = timeout(10 * IDLE, ends).await.expect("it never ends").unwrap() - asked;
        assert!(ended <= 2 * IDLE + GRACE, "{ended:?} after its last request");
    }

    /// Sends bytes and nothing more; returns the answer and the seconds until the connection ended.
    async fn answer(sent: &[u8]) -> (String, u64) {
        use tokio::io::AsyncWriteExt as _;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, address) = listener.accept().await.unwrap();
        let (peer, service) = site(address);
        let connection = Connection::new(Stream::Plain(stream), Activity::new());
        tokio::spawn(serve(connection, peer, service, std::future::pending()));
        client.write_all(sent).await.unwrap();
        let began = Instant::now();
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        (String::from_utf8_lossy(&got).into_owned(), began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn incomplete_requests_time_out() {
        for begin in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n"] {
            assert_eq!(answer(begin).await, (String::new(), HANDSHAKE.as_secs()), "{begin:?}");
        }
        let (got, after) = answer(b"GET / HTTP/1.1\r\nHost: x\r\nX: ").await;
        assert!(!got.contains("here") && after == HEAD.as_secs(), "{after}: {got}");
        // A complete request is answered, and its idle connection lives longer.
        let (got, after) = answer(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(got.ends_with("here") && after == HTTP1_IDLE.as_secs(), "{after}: {got}");
        let (got, after) = answer(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET").await;
        assert!(got.ends_with("here") && after <= HTTP1_IDLE.as_secs(), "{after}: {got}");
        let (got, _) = answer(b"PUT").await;
        assert!(!got.contains("here"));
    }

    /// Bytes of a large answer.
    const LARGE: usize = 4 << 20;

    /// Serves one client in memory until its connection is cut.
    fn client(service: &Service, http2: bool, ip: u8) -> tokio::io::DuplexStream {
        let (client, stream) = tokio::io::duplex(1 << 10);
        let (peer, service) = (site(([10, 0, 0, ip], 1).into()).0, service.clone());
        tokio::spawn(async move {
            let activity = Activity::new();
            tokio::select! {
                () = serve_stream(stream, http2, peer, service, activity.clone(), std::future::pending()) => {}
                () = activity.ended() => {}
            }
        });
        client
    }

    /// Asks for a large answer and reads some bytes of it each second; returns how many until the end.
    async fn read_at(mut client: tokio::io::DuplexStream, a_second: usize) -> usize {
        use tokio::io::AsyncWriteExt as _;
        client.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let (mut all, mut some) = (0, vec![0; a_second]);
        loop {
            match client.read_exact(&mut some).await {
                Ok(_) => all += a_second,
                Err(_) => return all,
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_readers_are_cut_off() {
        let service = site(([127, 0, 0, 1], 1).into()).1;
        let (fast, slow) =
            tokio::join!(read_at(client(&service, false, 1), 32 << 10), read_at(client(&service, false, 2), 8 << 10));
        assert!(fast >= LARGE - (32 << 10), "{fast}");
        assert!(slow < LARGE / 4, "{slow}");
        // A client of HTTP/2 that opens no window: its socket is never full.
        let io = TokioIo::new(client(&service, true, 3));
        let (mut ask, connection) =
            hyper::client::conn::http2::handshake::<_, _, Body>(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("http://x/large").body(Body::empty()).unwrap();
        let answer = ask.send_request(request).await.unwrap();
        sleep(Duration::from_secs(120)).await;
        assert!(axum::body::to_bytes(Body::new(answer.into_body()), LARGE).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn oversized_heads_are_refused() {
        let long = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(HEAD_BYTES));
        assert!(answer(long.as_bytes()).await.0.starts_with("HTTP/1.1 431"));
        let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "X: y\r\n".repeat(1000));
        assert!(answer(many.as_bytes()).await.0.starts_with("HTTP/1.1 431"));
    }
}
