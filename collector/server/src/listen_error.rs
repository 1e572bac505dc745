//! Errors that keep a listener from starting.

use std::io;
use std::net::{IpAddr, SocketAddr};

/// A listener cannot start; `Display` names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The port is in use.
    #[error(
        "{key}: port {port} of {ip} is in use; stop the process that holds it (ss -ltnp 'sport = :{port}'), or set another address"
    )]
    InUse {
        /// Config key.
        key: &'static str,
        /// Port.
        port: u16,
        /// Address.
        ip: IpAddr,
    },
    /// The address cannot be bound.
    #[error(
        "{key}: cannot listen on {address}: {source}; set an address of this host and a port that this user may bind"
    )]
    Bind {
        /// Config key.
        key: &'static str,
        /// Address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// Certificate, key or client CA cannot be used.
    #[error("{key} {path}: {message}; give a PEM file that this user can read")]
    Tls {
        /// Config key.
        key: &'static str,
        /// File.
        path: std::path::PathBuf,
        /// Cause.
        message: String,
    },
}
