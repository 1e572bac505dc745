//! Client of the agent that runs on this host, for `status` and `top`.

use crate::config::Http;
use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{self, CryptoProvider, WebPkiSupportedAlgorithms};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
};

/// Timeout of each network operation.
const PATIENCE: Duration = Duration::from_secs(5);
/// Size limit of an answer, bytes: `/metrics` of a host with many ports, jobs and queue pairs has some ten MB.
const LONGEST: u64 = 128 << 20;

/// JSON answer for a path of the agent that this configuration starts.
///
/// # Errors
/// Without a listener, or when the agent does not answer.
pub fn ask(http: Option<&Http>, path: &str) -> anyhow::Result<Value> {
    let Some(http) = http else {
        bail!("the configuration has no listener (http.enabled = false), so the agent cannot be queried")
    };
    ensure!(http.listen.port() != 0, "http.listen has port 0, so the actual port is unknown");
    let address = reachable(http.listen);
    let answer = converse(address, path, http.identity.as_ref().map(|identity| identity.0.as_path()));
    answer.with_context(|| format!("asking the agent at {address}; does it run? (systemctl status fabriclens-agent)"))
}

/// Address to connect to; loopback for a listener on all addresses.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

fn converse(address: SocketAddr, path: &str, cert: Option<&Path>) -> anyhow::Result<Value> {
    let tcp = TcpStream::connect_timeout(&address, PATIENCE)?;
    tcp.set_read_timeout(Some(PATIENCE))?;
    tcp.set_write_timeout(Some(PATIENCE))?;
    let answer = match cert {
        None => get(tcp, address, path)?,
        Some(cert) => get(StreamOwned::new(pinned(cert, address.ip())?, tcp), address, path)?,
    };
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is not HTTP")?;
    let status = head.lines().next().unwrap_or_default();
    ensure!(status.contains(" 200 "), "it answered {status}");
    serde_json::from_str(body).context("the answer is not that of a Fabriclens agent of this version")
}

fn get(mut stream: impl Read + Write, address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut answer = String::new();
    stream.take(LONGEST).read_to_string(&mut answer)?;
    Ok(answer)
}

/// TLS connection that accepts only the certificate in this file, for any host name: it is the agent's own.
fn pinned(cert: &Path, ip: IpAddr) -> anyhow::Result<ClientConnection> {
    let own = CertificateDer::from_pem_file(cert).with_context(|| format!("reading {}", cert.display()))?;
    let provider = Arc::new(crypto::ring::default_provider());
    let pin = Arc::new(Pin { own, algorithms: provider.signature_verification_algorithms });
    Ok(ClientConnection::new(Arc::new(config(provider, pin)?), ServerName::from(ip))?)
}

fn config(provider: Arc<CryptoProvider>, pin: Arc<Pin>) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.dangerous().with_custom_certificate_verifier(pin).with_no_client_auth())
}

/// Verifier that accepts one certificate, if the server proves to have its key.
#[derive(Debug)]
struct Pin {
    own: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if *shown == self.own {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::General("it shows another certificate than http.cert".to_owned()))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls12_signature(message, cert, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls13_signature(message, cert, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcard_listener_is_reached_on_loopback() {
        let of = |listen: &str| reachable(listen.parse().unwrap()).to_string();
        assert_eq!(of("0.0.0.0:7471"), "127.0.0.1:7471");
        assert_eq!(of("[::]:7471"), "[::1]:7471");
        assert_eq!(of("192.0.2.7:9"), "192.0.2.7:9");
    }
}
