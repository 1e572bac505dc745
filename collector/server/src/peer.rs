//! The client of a connection, as the listener hands it to authentication.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::auth::Certificate;

/// The client of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Remote address.
    pub address: SocketAddr,
    /// Whether the listener is bound to a loopback address.
    pub loopback: bool,
    /// Verified client certificate.
    pub certificate: Option<Arc<Certificate>>,
    /// Whether its connection has a place for health checks alone.
    pub reserved: bool,
}
