//! TLS of the agent's HTTP server.

use fabriclens_base::reload::WatchedFiles;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig, crypto};

/// TLS acceptor that reloads certificate and key when their files change.
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

    /// Acceptor for the next connection. Changed files that are unusable are logged; the previous ones stay in use.
    pub(super) fn get(&mut self) -> &TlsAcceptor {
        let (cert, key) = &self.identity;
        match self.files.poll_if_due(|| acceptor(cert, key)) {
            None => {}
            Some(Ok(new)) => {
                self.now = new;
                tracing::info!("certificate of the HTTP server reloaded");
            }
            Some(Err(error)) => {
                tracing::warn!(
                    error,
                    "changed certificate of the HTTP server is unusable; the previous one stays in use"
                );
            }
        }
        &self.now
    }
}

/// Reason why certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is unreadable or not PEM.
    #[error("reading {path} for TLS of the HTTP server; it must be a PEM file that the agent may read")]
    Pem {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: pem::Error,
    },
    /// Certificate and key do not match.
    #[error("using {cert} and its key for TLS of the HTTP server; check that they belong together")]
    Rejected {
        /// The certificate.
        cert: PathBuf,
        /// Cause.
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
