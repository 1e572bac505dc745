//! Connection to a target: TLS, credentials, limits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use fabriclens_config::{GnmiKind, GnmiTarget, GnmiTls};
use parking_lot::Mutex;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::transport::{self, Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// Longest time to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// Interval of pings, and the longest wait for their answer: a dead target is found in half a minute.
const PING: Duration = Duration::from_secs(20);
const PONG: Duration = Duration::from_secs(10);

/// Bytes that a target may send before they are read, of one stream and of all its streams. While the collector is short of
/// processor time, so much of each target waits in memory. The counters of 64 ports are 100 kB of JSON.
const STREAM_WINDOW: u32 = 256 << 10;
const WINDOW: u32 = 512 << 10;

/// A target cannot be called: a file is wrong.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}; check gnmi.targets and the permissions")]
    File {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// User or password are empty, or hold characters that HTTP does not allow.
    #[error("username or the password in {path} is empty or has characters that HTTP headers do not allow")]
    Login {
        /// The password file.
        path: PathBuf,
    },
    /// The address or a certificate is unusable.
    #[error("cannot use gnmi.targets.address, ca, cert or key: {0}")]
    Endpoint(#[from] transport::Error),
}

/// A channel, which connects at its first call, and what identifies this collector.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) channel: Channel,
    login: MetadataMap,
}

/// The connection that all streams of a target share.
#[derive(Debug, Default)]
pub(crate) struct SharedConnection(Mutex<(u64, Option<Connection>)>);

impl SharedConnection {
    /// The connection and its number. A new one reads all files again.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub(crate) fn get(&self, target: &GnmiTarget) -> Result<(u64, Connection), ConnectError> {
        let (number, current) = &mut *self.0.lock();
        if let Some(connection) = current {
            return Ok((*number, connection.clone()));
        }
        let new = Connection::new(target)?;
        *number += 1;
        *current = Some(new.clone());
        Ok((*number, new))
    }

    /// The connection of this number failed; the next stream makes another.
    pub(crate) fn discard(&self, failed: u64) {
        let (number, current) = &mut *self.0.lock();
        if *number == failed {
            *current = None;
        }
    }
}

impl Connection {
    /// Reads files and prepares the channel.
    ///
    /// # Errors
    /// [`ConnectError`].
    fn new(target: &GnmiTarget) -> Result<Self, ConnectError> {
        let scheme = if target.tls.is_some() { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{}", target.address))?
            .user_agent(concat!("fabriclens/", env!("CARGO_PKG_VERSION")))?
            .connect_timeout(CONNECT)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(WINDOW)
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .keep_alive_while_idle(true);
        if let Some(tls) = &target.tls {
            endpoint = endpoint.tls_config(self::tls(tls)?)?;
        }
        Ok(Self { channel: endpoint.connect_lazy(), login: login(target)? })
    }

    /// Adds what identifies this collector to a call.
    pub(crate) fn identify(&self, metadata: &mut MetadataMap) {
        metadata.as_mut().extend(self.login.clone().into_headers());
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ConnectError> {
    std::fs::read(path).map_err(|source| ConnectError::File { path: path.to_owned(), source })
}

fn tls(tls: &GnmiTls) -> Result<ClientTlsConfig, ConnectError> {
    let mut config = ClientTlsConfig::new();
    config = match &tls.ca {
        Some(ca) => config.ca_certificate(Certificate::from_pem(read(ca)?)),
        None => config.with_native_roots(),
    };
    if let Some((cert, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    if let Some(name) = &tls.server_name {
        config = config.domain_name(name);
    }
    Ok(config)
}

/// User and password: SONiC and most others read them from two headers, Cumulus from the header of HTTP.
fn login(target: &GnmiTarget) -> Result<MetadataMap, ConnectError> {
    let mut metadata = MetadataMap::new();
    let Some((user, path)) = &target.login else { return Ok(metadata) };
    let password = String::from_utf8(read(path)?).unwrap_or_default();
    let password = password.trim_end_matches(['\r', '\n']);
    let value = |text: &str| {
        let value = (!text.is_empty()).then(|| text.parse::<MetadataValue<Ascii>>().ok()).flatten();
        let mut value = value.ok_or_else(|| ConnectError::Login { path: path.clone() })?;
        value.set_sensitive(true);
        Ok::<_, ConnectError>(value)
    };
    let (name, secret) = (value(user)?, value(password)?);
    if target.kind == GnmiKind::Cumulus {
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        metadata.insert("authorization", value(&format!("Basic {pair}"))?);
    } else {
        metadata.insert("username", name);
        metadata.insert("password", secret);
    }
    Ok(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    /// Bytes of one stream that a client allows at the beginning of HTTP/2: number 4 of its first frame, SETTINGS.
    async fn stream_window(listener: TcpListener) -> u32 {
        const PREFACE: usize = 24;
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = [0; PREFACE + 9];
        socket.read_exact(&mut head).await.unwrap();
        let mut settings = vec![0; usize::from(head[PREFACE + 2])];
        socket.read_exact(&mut settings).await.unwrap();
        let setting = settings.chunks(6).find(|setting| setting[1] == 4).unwrap();
        u32::from_be_bytes(setting[2..].try_into().unwrap())
    }

    #[tokio::test]
    async fn what_a_target_sends_unread_is_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let kind = GnmiKind::Sonic;
        let interval = kind.least_interval();
        let target = GnmiTarget { name: "leaf1".into(), address, kind, interval, login: None, tls: None };
        let mut client = tonic::client::Grpc::new(Connection::new(&target).unwrap().channel);
        let path = tonic::codegen::http::uri::PathAndQuery::from_static("/");
        let requests = tonic::Request::new(futures_util::stream::pending());
        let call = tokio::spawn(async move {
            client.ready().await.unwrap();
            client.streaming(requests, path, crate::codec::SubscribeCodec).await.map(drop)
        });
        assert_eq!(stream_window(listener).await, STREAM_WINDOW);
        call.abort();
    }
}
