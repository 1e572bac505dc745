//! Configuration in two types: as written ([`raw`]) and as checked ([`Config`]). Precedence: flags, environment, file,
//! defaults. `main` loads it once; no socket or device is opened and no thread starts before all of it is valid.

mod load;
pub mod raw;

pub use load::{Overrides, load};

use crate::collectives::Collectives;
use crate::ib_fabric::IbFabric;
use crate::probing::Probing;
use crate::schedule::Settings;
use axum::http::Uri;
use fabriclens_agent_uplink::config::{Collector, Spool};
use fabriclens_base::{duration::DurationError, size::SizeError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Checked configuration of the agent.
#[derive(Clone, Debug)]
pub struct Config {
    /// Sampling settings. `host` is empty unless configured.
    pub settings: Settings,
    /// Reader of the InfiniBand subnet, also if it is off; `settings` has it only if it is on.
    pub ib_fabric: Arc<IbFabric>,
    /// Reader of collectives, also if it is off; `settings` has it only if it is on.
    pub collectives: Arc<Collectives>,
    /// Tracing and probing, also if they are off; `settings` has them only if they are on.
    pub probing: Arc<Probing>,
    /// Destination of samples; `None`: only `/metrics`.
    pub collector: Option<Collector>,
    /// On-disk buffer for samples that no collector accepts.
    pub spool: Spool,
    /// Listener of `/metrics`; `None`: no listener.
    pub http: Option<Http>,
    /// Directives of the log filter, for instance `info` or `warn,fabriclens_agent=debug`.
    pub log: String,
    /// Whether the agent restricts itself with Landlock and seccomp.
    pub sandbox: bool,
}

impl Config {
    /// PEM and token files of the configuration.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let listener = self.http.iter().filter_map(|http| http.identity.as_ref()).flat_map(|(cert, key)| [cert, key]);
        self.collector.iter().flat_map(Collector::files).chain(listener.map(PathBuf::as_path))
    }

    /// Ports of the collectors.
    pub fn collector_ports(&self) -> Vec<u16> {
        let port = |url: &String| {
            let url: Uri = url.parse().ok()?;
            Some(url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 }))
        };
        self.collector.iter().flat_map(|c| std::iter::once(&c.url).chain(&c.others)).filter_map(port).collect()
    }
}

/// HTTP listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Address; port 0 takes any free port.
    pub listen: SocketAddr,
    /// Certificate chain and private key, PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Accepts plain text beyond loopback; logged as a warning at every start.
    pub insecure: bool,
    /// Additional host names accepted on a loopback listener without TLS.
    pub names: Vec<String>,
}

/// Reason why a configuration is refused; `Display` names the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Every user of the host can read a secret file.
    #[error("{what}: every user of this host can read {path}; run: chmod o-rwx {path}")]
    Exposed {
        /// Configuration key.
        what: &'static str,
        /// The file that holds the secret.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read config {path}; check the path and its permissions")]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// Invalid TOML, or a value of the wrong type.
    #[error("{place}: {message}")]
    Syntax {
        /// File or environment variable.
        place: String,
        /// Message of the parser, with line and column.
        message: String,
    },
    /// Unknown key, variable or sampler.
    #[error("{place}: unknown {what} {name:?}{}", .hint.as_ref().map(|h| format!("; did you mean {h:?}?")).unwrap_or_default())]
    Unknown {
        /// File or environment.
        place: String,
        /// `key`, `variable` or `sampler`.
        what: &'static str,
        /// Name as written.
        name: String,
        /// Nearest valid name.
        hint: Option<String>,
    },
    /// The value is not a duration.
    #[error("{key}")]
    Duration {
        /// The key.
        key: &'static str,
        /// The text, and what a duration looks like.
        #[source]
        source: DurationError,
    },
    /// The value is not a size in bytes.
    #[error("{key}")]
    Size {
        /// The key.
        key: &'static str,
        /// The text, and what a size looks like.
        #[source]
        source: SizeError,
    },
    /// Value out of range.
    #[error("{key}: {message}")]
    Value {
        /// The key.
        key: &'static str,
        /// Problem and remedy.
        message: String,
    },
    /// Unencrypted traffic beyond this host.
    #[error(
        "{key} = {value} is beyond this host and not encrypted; use {tls}, or set {insecure} = true to accept plain text"
    )]
    Insecure {
        /// Configuration key.
        key: &'static str,
        /// Its value.
        value: String,
        /// Keys that turn on encryption.
        tls: &'static str,
        /// Key that accepts plain text.
        insecure: &'static str,
    },
}
