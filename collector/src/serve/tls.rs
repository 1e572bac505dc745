//! Certificates of the listeners, read again when their files change.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::listen::ListenError;
use crate::config::Tls;
use crate::reload::Reloaded;
use crate::telemetry::Telemetry;

/// What listeners accept connections with.
pub type Acceptor = Reloaded<TlsAcceptor>;

/// Reads certificate, key and client CA, now and whenever they change. `mandatory`: who shows no certificate is refused
/// before a request can be told; otherwise each request is looked at.
///
/// # Errors
/// [`ListenError::Tls`] naming the file.
pub fn acceptor(tls: &Tls, mandatory: bool, telemetry: &Telemetry) -> Result<Arc<Acceptor>, ListenError> {
    let files = [&tls.cert, &tls.key].into_iter().chain(&tls.client_ca).cloned().collect();
    let (tls, expiry) = (tls.clone(), telemetry.certificate_expiry.clone());
    Reloaded::new("tls", files, telemetry, move || {
        let (acceptor, expires) = load(&tls, mandatory)?;
        expiry.set(expires);
        Ok(acceptor)
    })
}

/// With the end of the first certificate of the chain that ends, Unix seconds.
fn load(tls: &Tls, mandatory: bool) -> Result<(TlsAcceptor, i64), ListenError> {
    let chain = certificates("tls.cert", &tls.cert)?;
    let ends = chain.iter().map(|c| expires(c).map_err(|e| error("tls.cert", &tls.cert, &e)));
    let ends: Vec<i64> = ends.collect::<Result<_, _>>()?;
    let private = PrivateKeyDer::from_pem_file(&tls.key).map_err(|e| error("tls.key", &tls.key, &e))?;
    let builder = ServerConfig::builder();
    let builder = match &tls.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for ca in certificates("tls.client_ca", path)? {
                roots.add(ca).map_err(|e| error("tls.client_ca", path, &e))?;
            }
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
            let verifier = if mandatory { verifier } else { verifier.allow_unauthenticated() };
            builder.with_client_cert_verifier(verifier.build().map_err(|e| error("tls.client_ca", path, &e))?)
        }
    };
    let mut config = builder.with_single_cert(chain, private).map_err(|e| error("tls.key", &tls.key, &e))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), ends.into_iter().min().unwrap_or(0)))
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
