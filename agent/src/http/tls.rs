//! TLS for the agent's own server.

use fabriclens_base::reload::WatchedFiles;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig, crypto};

/// Accepts with certificate and key as they are in their files.
pub(super) struct Acceptor {
    identity: (PathBuf, PathBuf),
    files: WatchedFiles,
    now: TlsAcceptor,
}

impl Acceptor {
    pub(super) fn new(identity: &(PathBuf, PathBuf)) -> Result<Self, TlsError> {
        let files = WatchedFiles::new(vec![identity.0.clone(), identity.1.clone()]);
        Ok(Self { now: acceptor(&identity.0, &identity.1)?, identity: identity.clone(), files })
    }

    /// For the next connection. Files that changed and cannot be used are told, and those before go on.
    pub(super) fn get(&mut self) -> &TlsAcceptor {
        let (cert, key) = &self.identity;
        match self.files.poll_if_due(|| acceptor(cert, key)) {
            None => {}
            Some(Ok(new)) => {
                self.now = new;
                tracing::info!("the certificate of the HTTP server changed; new connections get the new one");
            }
            Some(Err(error)) => {
                tracing::warn!(
                    error,
                    "the certificate of the HTTP server changed and cannot be used yet; the one before is kept"
                );
            }
        }
        &self.now
    }
}

/// Why certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is unreadable or no PEM.
    #[error("reading {path} for TLS of the HTTP server; it must be a PEM file that the agent may read")]
    Pem {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: pem::Error,
    },
    /// They do not fit together.
    #[error("using {cert} and its key for TLS of the HTTP server; check that they belong together")]
    Rejected {
        /// The certificate.
        cert: PathBuf,
        /// Why.
        #[source]
        source: rustls::Error,
    },
}

fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let pem = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::Pem { path, source }
    };
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(cert).and_then(Iterator::collect).map_err(pem(cert))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(pem(key))?;
    let rejected = |source| TlsError::Rejected { cert: cert.to_owned(), source };
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(rejected)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(rejected)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
