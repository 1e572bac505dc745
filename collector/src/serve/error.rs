//! Why a collector cannot start.

use fabriclens_forward::ForwardError;
use fabriclens_incidents::IncidentStoreError;
use fabriclens_server::listener::ListenError;
use fabriclens_store::OpenError;
use fabriclens_topology::TopologiesError;

/// The collector cannot start; `Display` names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data directory cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// A listener cannot start.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A token, password or authority file of another server cannot be used.
    #[error("{0}; give a file that this user can read")]
    Remote(#[from] fabriclens_core::endpoint::FileError),
    /// The token file cannot be used.
    #[error("auth.tokens: {0}; fabriclens token new --file writes such a file")]
    Tokens(String),
    /// A forward queue cannot be opened.
    #[error(transparent)]
    Forward(#[from] ForwardError),
    /// The job registry cannot be opened.
    #[error(transparent)]
    Jobs(#[from] fabriclens_jobs::RegistryError),
    /// The incident store cannot be opened.
    #[error(transparent)]
    Incidents(#[from] IncidentStoreError),
    /// The topology history cannot be opened.
    #[error(transparent)]
    Topology(#[from] TopologiesError),
    /// The lease of a judge cannot be used, or was lost.
    #[error("{0}")]
    Lease(String),
    /// Anything else: a bug, or a system without sockets.
    #[error("cannot start: {0}")]
    Other(String),
}
