//! Certificates of the listeners, read again when their files change, and those of clients, looked at again.

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

use crate::listener::ListenError;
use fabriclens_config::Tls;
use fabriclens_core::reload::Reloaded;
use fabriclens_core::telemetry::Telemetry;

/// Between two looks at the certificate of a client that is connected.
const AGAIN: Duration = Duration::from_secs(60);

/// What listeners accept connections with.
pub type Acceptor = Reloaded<Accepts>;

/// The files of a moment.
pub struct Accepts {
    acceptor: TlsAcceptor,
    /// Clients that show a certificate.
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

impl Accepts {
    /// The server's side of a handshake.
    pub fn accept(&self, stream: TcpStream) -> Accept<TcpStream> {
        self.acceptor.accept(stream)
    }
}

/// Ends when what a client showed in its handshake would be refused now: its time is over, or who vouches for it was
/// taken out.
pub async fn refused(acceptor: Option<&Acceptor>, shown: Vec<CertificateDer<'static>>) {
    let (Some(acceptor), Some((own, chain))) = (acceptor, shown.split_first()) else {
        return std::future::pending().await;
    };
    let mut files = acceptor.subscribe();
    loop {
        let clients = files.borrow_and_update().clients.clone();
        let verified = clients.map(|clients| clients.verify_client_cert(own, chain, UnixTime::now()));
        if let Some(Err(error)) = verified {
            return tracing::info!(%error, "the certificate of a client that is connected is good no more");
        }
        // Whether files or time changed; the files' sender is there as long as `acceptor`.
        _ = tokio::time::timeout(AGAIN, files.changed()).await;
    }
}

/// Reads certificate, key and client CA, now and whenever they change. `mandatory`: who shows no certificate is refused
/// before a request can be told; otherwise each request is looked at.
///
/// # Errors
/// [`ListenError::Tls`] naming the file.
pub fn acceptor(tls: &Tls, mandatory: bool, telemetry: &Telemetry) -> Result<Arc<Acceptor>, ListenError> {
    let files = [&tls.cert, &tls.key].into_iter().chain(&tls.client_ca).cloned().collect();
    let (tls, expiry) = (tls.clone(), telemetry.certificate_expiry.clone());
    Reloaded::new("tls", files, telemetry, move || {
        let (accepts, expires) = load(&tls, mandatory)?;
        expiry.set(expires);
        Ok(accepts)
    })
}

/// With the end of the first certificate of the chain that ends, Unix seconds.
fn load(tls: &Tls, mandatory: bool) -> Result<(Accepts, i64), ListenError> {
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
    let accepts = Accepts { acceptor: TlsAcceptor::from(Arc::new(config)), clients };
    Ok((accepts, ends.into_iter().min().unwrap_or(0)))
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

/// When a certificate ends, Unix seconds.
fn expires(der: &[u8]) -> Result<i64, String> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|e| format!("is no certificate: {e}"))?;
    Ok(certificate.validity().not_after.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use std::time::SystemTime;

    /// The tokio clock runs as fast as it can, the one of certificates does not.
    #[tokio::test(start_paused = true)]
    async fn a_certificate_that_ends_is_refused_from_then_on() {
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
            let refused = refused(Some(&acceptor), vec![client.der().clone()]);
            tokio::time::timeout(Duration::from_secs(virtually), refused).await
        };
        assert!(good_for(3600, 10 * AGAIN.as_secs()).await.is_err(), "refused while it is good");
        assert!(good_for(2, 100 * 365 * 86400).await.is_ok(), "good for ever");
    }
}
