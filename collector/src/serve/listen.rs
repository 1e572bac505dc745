//! Listeners: bind with a clear error, TLS when configured, a bounded number of connections, one type for HTTP and gRPC.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::config::Tls;

/// Connections of one listener beyond which new ones wait; bounds file descriptors and buffers.
const CONNECTIONS: usize = 4096;
/// Accepted connections that wait for the server; a full queue holds the accept loop back.
const ACCEPTED_QUEUE: usize = 64;
/// A client that does not finish its handshake in this time is dropped.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A client that takes nothing of its answer for so long is cut off: the answer is memory that others wait for.
const STALL: Duration = Duration::from_secs(60);

/// Why a listener cannot be had; `Display` names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The port is taken.
    #[error(
        "{key}: port {port} of {ip} is in use; stop the process that holds it (ss -ltnp 'sport = :{port}'), or set another address"
    )]
    InUse {
        /// Config key.
        key: &'static str,
        /// Port.
        port: u16,
        /// Address.
        ip: std::net::IpAddr,
    },
    /// Any other failure to bind.
    #[error(
        "{key}: cannot listen on {address}: {source}; set an address of this host and a port that this user may bind"
    )]
    Bind {
        /// Config key.
        key: &'static str,
        /// Address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Certificate, key or CA cannot be used.
    #[error("{key} {path}: {message}; give a PEM file that this user can read")]
    Tls {
        /// Config key.
        key: &'static str,
        /// File.
        path: std::path::PathBuf,
        /// What is wrong.
        message: String,
    },
}

/// Reads certificate, key and client CA.
///
/// # Errors
/// [`ListenError::Tls`] naming the file.
pub fn acceptor(tls: &Tls) -> Result<TlsAcceptor, ListenError> {
    let error = |key, path: &std::path::Path, message: &dyn std::fmt::Display| ListenError::Tls {
        key,
        path: path.to_owned(),
        message: message.to_string(),
    };
    let certificates = |key, path: &std::path::Path| {
        let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        match found {
            Ok(list) if list.is_empty() => Err(error(key, path, &"holds no certificate")),
            Ok(list) => Ok(list),
            Err(e) => Err(error(key, path, &e)),
        }
    };
    let chain = certificates("tls.cert", &tls.cert)?;
    let private = PrivateKeyDer::from_pem_file(&tls.key).map_err(|e| error("tls.key", &tls.key, &e))?;
    let builder = ServerConfig::builder();
    let builder = match &tls.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for ca in certificates("tls.client_ca", path)? {
                roots.add(ca).map_err(|e| error("tls.client_ca", path, &e))?;
            }
            let verifier =
                WebPkiClientVerifier::builder(Arc::new(roots)).build().map_err(|e| error("tls.client_ca", path, &e))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, private).map_err(|e| error("tls.key", &tls.key, &e))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Binds one address.
///
/// # Errors
/// [`ListenError`] naming key, port and remedy.
pub async fn bind(key: &'static str, address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse { key, port: address.port(), ip: address.ip() },
        _ => ListenError::Bind { key, address, source },
    })
}

/// Accepts connections, with handshakes off the accept loop so that a slow client delays nobody.
pub struct Listener {
    local: SocketAddr,
    accepted: mpsc::Receiver<(Connection, SocketAddr)>,
}

impl Listener {
    /// Starts accepting.
    ///
    /// # Errors
    /// When the socket has no address, which a bound one has.
    pub fn start(socket: TcpListener, tls: Option<TlsAcceptor>) -> io::Result<Self> {
        let local = socket.local_addr()?;
        let (send, accepted) = mpsc::channel(ACCEPTED_QUEUE);
        tokio::spawn(accept(socket, tls, send));
        Ok(Self { local, accepted })
    }
}

async fn accept(socket: TcpListener, tls: Option<TlsAcceptor>, send: mpsc::Sender<(Connection, SocketAddr)>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let (stream, peer) = tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, most likely: waiting is all that helps, spinning harms.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    continue;
                }
            },
            () = send.closed() => return,
        };
        _ = stream.set_nodelay(true);
        let (tls, send) = (tls.clone(), send.clone());
        tokio::spawn(async move {
            let stream = match tls {
                None => Stream::Plain(stream),
                Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                    Ok(Ok(stream)) => Stream::Tls(Box::new(stream)),
                    Ok(Err(error)) => return tracing::debug!(%peer, %error, "tls handshake failed"),
                    Err(_) => return tracing::debug!(%peer, "tls handshake timed out"),
                },
            };
            _ = send.send((Connection { stream, _slot: slot, patience: Patience::default() }, peer)).await;
        });
    }
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match self.accepted.recv().await {
            Some(connection) => connection,
            // The accept loop ends only with its receiver, so this waits for the server's own end.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

impl Connected<IncomingStream<'_, Listener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// A connection, which holds its slot until it is closed.
pub struct Connection {
    stream: Stream,
    _slot: OwnedSemaphorePermit,
    patience: Patience,
}

/// Ends writes to who takes nothing.
#[derive(Default)]
struct Patience(Option<Pin<Box<Sleep>>>);

impl Patience {
    /// What a write gave, or the end of it after [`STALL`] in which all writes gave nothing.
    fn watch<T>(&mut self, cx: Context<'_, '_>, polled: Poll<T>) -> Poll<T> {
        if polled.is_ready() {
            self.0 = None;
            return polled;
        }
        let stalled = self.0.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL)));
        stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<tokio_rustls::server::TlsStream<TcpStream>>),
}

/// Calls the same method of whichever stream it is.
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
        either!(self, poll_read, cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: Context<'_, '_>, buf: &[u8]) -> Poll<usize> {
        let polled = either!(self, poll_write, cx, buf);
        self.patience.watch(cx, polled)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: Context<'_, '_>, bufs: &[io::IoSlice<'_>]) -> Poll<usize> {
        let polled = either!(self, poll_write_vectored, cx, bufs);
        self.patience.watch(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(s) => s.is_write_vectored(),
            Stream::Tls(s) => s.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: Context<'_, '_>) -> Poll<()> {
        let polled = either!(self, poll_flush, cx);
        self.patience.watch(cx, polled)
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
    async fn a_client_that_takes_nothing_is_cut_off_and_a_slow_one_is_not() {
        let mut patience = Patience::default();
        for _ in 0..3 {
            let write = std::future::poll_fn(|cx| patience.watch(cx, Poll::<()>::Pending));
            assert!(timeout(STALL * 2 / 3, write).await.is_err(), "cut off too early");
            let taken = std::future::poll_fn(|cx| patience.watch(cx, Poll::Ready(Ok(1)))).await;
            assert_eq!(taken.unwrap(), 1);
            sleep(STALL).await;
        }
        let began = Instant::now();
        let write = std::future::poll_fn(|cx| patience.watch(cx, Poll::<()>::Pending));
        let end = timeout(STALL * 2, write).await.expect("never cut off");
        assert_eq!((end.unwrap_err().kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, STALL.as_secs()));
    }
}
