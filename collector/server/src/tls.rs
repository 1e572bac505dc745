//! TLS of the listeners: certificates are reloaded when their files change, and client certificates of open connections
//! are verified again.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::UnixTime;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::{Accept, TlsAcceptor};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::listen_error::ListenError;
use fabriclens_config::Tls;
use fabriclens_core::reload::Reloaded;
use fabriclens_core::telemetry::Telemetry;

/// Interval at which the client certificate of an open connection is verified again.
const VERIFY_INTERVAL: Duration = Duration::from_secs(60);

/// The reloaded TLS settings of the listeners.
pub type Acceptor = Reloaded<TlsSettings>;

/// TLS settings loaded from one state of the files.
pub struct TlsSettings {
    acceptor: TlsAcceptor,
    /// Verifies client certificates.
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

impl TlsSettings {
    /// Starts the server side of a handshake.
    pub fn accept(&self, stream: TcpStream) -> Accept<TcpStream> {
        self.acceptor.accept(stream)
    }
}

/// Completes when the client certificate of an open connection is no longer valid: it expired, or its authority was
/// removed.
pub async fn client_refused(acceptor: Option<&Acceptor>, shown: Vec<CertificateDer<'static>>) {
    let (Some(acceptor), Some((own, chain))) = (acceptor, shown.split_first()) else {
        return std::future::pending().await;
    };
    let mut files = acceptor.subscribe();
    loop {
        let clients = files.borrow_and_update().clients.clone();
        let verified = clients.map(|clients| clients.verify_client_cert(own, chain, UnixTime::now()));
        if let Some(Err(error)) = verified {
            return tracing::info!(%error, "client certificate of an open connection is no longer valid; closing it");
        }
        // Woken by changed files or by time; the sender lives as long as `acceptor`.
        _ = tokio::time::timeout(VERIFY_INTERVAL, files.changed()).await;
    }
}

/// Loads certificate, key and client CA, and reloads them when they change. With `mandatory`, clients without a
/// certificate fail in the handshake; otherwise each request is checked.
///
/// # Errors
/// [`ListenError::Tls`] with the file.
pub fn acceptor(tls: &Tls, mandatory: bool, telemetry: &Telemetry) -> Result<Arc<Acceptor>, ListenError> {
    let files = [&tls.cert, &tls.key].into_iter().chain(&tls.client_ca).cloned().collect();
    let (tls, expiry) = (tls.clone(), telemetry.certificate_expiry.clone());
    Reloaded::new("tls", files, telemetry, move || {
        let (settings, expires) = load(&tls, mandatory)?;
        expiry.set(expires);
        Ok(settings)
    })
}

/// Loads the files; returns the earliest expiry of the certificate chain, too, Unix seconds.
fn load(tls: &Tls, mandatory: bool) -> Result<(TlsSettings, i64), ListenError> {
    let chain = certificates("tls.cert", &tls.cert)?;
    let ends = chain.iter().map(|c| expires(c).map_err(|e| error("tls.cert", &tls.cert, &e)));
    let ends: Vec<i64> = ends.collect::<Result<_, _>>()?;
    let private = PrivateKeyDer::from_pem_file(&tls.key).map_err(|e| error("tls.key", &tls.key, &e))?;
    let clients = match &tls.client_ca {
        None => None,
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for ca in certificates("tls.client_ca", path)? {
                roots.add(ca).map_err(|e| error("tls.client_ca", path, &e))?;
            }
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
            let verifier = if mandatory { verifier } else { verifier.allow_unauthenticated() };
            Some(verifier.build().map_err(|e| error("tls.client_ca", path, &e))?)
        }
    };
    let builder = ServerConfig::builder();
    let builder = match &clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(clients.clone()),
    };
    let mut config = builder.with_single_cert(chain, private).map_err(|e| error("tls.key", &tls.key, &e))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let settings = TlsSettings { acceptor: TlsAcceptor::from(Arc::new(config)), clients };
    Ok((settings, ends.into_iter().min().unwrap_or(0)))
}

fn error(key: &'static str, path: &Path, message: &dyn Display) -> ListenError {
    ListenError::Tls { key, path: PathBuf::from(path), message: message.to_string() }
}

fn certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, ListenError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match found {
        Ok(list) if list.is_empty() => Err(error(key, path, &"holds no certificate")),
        Ok(list) => Ok(list),
        Err(e) => Err(error(key, path, &e)),
    }
}

/// Expiry of a certificate, Unix seconds.
fn expires(der: &[u8]) -> Result<i64, String> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|e| format!("is not a certificate: {e}"))?;
    Ok(certificate.validity().not_after.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use std::time::SystemTime;

    /// Tokio's clock is paused, that of certificates is not.
    #[tokio::test(start_paused = true)]
    async fn expired_client_certificates_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let signed = |seconds: u64| {
            let (mut params, key) =
                (CertificateParams::new(vec!["h".to_owned()]).unwrap(), KeyPair::generate().unwrap());
            params.not_after = (SystemTime::now() + Duration::from_secs(seconds)).into();
            (params.signed_by(&key, &ca).unwrap(), key)
        };
        let (own, key) = signed(3600);
        let tls = Tls {
            cert: write("crt", own.pem()),
            key: write("key", key.serialize_pem()),
            client_ca: Some(write("ca", ca.pem())),
        };
        let acceptor = acceptor(&tls, true, &Telemetry::new().unwrap()).unwrap();
        let good_for = async |seconds: u64, virtually| {
            let (client, _) = signed(seconds);
            let refused = client_refused(Some(&acceptor), vec![client.der().clone()]);
            tokio::time::timeout(Duration::from_secs(virtually), refused).await
        };
        assert!(good_for(3600, 10 * VERIFY_INTERVAL.as_secs()).await.is_err(), "refused while valid");
        assert!(good_for(2, 100 * 365 * 86400).await.is_ok(), "accepted after expiry");
    }
}
