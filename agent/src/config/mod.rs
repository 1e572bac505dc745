//! Config in two types: as written ([`raw`]) and as checked ([`Config`]). Flags beat environment beats file beats
//! defaults. `main` loads it once; nothing is opened, bound or started before all of it is valid.

mod load;
pub mod raw;

pub use load::{Overrides, load};

use crate::schedule::Settings;
use axum::http::Uri;
use fabriclens_agent_uplink::config::{Collector, Spool};
use fabriclens_base::{duration::DurationError, size::SizeError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Everything the agent can be told, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// What to sample, and how often. `host` is empty unless it was set.
    pub settings: Settings,
    /// Where samples go; none: only `/metrics`.
    pub collector: Option<Collector>,
    /// Where they wait on disk while no collector takes them.
    pub spool: Spool,
    /// Where `/metrics` is served; none: nowhere.
    pub http: Option<Http>,
    /// Directives of the log filter, for instance `info` or `warn,fabriclens_agent=debug`.
    pub log: String,
    /// Whether it shuts itself in once it runs.
    pub sandbox: bool,
}

impl Config {
    /// PEM files that it names.
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

/// The listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Address; port 0 takes any free port.
    pub listen: SocketAddr,
    /// Certificate chain and private key, PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Plain text beyond loopback was accepted; logged at every start.
    pub insecure: bool,
    /// Names beside its own by which it is asked on loopback without TLS.
    pub names: Vec<String>,
}

/// Why a config is refused; `Display` names the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A secret that others can read.
    #[error("{what}: every user of this host can read {path}; run: chmod o-rwx {path}")]
    Exposed {
        /// The key.
        what: &'static str,
        /// The file that holds the secret.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read config {path}; check the path and its permissions")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is no TOML, or a value has the wrong type.
    #[error("{place}: {message}")]
    Syntax {
        /// File or environment variable.
        place: String,
        /// What the parser says, with line and column.
        message: String,
    },
    /// A key, variable or name that does not exist.
    #[error("{place}: unknown {what} {name:?}{}", .hint.as_ref().map(|h| format!("; did you mean {h:?}?")).unwrap_or_default())]
    Unknown {
        /// File or environment.
        place: String,
        /// `key`, `variable` or `sampler`.
        what: &'static str,
        /// As written.
        name: String,
        /// The nearest valid one.
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
    /// A value outside what makes sense.
    #[error("{key}: {message}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong and what would be right.
        message: String,
    },
    /// Plain text beyond this host.
    #[error(
        "{key} = {value} is beyond this host and not encrypted; use {tls}, or set {insecure} = true to accept plain text"
    )]
    Insecure {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What would encrypt it.
        tls: &'static str,
        /// The key that accepts it.
        insecure: &'static str,
    },
}
