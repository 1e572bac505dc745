//! Binds listeners and accepts connections, with TLS if configured, up to a limit in total and per address.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use foldhash::HashMap;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::answers::Answers;
use super::connection::{self, Connection, HANDSHAKE, Service, Stream};
use super::places::{Place, Places};
use super::tls::{Acceptor, client_refused};
use crate::auth::Guard;
pub use crate::listen_error::ListenError;
use crate::peer::Peer;
use fabriclens_config::ConnectionLimits;
use fabriclens_core::client_network::client_network;
use fabriclens_core::telemetry::Telemetry;

/// Binds an address.
///
/// # Errors
/// [`ListenError`] with key, port and remedy.
pub async fn bind(key: &'static str, address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse { key, port: address.port(), ip: address.ip() },
        _ => ListenError::Bind { key, address, source },
    })
}

/// Accepts the connections of one address.
#[derive(Clone)]
pub struct Listener {
    /// Reads the names in client certificates.
    pub guard: Arc<Guard>,
    /// TLS of the connections.
    pub tls: Option<Arc<Acceptor>>,
    /// Limits of the connections.
    pub limits: ConnectionLimits,
    /// Answers that wait for their readers.
    pub answers: Arc<Answers>,
    /// Counts refused connections.
    pub telemetry: Telemetry,
}

impl Listener {
    /// Accepts connections and lets `router` answer their requests until `stop` becomes true, then waits for requests
    /// in progress.
    pub async fn run(self, socket: TcpListener, router: Router, mut stop: watch::Receiver<bool>) {
        let places = Places::new(self.limits.all);
        let counts = ConnectionCounts::default();
        let loopback = socket.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let service = Service { router, answers: self.answers.clone() };
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                _ = stop.wait_for(|s| *s) => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most likely out of file descriptors; retrying at once would only burn CPU.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    continue;
                }
            };
            let Some(counted) = counts.take(peer.ip(), self.limits.of_address) else {
                self.telemetry.connections_refused.inc();
                tracing::debug!(%peer, most = self.limits.of_address, "connection closed; its address has too many (listen.connections_per_address)");
                continue;
            };
            let Some(place) = places.take(&self.telemetry).await else {
                self.telemetry.connections_refused.inc();
                continue;
            };
            _ = stream.set_nodelay(true);
            let (listener, service, stop) = (self.clone(), service.clone(), stop.clone());
            tokio::spawn(async move {
                let _counted = counted;
                tokio::select! {
                    () = listener.serve(stream, peer, loopback, &place, service, stop) => {}
                    () = place.activity().ended() => tracing::debug!(%peer, "connection cut"),
                }
            });
        }
        drop(socket);
        places.all_free().await;
    }

    async fn serve(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        loopback: bool,
        place: &Place,
        service: Service,
        mut stop: watch::Receiver<bool>,
    ) {
        let Some((stream, shown)) = self.handshake(stream, address).await else { return };
        let certificate = shown.first().and_then(|der| self.guard.certificate(der));
        let end = async {
            tokio::select! {
                _ = stop.wait_for(|s| *s) => {}
                () = client_refused(self.tls.as_deref(), shown) => {}
                () = place.over() => {}
            }
        };
        let peer = Peer { address, loopback, certificate, reserved: place.is_reserved() };
        connection::serve(Connection::new(stream, place.activity().clone()), peer, service, end).await;
    }

    /// Completes the TLS handshake and returns the certificates of the client. Runs outside the accept loop, so that a
    /// slow client delays no other one.
    async fn handshake(&self, stream: TcpStream, peer: SocketAddr) -> Option<(Stream, Vec<CertificateDer<'static>>)> {
        let Some(tls) = &self.tls else { return Some((Stream::Plain(stream), Vec::new())) };
        match tokio::time::timeout(HANDSHAKE, tls.get().accept(stream)).await {
            Ok(Ok(stream)) => {
                let shown = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
                return Some((Stream::Tls(Box::new(stream)), shown));
            }
            Ok(Err(error)) => tracing::debug!(%peer, %error, "tls handshake failed"),
            Err(_) => tracing::debug!(%peer, "tls handshake timed out"),
        }
        None
    }
}

/// Number of connections by client address; IPv6 by /64 network.
#[derive(Clone, Default)]
struct ConnectionCounts(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A counted connection; dropping it releases the slot.
struct CountedConnection {
    counts: ConnectionCounts,
    address: IpAddr,
}

impl ConnectionCounts {
    fn take(&self, address: IpAddr, most: usize) -> Option<CountedConnection> {
        let (own, address) = (address.to_canonical().is_loopback(), client_network(address));
        let mut all = self.0.lock();
        let taken = all.entry(address).or_default();
        if *taken >= most && !own {
            return None;
        }
        *taken += 1;
        Some(CountedConnection { counts: self.clone(), address })
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut all = self.counts.0.lock();
        if let Some(taken) = all.get_mut(&self.address) {
            *taken -= 1;
            if *taken == 0 {
                all.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_limited_per_address_except_loopback() {
        let counts = ConnectionCounts::default();
        let take = |ip: &str| counts.take(ip.parse().unwrap(), 2);
        let held = [take("10.0.0.1"), take("::ffff:10.0.0.1")];
        assert!(
            held.iter().all(Option::is_some) && take("10.0.0.1").is_none(),
            "two forms of one address count together"
        );
        let network = [take("2001:db8::1"), take("2001:db8::ffff:2")];
        assert!(
            network.iter().all(Option::is_some) && take("2001:db8:0:0:1::").is_none(),
            "addresses of one network count together"
        );
        assert!(take("2001:db8:0:1::1").is_some());
        assert!(take("10.0.0.2").is_some());
        let own: Vec<_> = ["127.0.0.1", "::1"].iter().flat_map(|ip| (0..5).map(|_| take(ip))).collect();
        assert!(own.iter().all(Option::is_some));
        drop((held, network, own));
        assert!(take("10.0.0.1").is_some());
        assert!(counts.0.lock().is_empty(), "closed connections leave no entry");
    }
}
